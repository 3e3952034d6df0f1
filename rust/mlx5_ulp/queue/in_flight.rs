// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What was posted and has not completed: from the block that a completion names to the requests.
//!
//! Requests are numbered in the order in which they were posted and retire in that order. A WQE carries
//! one request or, when adjacent requests were merged, several. Two tables describe them:
//!
//! * by request number: the consumer's cookie;
//! * by block: which requests the WQE that starts there carries.
//!
//! A completion names the block of its WQE by 16 bits. It is believed only when the tables say that a
//! WQE which is in flight starts at just that block; anything else is the device's mistake (or malice)
//! and must not retire anything.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::ring::{hardware, Ring};

/// The consumer's cookie of one request.
///
/// Relaxed atomics: the poster writes an entry before it commits the request, the other side reads it
/// before it retires the request, and the counters of [`super::credit`] order the two.
pub type Cookie = AtomicUsize;

/// The WQE that starts at a block, in one word: number behind its last request in bits 63:32, how many
/// requests it carries beyond one in 31:16, its block as the hardware counts in 15:0. Relaxed atomics, as
/// [`Cookie`].
#[derive(Debug, Default)]
pub struct Mark(AtomicU64);

impl Mark {
    /// The mark of the WQE at block `block` that carries `count` requests, at least one, up to number `last`.
    #[inline(always)]
    pub const fn word(block: u32, last: u32, count: u16) -> u64 {
        let more = count.wrapping_sub(1);
        (last.wrapping_add(1) as u64) << 32 | (more as u64) << 16 | hardware(block) as u64
    }

    /// The mark of the WQE one block behind that with the mark `word`, if each carries one request and the
    /// ring does not end in between: the hardware's counter wraps only there.
    #[inline(always)]
    pub const fn next(word: u64) -> u64 {
        word.wrapping_add(1 << 32 | 1)
    }

    /// Number behind the last request of a WQE with this mark.
    #[inline(always)]
    pub const fn end(word: u64) -> u32 {
        (word >> 32) as u32
    }

    /// How many requests a WQE with this mark carries.
    #[inline(always)]
    pub const fn count(word: u64) -> u32 {
        (word as u32 >> 16).wrapping_add(1)
    }

    /// Notes a WQE with this mark here.
    #[inline(always)]
    pub fn put(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }

    /// What is noted here.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes the WQE at block `block`, as [`InFlight::mark`].
    #[inline(always)]
    pub fn set(&self, block: u32, last: u32, count: u16) {
        self.put(Mark::word(block, last, count));
    }
}

/// Which requests a WQE carries: those from `begin` on, and before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Number of the first.
    pub begin: u32,
    /// Number behind the last.
    pub end: u32,
}

/// Requests in flight of one queue.
///
/// `R` and `B` own the tables: boxed slices on the host, kernel vectors in the module.
///
/// # Invariants
///
/// `cookies` has a power of two of entries, `marks` has one entry for each block of `ring`.
#[derive(Debug)]
pub struct InFlight<R, B> {
    cookies: R,
    marks: B,
    ring: Ring,
}

impl<R, B> InFlight<R, B>
where
    R: Deref<Target = [Cookie]>,
    B: Deref<Target = [Mark]>,
{
    /// Takes the tables. `None` when `cookies` is not a power of two long (0 included), or `marks` does
    /// not fit the ring.
    pub fn new(cookies: R, marks: B, ring: Ring) -> Option<Self> {
        if !cookies.len().is_power_of_two() || marks.len() != ring.blocks() as usize {
            return None;
        }
        // A mark of another block: no completion is about a block that nothing was posted to.
        for (slot, mark) in marks.iter().enumerate() {
            mark.0.store(u64::from(!(slot as u16)), Ordering::Relaxed);
        }
        Some(InFlight {
            cookies,
            marks,
            ring,
        })
    }

    /// The tables, for the side that retires.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View {
            cookies: &self.cookies,
            marks: &self.marks,
            ring: self.ring,
        }
    }

    /// Notes that request number `request` is known to the consumer as `cookie`.
    ///
    /// For the poster, between reservation and commit.
    #[inline(always)]
    pub fn record(&self, request: u32, cookie: usize) {
        let mask = self.cookies.len().wrapping_sub(1);
        if let Some(entry) = self.cookies.get(request as usize & mask) {
            entry.store(cookie, Ordering::Relaxed);
        }
    }

    /// Notes that the WQE that starts at block `block` carries `count` requests (1 to 2^16 - 1) up to
    /// number `last`.
    ///
    /// For the poster, between reservation and commit.
    #[inline(always)]
    pub fn mark(&self, block: u32, last: u32, count: u16) {
        if let Some(mark) = self.marks.get(self.ring.slot(block)) {
            mark.set(block, last, count);
        }
    }

    /// The tables, for a poster that finds its entries by itself: the cookie of request `n` at `n` modulo
    /// the first one's length, the mark of block `b` at [`Ring::slot`] of it.
    pub fn tables(&self) -> (&[Cookie], &[Mark]) {
        (&self.cookies, &self.marks)
    }

    /// Bytes of both tables.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.cookies).saturating_add(size_of_val(&*self.marks))
    }
}

