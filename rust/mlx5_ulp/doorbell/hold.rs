// SPDX-License-Identifier: GPL-2.0

//! How long a posted WQE may wait for the doorbell.
//!
//! When the first WQE begins to wait, a timer is set to the end of its hold time, unless it runs already.
//! Ringing does not stop the timer: when it expires, either the WQE still waits and is rung, or another
//! one has begun to wait since then and the timer is set again, to the end of that one's time, or it
//! stops. So the timer is started once in a hold time at most, and nothing waits longer.

use kernel::bindings;

/// Range of the hold time, microseconds.
pub(crate) const RANGE_US: core::ops::RangeInclusive<u32> = 1..=10_000;
/// Usual hold time, microseconds.
pub(crate) const DEFAULT_US: u32 = 50;

/// The hold time of one queue. Belongs to its poster.
pub(crate) struct Hold {
    /// Longest time, nanoseconds.
    limit: i64,
    /// When the first of those that wait began to, by the monotonic clock, nanoseconds.
    since: i64,
    /// Whether the timer runs.
    running: bool,
}

/// What the timer does next.
pub(crate) enum Expiry {
    /// Rings, and stops.
    Ring,
    /// Runs again for so many nanoseconds.
    Again(i64),
    /// Stops.
    Stop,
}

/// The monotonic clock, nanoseconds.
fn now() -> i64 {
    // SAFETY: May be called in any context but an NMI.
    unsafe { bindings::ktime_get() }
}

impl Hold {
    /// With the usual time.
    pub(crate) fn new() -> Self {
        Self {
            limit: i64::from(DEFAULT_US).wrapping_mul(1000),
            since: 0,
            running: false,
        }
    }

    /// Changes the time to `us` microseconds, brought into [`RANGE_US`]. A timer that runs ends by the old
    /// one.
    pub(crate) fn set(&mut self, us: u32) {
        let us = us.clamp(*RANGE_US.start(), *RANGE_US.end());
        self.limit = i64::from(us).wrapping_mul(1000);
    }

    /// The first WQE begins to wait. `Some`: the timer has to be started, for so many nanoseconds.
    pub(crate) fn begin(&mut self) -> Option<i64> {
        self.since = now();
        if core::mem::replace(&mut self.running, true) {
            return None;
        }
        Some(self.limit)
    }

    /// The timer has expired. `waiting` says whether anything waits.
    pub(crate) fn expired(&mut self, waiting: bool) -> Expiry {
        let left = self.limit.wrapping_sub(now().wrapping_sub(self.since));
        if waiting && left > 0 {
            return Expiry::Again(left);
        }
        self.running = false;
        if waiting {
            Expiry::Ring
        } else {
            Expiry::Stop
        }
    }
}
