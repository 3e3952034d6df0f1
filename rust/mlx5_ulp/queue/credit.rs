// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How many requests may be posted.
//!
//! A queue takes `depth` requests at a time. Posting reserves credits all or nothing; each comes back
//! when its request is retired, before the consumer hears of it, so that its callback can always post
//! the next one.
//!
//! One side posts (under the lock of the queue, or as its only user), one side retires (whoever polls).
//! Each counter has one writer and its own cache line.

use core::sync::atomic::{AtomicU32, Ordering};

/// A value on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// There is no room for all requests of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The side of the poster.
#[derive(Debug)]
struct Posting {
    /// Requests posted, free running. Written by the poster.
    posted: AtomicU32,
    /// Most requests in flight; 0 when the queue takes no more.
    limit: AtomicU32,
}

/// Credits of one queue.
#[derive(Debug)]
pub struct Credit {
    posting: Line<Posting>,
    /// Requests retired, free running. Written by the side that retires.
    retired: Line<AtomicU32>,
}

impl Credit {
    /// `depth` requests may be in flight, at most 2^31.
    pub const fn new(depth: u32) -> Credit {
        Credit {
            posting: Line(Posting {
                posted: AtomicU32::new(0),
                limit: AtomicU32::new(depth),
            }),
            retired: Line(AtomicU32::new(0)),
        }
    }

    /// Finds room for `n` requests and returns the number of the first. Nothing is taken until
    /// [`Credit::commit`], so a poster that stops in between leaves nothing behind.
    ///
    /// For the poster only.
    ///
    /// # Errors
    ///
    /// [`Full`] when not all of them fit, or when the queue was closed.
    #[inline(always)]
    pub fn reserve(&self, n: u32) -> Result<u32, Full> {
        let posted = self.posting.0.posted.load(Ordering::Relaxed);
        // Acquire: what the other side read of the retired request is read; its entry may be reused.
        let used = posted.wrapping_sub(self.retired.0.load(Ordering::Acquire));
        let limit = self.posting.0.limit.load(Ordering::Relaxed);
        match used.checked_add(n) {
            Some(total) if total <= limit => Ok(posted),
            _ => Err(Full),
        }
    }

    /// Takes `n` credits that [`Credit::reserve`] has found; from here on the requests count as posted.
    ///
    /// For the poster only.
    #[inline(always)]
    pub fn commit(&self, n: u32) {
        let posted = self.posting.0.posted.load(Ordering::Relaxed);
        self.posting
            .0
            .posted
            .store(posted.wrapping_add(n), Ordering::Release);
    }

    /// Gives back the credit of the oldest request, and returns its number.
    ///
    /// For the side that retires only, once for each posted request.
    #[inline(always)]
    pub fn retire(&self) -> u32 {
        let retired = self.retired.0.load(Ordering::Relaxed);
        self.retired
            .0
            .store(retired.wrapping_add(1), Ordering::Release);
        retired
    }

    /// Requests posted so far, free running.
    #[inline(always)]
    pub fn posted(&self) -> u32 {
        self.posting.0.posted.load(Ordering::Acquire)
    }

    /// Requests retired so far, free running.
    #[inline(always)]
    pub fn retired(&self) -> u32 {
        self.retired.0.load(Ordering::Acquire)
    }

    /// Requests in flight. A snapshot: exact only for a caller that holds up both sides.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        // Retired first: it never overtakes what was posted before it was read.
        let retired = self.retired();
        self.posted().wrapping_sub(retired)
    }

    /// From here on every reservation fails. Requests in flight stay to be retired.
    pub fn close(&self) {
        self.posting.0.limit.store(0, Ordering::Release);
    }

    /// Takes requests again, up to `depth` at a time.
    pub fn open(&self, depth: u32) {
        self.posting.0.limit.store(depth, Ordering::Release);
    }

    /// Whether reservations fail because of [`Credit::close`].
    pub fn is_closed(&self) -> bool {
        self.posting.0.limit.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing() {
        let c = Credit::new(4);
        assert_eq!(c.reserve(3), Ok(0));
        c.commit(3);
        assert_eq!(c.reserve(2), Err(Full));
        assert_eq!(c.reserve(1), Ok(3));
        c.commit(1);
        assert_eq!(c.reserve(1), Err(Full));
        assert_eq!(c.retire(), 0);
        assert_eq!(c.reserve(1), Ok(4));
    }

    #[test]
    fn an_absurd_number_does_not_fit() {
        let c = Credit::new(4);
        c.commit(1);
        assert_eq!(c.reserve(u32::MAX), Err(Full));
    }

    #[test]
    fn counters_wrap() {
        let c = Credit::new(2);
        c.posting.0.posted.store(u32::MAX, Ordering::Relaxed);
        c.retired.0.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(c.reserve(2), Ok(u32::MAX));
        c.commit(2);
        assert_eq!(c.in_flight(), 2);
        assert_eq!(c.reserve(1), Err(Full));
        assert_eq!(c.retire(), u32::MAX);
        assert_eq!(c.retire(), 0);
        assert_eq!(c.in_flight(), 0);
    }

    #[test]
    fn closed_takes_nothing() {
        let c = Credit::new(2);
        c.close();
        assert_eq!(c.reserve(1), Err(Full));
        assert!(c.is_closed());
        c.open(2);
        assert_eq!(c.reserve(2), Ok(0));
    }
}
