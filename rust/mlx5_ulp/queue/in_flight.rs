// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What was posted and has not completed: from the block that a completion names to the requests.
//!
//! Requests are numbered in the order in which they were posted and retire in that order. A WQE carries
//! one request or, when adjacent requests were merged, several. Two tables describe them:
//!
//! * by request number: the consumer's cookie and the block where the request's WQE starts;
//! * by block: the number of the request behind the last one of the WQE that starts there.
//!
//! A completion names the block of its WQE by 16 bits. It is believed only when the tables say that a
//! WQE which is in flight starts at just that block; anything else is the device's mistake (or malice)
//! and must not retire anything.

use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::ring::{hardware, Ring};

/// One request.
///
/// Relaxed atomics: the poster writes an entry before it commits the request, the other side reads it
/// before it retires the request, and the counters of [`super::credit`] order the two.
#[derive(Debug, Default)]
pub struct Entry {
    cookie: AtomicUsize,
    block: AtomicU32,
}

/// Requests in flight of one queue.
///
/// `R` and `B` own the tables: boxed slices on the host, kernel vectors in the module.
///
/// # Invariants
///
/// `requests` has a power of two of entries, `ends` has one entry for each block of `ring`.
#[derive(Debug)]
pub struct InFlight<R, B> {
    requests: R,
    ends: B,
    ring: Ring,
}

impl<R, B> InFlight<R, B>
where
    R: Deref<Target = [Entry]>,
    B: Deref<Target = [AtomicU32]>,
{
    /// Takes the tables. `None` when `requests` is not a power of two long (0 included), or `ends` does
    /// not fit the ring.
    pub fn new(requests: R, ends: B, ring: Ring) -> Option<Self> {
        if !requests.len().is_power_of_two() || ends.len() != ring.blocks() as usize {
            return None;
        }
        Some(InFlight {
            requests,
            ends,
            ring,
        })
    }

    #[inline(always)]
    fn entry(&self, request: u32) -> Option<&Entry> {
        let mask = self.requests.len().wrapping_sub(1);
        self.requests.get(request as usize & mask)
    }

    /// Notes that request number `request`, known to the consumer as `cookie`, is (the last so far) in
    /// the WQE that starts at block `block`.
    ///
    /// For the poster, between reservation and commit.
    #[inline(always)]
    pub fn record(&self, request: u32, cookie: usize, block: u32) {
        if let Some(entry) = self.entry(request) {
            entry.cookie.store(cookie, Ordering::Relaxed);
            entry.block.store(block, Ordering::Relaxed);
        }
        if let Some(end) = self.ends.get(self.ring.slot(block)) {
            end.store(request.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The number behind the last request that a completion of block `counter` retires, when requests
    /// from `retired` up to `posted` are in flight; all from `retired` to there have completed.
    ///
    /// `None` when no WQE in flight starts at that block.
    #[inline(always)]
    pub fn completed_by(&self, counter: u16, retired: u32, posted: u32) -> Option<u32> {
        let slot = self.ring.slot(u32::from(counter));
        let end = self.ends.get(slot)?.load(Ordering::Relaxed);
        let count = end.wrapping_sub(retired);
        if count == 0 || count > posted.wrapping_sub(retired) {
            return None;
        }
        let last = self.entry(end.wrapping_sub(1))?;
        (hardware(last.block.load(Ordering::Relaxed)) == counter).then_some(end)
    }

    /// The number of the first request of the WQE whose last request is before `end`, not before
    /// `retired`. Both as [`InFlight::completed_by`] has them.
    pub fn begin(&self, end: u32, retired: u32) -> u32 {
        let block = |request| self.entry(request).map(|e| e.block.load(Ordering::Relaxed));
        let mut begin = end.wrapping_sub(1);
        while begin != retired && block(begin.wrapping_sub(1)) == block(end.wrapping_sub(1)) {
            begin = begin.wrapping_sub(1);
        }
        begin
    }

    /// The cookie of a request in flight. For the side that retires, before it retires the request.
    #[inline(always)]
    pub fn cookie(&self, request: u32) -> usize {
        self.entry(request)
            .map_or(0, |entry| entry.cookie.load(Ordering::Relaxed))
    }

    /// Bytes of both tables.
    pub fn bytes(&self) -> usize {
        size_of::<Entry>() * self.requests.len() + size_of::<AtomicU32>() * self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tables = InFlight<Box<[Entry]>, Box<[AtomicU32]>>;

    fn tables(requests: usize, ring: Ring) -> Option<Tables> {
        InFlight::new(
            (0..requests).map(|_| Entry::default()).collect(),
            (0..ring.blocks()).map(|_| AtomicU32::new(0)).collect(),
            ring,
        )
    }

    #[test]
    fn sizes_are_checked() {
        let ring = Ring::new(3).unwrap();
        assert!(tables(0, ring).is_none());
        assert!(tables(3, ring).is_none());
        assert!(tables(4, ring).is_some());
        assert!(InFlight::new(
            Box::<[Entry]>::from([Entry::default()]),
            Box::<[AtomicU32]>::from([]),
            ring
        )
        .is_none());
    }

    #[test]
    fn only_the_first_block_of_a_wqe_in_flight_counts() {
        let t = tables(4, Ring::new(3).unwrap()).unwrap();
        // Three WQEs of two blocks, the last with two requests.
        t.record(0, 100, 0);
        t.record(1, 101, 2);
        t.record(2, 102, 4);
        t.record(3, 103, 4);
        assert_eq!(t.completed_by(0, 0, 4), Some(1));
        assert_eq!(t.completed_by(2, 0, 4), Some(2));
        assert_eq!(t.completed_by(4, 0, 4), Some(4));
        for wrong in [1, 3, 5, 6, 7, 8, 10, 12, 0xffff] {
            assert_eq!(t.completed_by(wrong, 0, 4), None, "block {wrong}");
        }
        // Once retired it counts no more, and what is not posted yet does not count either.
        assert_eq!(t.completed_by(0, 1, 4), None);
        assert_eq!(t.completed_by(4, 1, 3), None);
        assert_eq!(t.cookie(2), 102);
        // The last WQE has two requests, unless the first of them is retired.
        assert_eq!(t.begin(4, 0), 2);
        assert_eq!(t.begin(4, 3), 3);
        assert_eq!(t.begin(2, 0), 1);
        assert_eq!(t.begin(1, 0), 0);
    }

    #[test]
    fn an_old_counter_is_not_a_new_one() {
        // Same slot, one round of the ring later: the counter of the round before names nothing.
        let t = tables(8, Ring::new(3).unwrap()).unwrap();
        t.record(8, 1, 8);
        assert_eq!(t.completed_by(0, 8, 9), None);
        assert_eq!(t.completed_by(8, 8, 9), Some(9));
    }
}
