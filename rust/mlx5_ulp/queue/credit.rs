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

/// What kind of handle posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// Any number of posters, under the queue's lock.
    Shared = 0,
    /// One poster at a time, by its own word.
    Exclusive = 1,
}

/// What a post looks like. Posts that need nothing special take a shorter way, as long as the queue
/// has nothing special to do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Anything.
    Any = 0,
    /// One plain request.
    One = 1,
    /// A chain of plain requests.
    Chain = 2,
}

/// There is no room for all requests of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The side of the poster.
#[derive(Debug)]
struct Posting {
    /// Requests posted, free running. Written by the poster.
    posted: AtomicU32,
    /// Most requests in flight; 0 when the queue takes no more. By kind of handle and by way: a queue
    /// takes posts by one kind only, for the other it is closed for good.
    limits: [[AtomicU32; 3]; 2],
}

/// Credits of one queue.
#[derive(Debug)]
pub struct Credit {
    posting: Line<Posting>,
    /// Requests retired, free running. Written by the side that retires.
    retired: Line<AtomicU32>,
}

impl Credit {
    /// Credits of a queue that takes nothing yet.
    pub const fn new() -> Credit {
        Credit {
            posting: Line(Posting {
                posted: AtomicU32::new(0),
                limits: [const { [const { AtomicU32::new(0) }; 3] }; 2],
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
    /// [`Full`] when not all of them fit, or when the queue was closed, or this way of it.
    #[inline(always)]
    pub fn reserve(&self, handle: Handle, way: Way, n: u32) -> Result<u32, Full> {
        let limit = self.posting.0.limits[handle as usize][way as usize].load(Ordering::Relaxed);
        self.reserve_below(limit, n)
    }

    /// Whether there is room for `n` requests of any kind. A snapshot.
    pub fn has_room(&self, handle: Handle, n: u32) -> bool {
        let limit =
            self.posting.0.limits[handle as usize][Way::Any as usize].load(Ordering::Relaxed);
        u64::from(self.in_flight()) + u64::from(n) <= u64::from(limit)
    }

    /// As [`Credit::reserve`], with at most `limit` requests in flight, whether the queue is closed or
    /// not.
    ///
    /// # Errors
    ///
    /// [`Full`] when not all of them fit.
    #[inline(always)]
    pub fn reserve_below(&self, limit: u32, n: u32) -> Result<u32, Full> {
        let first = self.posting.0.posted.load(Ordering::Relaxed);
        // Acquire: what the other side read of the retired request is read; its entry may be reused.
        let used = first.wrapping_sub(self.retired.0.load(Ordering::Acquire));
        // A closed queue has more in use than its limit.
        if u64::from(used) + u64::from(n) <= u64::from(limit) {
            Ok(first)
        } else {
            Err(Full)
        }
    }

    /// Takes the credits that [`Credit::reserve`] has found, up to request number `end`: that of the
    /// first and how many there were. From here on the requests count as posted.
    ///
    /// For the poster only.
    #[inline(always)]
    pub fn commit(&self, end: u32) {
        self.posting.0.posted.store(end, Ordering::Release);
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

    /// Gives back the credits of all requests before number `next`, which are in flight.
    ///
    /// For the side that retires only.
    #[inline(always)]
    pub fn set_retired(&self, next: u32) {
        self.retired.0.store(next, Ordering::Release);
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
        for limit in self.posting.0.limits.as_flattened() {
            limit.store(0, Ordering::Release);
        }
    }

    /// Takes requests by this kind of handle and this way, up to `depth` at a time, at most 2^31; 0 for
    /// none.
    pub fn open(&self, handle: Handle, way: Way, depth: u32) {
        self.posting.0.limits[handle as usize][way as usize].store(depth, Ordering::Release);
    }
}

impl Default for Credit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Handle::{Exclusive, Shared};
    use super::Way::{Any, Chain, One};
    use super::*;

    fn open(depth: u32) -> Credit {
        let c = Credit::new();
        c.open(Shared, Any, depth);
        c
    }

    #[test]
    fn all_or_nothing() {
        let c = open(4);
        assert_eq!(c.reserve(Shared, Any, 3), Ok(0));
        c.commit(3);
        assert_eq!(c.reserve(Shared, Any, 2), Err(Full));
        assert_eq!(c.reserve(Shared, Any, 1), Ok(3));
        c.commit(4);
        assert_eq!(c.reserve(Shared, Any, 1), Err(Full));
        assert_eq!(c.retire(), 0);
        assert_eq!(c.reserve(Shared, Any, 1), Ok(4));
    }

    #[test]
    fn an_absurd_number_does_not_fit() {
        let c = open(4);
        c.commit(1);
        assert_eq!(c.reserve(Shared, Any, u32::MAX), Err(Full));
    }

    #[test]
    fn counters_wrap() {
        let c = open(2);
        c.posting.0.posted.store(u32::MAX, Ordering::Relaxed);
        c.retired.0.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(c.reserve(Shared, Any, 2), Ok(u32::MAX));
        c.commit(1);
        assert_eq!(c.in_flight(), 2);
        assert_eq!(c.reserve(Shared, Any, 1), Err(Full));
        assert_eq!(c.retire(), u32::MAX);
        assert_eq!(c.retire(), 0);
        assert_eq!(c.in_flight(), 0);
    }

    #[test]
    fn closed_takes_nothing() {
        let c = Credit::new();
        assert_eq!(c.reserve(Shared, Any, 1), Err(Full));
        c.open(Shared, Any, 2);
        assert_eq!(c.reserve(Shared, Any, 2), Ok(0));
        c.commit(2);
        c.close();
        assert_eq!(c.reserve(Shared, Any, 1), Err(Full));
        assert_eq!(c.in_flight(), 2);
    }

    #[test]
    fn each_way_is_open_by_itself() {
        let c = open(4);
        assert_eq!(c.reserve(Shared, One, 1), Err(Full));
        c.open(Shared, One, 4);
        assert_eq!(c.reserve(Shared, One, 1), Ok(0));
        assert_eq!(c.reserve(Shared, Chain, 2), Err(Full));
        c.open(Shared, One, 0);
        assert_eq!(c.reserve(Shared, One, 1), Err(Full));
        assert_eq!(c.reserve(Shared, Any, 4), Ok(0));
        c.open(Shared, Chain, 4);
        c.close();
        for way in [Any, One, Chain] {
            assert_eq!(c.reserve(Shared, way, 1), Err(Full));
        }
    }

    #[test]
    fn room_below_a_limit() {
        let c = open(4);
        c.commit(3);
        assert!(c.has_room(Shared, 1));
        assert!(!c.has_room(Shared, 2));
        assert!(!c.has_room(Shared, u32::MAX));
        c.open(Shared, Any, 3);
        assert!(!c.has_room(Shared, 1));
        assert_eq!(c.reserve_below(4, 1), Ok(3));
        c.retire();
        assert!(c.has_room(Shared, 1));
        c.close();
        assert!(!c.has_room(Shared, 1));
    }

    #[test]
    fn a_queue_is_open_for_one_kind_of_handle() {
        let c = Credit::new();
        c.open(Exclusive, Any, 2);
        assert_eq!(c.reserve(Shared, Any, 1), Err(Full));
        assert_eq!(c.reserve(Exclusive, Any, 2), Ok(0));
        c.close();
        assert_eq!(c.reserve(Exclusive, Any, 1), Err(Full));
    }
}
