// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What those who complete have to know of the doorbell, without a look at the poster.
//!
//! After each round of completions somebody has to ring for what waits, if the HCA has nothing else to
//! do, and to tell the policy of the load. Both need the lock of the poster. Mostly nothing waits and the
//! load is as it was: this says so, at the cost of one barrier.
//!
//! # Ordering
//!
//! A poster lets a WQE wait because it has seen that a completion is still to come. Whoever takes that
//! completion has to see the WQE, or the poster that the completion has come; each writes its own word and
//! then reads the other's, with a full barrier in between:
//!
//! | poster, with its lock | who completes |
//! |---|---|
//! | `waits` is set | requests are retired |
//! | barrier of [`Pending::begin`] | barrier of [`Pending::concerns`] |
//! | what is retired is read again | `waits` is read |
//!
//! One of the two barriers comes first. If it is the poster's, the other side reads `waits` and takes the
//! lock; if it is the other one, the poster reads what was retired and rings.

use core::ops::RangeInclusive;

use super::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use super::full_barrier;

/// Of one queue.
#[derive(Debug)]
pub struct Pending {
    /// Whether WQEs wait for the doorbell.
    waits: AtomicBool,
    /// Loads that are no news to the policy: from here on, so many more. A hint.
    low: AtomicU32,
    span: AtomicU32,
}

impl Pending {
    /// Nothing waits, and no load is news.
    pub fn new() -> Pending {
        Pending {
            waits: AtomicBool::new(false),
            low: AtomicU32::new(0),
            span: AtomicU32::new(u32::MAX),
        }
    }

    /// WQEs begin to wait. For the poster, who then looks again whether the completion that it counts on
    /// is still to come.
    #[inline]
    pub fn begin(&self) {
        // Release: who sees it sees what the poster goes by.
        self.waits.store(true, Release);
        full_barrier();
    }

    /// Nothing waits any more. For the poster.
    #[inline(always)]
    pub fn end(&self) {
        self.waits.store(false, Relaxed);
    }

    /// Loads of this range are no news to the policy. For the poster.
    pub fn expect(&self, loads: RangeInclusive<u32>) {
        self.low.store(*loads.start(), Relaxed);
        let span = loads.end().saturating_sub(*loads.start());
        self.span.store(span, Relaxed);
    }

    /// Whether a round of completions under this load, whose requests have been retired, concerns the
    /// poster.
    #[inline(always)]
    pub fn concerns(&self, load: u32) -> bool {
        if load.wrapping_sub(self.low.load(Relaxed)) > self.span.load(Relaxed) {
            return true;
        }
        full_barrier();
        self.waits.load(Acquire)
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}