/// The tables of a queue for the side that retires: held while it is at it, their places need not be
/// looked up for each request.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    cookies: &'a [Cookie],
    marks: &'a [Mark],
    ring: Ring,
}

impl<'a> View<'a> {
    /// The cookies from that of request `request` on, and the marks from that of block `counter` on, to
    /// the end of each table.
    pub fn from(&self, request: u32, counter: u16) -> (&'a [Cookie], &'a [Mark]) {
        let first = request as usize & self.cookies.len().wrapping_sub(1);
        let slot = self.ring.slot(counter.into());
        (
            self.cookies.get(first..).unwrap_or_default(),
            self.marks.get(slot..).unwrap_or_default(),
        )
    }

    /// The requests of the WQE at block `counter`, when those from `retired` up to `posted` are in
    /// flight. If it has completed, so have all before it.
    ///
    /// `None` when no WQE in flight starts at that block.
    #[inline(always)]
    pub fn at(&self, counter: u16, retired: u32, posted: u32) -> Option<Range> {
        let mark = self.marks.get(self.ring.slot(u32::from(counter)))?;
        let word = mark.get();
        let (end, count) = (Mark::end(word), Mark::count(word));
        // How many requests end with this WQE. Those of the WQE itself are all in flight or none.
        let ending = end.wrapping_sub(retired);
        let in_flight = posted.wrapping_sub(retired);
        if word as u16 != counter || ending < count || ending > in_flight {
            return None;
        }
        Some(Range {
            begin: end.wrapping_sub(count),
            end,
        })
    }

    /// The cookie of a request in flight. For the side that retires, before it retires the request.
    #[inline(always)]
    pub fn cookie(&self, request: u32) -> usize {
        let mask = self.cookies.len().wrapping_sub(1);
        self.cookies
            .get(request as usize & mask)
            .map_or(0, |entry| entry.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tables = InFlight<Box<[Cookie]>, Box<[Mark]>>;

    fn tables(requests: usize, ring: Ring) -> Option<Tables> {
        InFlight::new(
            (0..requests).map(|_| Cookie::default()).collect(),
            (0..ring.blocks()).map(|_| Mark::default()).collect(),
            ring,
        )
    }

    fn range(begin: u32, end: u32) -> Option<Range> {
        Some(Range { begin, end })
    }

    #[test]
    fn sizes_are_checked() {
        let ring = Ring::new(3).unwrap();
        assert!(tables(0, ring).is_none());
        assert!(tables(3, ring).is_none());
        assert!(tables(4, ring).is_some());
        assert!(InFlight::new(
            Box::<[Cookie]>::from([Cookie::default()]),
            Box::<[Mark]>::from([]),
            ring
        )
        .is_none());
    }

    #[test]
    fn only_the_first_block_of_a_wqe_in_flight_counts() {
        let t = tables(4, Ring::new(3).unwrap()).unwrap();
        // Three WQEs of two blocks, the last with two requests.
        t.mark(0, 0, 1);
        t.mark(2, 1, 1);
        t.mark(4, 3, 2);
        t.record(2, 102);
        assert_eq!(t.view().at(0, 0, 4), range(0, 1));
        assert_eq!(t.view().at(2, 0, 4), range(1, 2));
        assert_eq!(t.view().at(4, 0, 4), range(2, 4));
        for wrong in [1, 3, 5, 6, 7, 8, 10, 12, 0xffff] {
            assert_eq!(t.view().at(wrong, 0, 4), None, "block {wrong}");
        }
        // Once retired it counts no more, nor half retired, nor before it is posted.
        assert_eq!(t.view().at(0, 1, 4), None);
        assert_eq!(t.view().at(4, 3, 4), None);
        assert_eq!(t.view().at(4, 1, 3), None);
        assert_eq!(t.view().cookie(2), 102);
    }

    #[test]
    fn what_was_never_posted_names_nothing() {
        let t = tables(4, Ring::new(3).unwrap()).unwrap();
        assert_eq!(t.view().at(0, 0, 4), None);
        assert_eq!(t.view().at(0, u32::MAX, 4), None);
    }

    #[test]
    fn an_old_counter_is_not_a_new_one() {
        // Same slot, one round of the ring later: the counter of the round before names nothing.
        let t = tables(8, Ring::new(3).unwrap()).unwrap();
        t.mark(8, 8, 1);
        assert_eq!(t.view().at(0, 8, 9), None);
        assert_eq!(t.view().at(8, 8, 9), range(8, 9));
    }
}
