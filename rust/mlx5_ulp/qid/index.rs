// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A sorted array from key to slot that is searched while it changes.
//!
//! Two copies and a sequence number, as in the kernel's `seqcount_latch_t`. While the writer is at work
//! on one copy, the number sends readers to the other. A reader never waits for a writer that was
//! interrupted, not even the interrupt handler that interrupted it: it repeats a search only when the
//! writer made progress meanwhile.
//!
//! # Memory ordering
//!
//! The writer, with `sequence` at `s`, even:
//!
//! 1. `sequence = s + 1` (`Release`), fence (`Release`), changes copy 0;
//! 2. `sequence = s + 2` (`Release`), fence (`Release`), changes copy 1.
//!
//! A reader loads `sequence` (`Acquire`), searches the copy of its parity, fence (`Acquire`), loads
//! `sequence` again and starts over when it differs.
//!
//! * What it searches is complete: the store that it loaded from is a release store behind all changes
//!   to the copy which that value names.
//! * A change that it met half-way does not go unnoticed: changes to a copy come behind the store of
//!   another number and a release fence. A reader that saw any of them has, by its acquire fence, to
//!   see that number in its second load.
//!
//! Words are relaxed atomics: one that is read too early may be old, never torn.

use core::ops::Deref;

use super::atomic::{fence, AtomicU64, AtomicUsize, Ordering};

/// One copy: the first `len` words are sorted, key in the upper half, slot in the lower.
#[derive(Debug)]
struct Copy<B> {
    len: AtomicUsize,
    words: B,
}

/// The index.
///
/// `B` owns the words: a boxed slice on the host, a kernel vector in the module.
///
/// # Invariants
///
/// Both copies have room for the same number of words. Outside of `insert` and
/// `remove` they are equal and `sequence` is even.
#[derive(Debug)]
pub struct Index<B> {
    sequence: AtomicUsize,
    copies: [Copy<B>; 2],
}

const fn word(key: u32, slot: u32) -> u64 {
    (key as u64) << 32 | slot as u64
}

const fn key_of(word: u64) -> u32 {
    (word >> 32) as u32
}

impl<B: Deref<Target = [AtomicU64]>> Copy<B> {
    /// The sorted part. While the writer is at work, anything.
    #[inline(always)]
    fn sorted(&self) -> &[AtomicU64] {
        let len = self.len.load(Ordering::Relaxed);
        self.words.get(..len).unwrap_or_default()
    }

    /// The place of the last key that is not above `key`, and the word there.
    #[inline(always)]
    fn last_not_above(&self, key: u32) -> Option<(usize, u64)> {
        let sorted = self.sorted();
        let mut at = 0usize;
        let mut size = sorted.len();
        // The number of steps depends on the length alone, whatever a writer does to the words.
        while size > 1 {
            let half = size >> 1;
            let middle = at.wrapping_add(half);
            let there = sorted.get(middle)?.load(Ordering::Relaxed);
            at = if key_of(there) <= key { middle } else { at };
            size = size.wrapping_sub(half);
        }
        let there = sorted.get(at)?.load(Ordering::Relaxed);
        (key_of(there) <= key).then_some((at, there))
    }

    /// For the writer, with readers elsewhere.
    fn insert(&self, key: u32, slot: u32) {
        let len = self.len.load(Ordering::Relaxed);
        let at = self
            .last_not_above(key)
            .map_or(0, |(at, _)| at.wrapping_add(1));
        // Shifts by one from the end on.
        if let Some(part) = self.words.get(at..=len) {
            for pair in part.windows(2).rev() {
                if let [from, to] = pair {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            if let Some(place) = part.first() {
                place.store(word(key, slot), Ordering::Relaxed);
                self.len.store(len.wrapping_add(1), Ordering::Relaxed);
            }
        }
    }

    /// For the writer, with readers elsewhere.
    fn remove(&self, key: u32) {
        let at = match self.last_not_above(key) {
            Some((at, there)) if key_of(there) == key => at,
            _ => return,
        };
        let sorted = self.sorted();
        for pair in sorted.get(at..).unwrap_or_default().windows(2) {
            if let [to, from] = pair {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.len
            .store(sorted.len().saturating_sub(1), Ordering::Relaxed);
    }
}

impl<B: Deref<Target = [AtomicU64]>> Index<B> {
    /// An empty index over two arrays. Its capacity is the shorter one's length.
    pub(super) fn new(first: B, second: B) -> Self {
        let copy = |words| Copy {
            len: AtomicUsize::new(0),
            words,
        };
        Index {
            sequence: AtomicUsize::new(0),
            copies: [copy(first), copy(second)],
        }
    }

    /// Makes it an empty index, whatever it was.
    pub(super) fn reset(&mut self) {
        self.sequence = AtomicUsize::new(0);
        for copy in &mut self.copies {
            copy.len = AtomicUsize::new(0);
        }
    }

    /// The slot of `key`, as it was at one moment during the call.
    pub(super) fn find(&self, key: u32) -> Option<u32> {
        let [even, odd] = &self.copies;
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let copy = if before & 1 == 0 { even } else { odd };
            let found = copy.last_not_above(key);
            fence(Ordering::Acquire);
            if self.sequence.load(Ordering::Relaxed) == before {
                return found
                    .filter(|&(_, there)| key_of(there) == key)
                    .map(|(_, there)| there as u32);
            }
        }
    }

    fn change(&self, f: impl Fn(&Copy<B>)) {
        for copy in &self.copies {
            let sequence = self.sequence.load(Ordering::Relaxed);
            self.sequence
                .store(sequence.wrapping_add(1), Ordering::Release);
            fence(Ordering::Release);
            f(copy);
        }
    }

    /// Adds `key`. For one writer at a time, with room left and `key` not in the index.
    pub(super) fn insert(&self, key: u32, slot: u32) {
        self.change(|copy| copy.insert(key, slot));
    }

    /// Takes `key` out, if it is there. For one writer at a time.
    pub(super) fn remove(&self, key: u32) {
        self.change(|copy| copy.remove(key));
    }
}
