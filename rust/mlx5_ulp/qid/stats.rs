// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a cache did, as one reader saw it.

use super::Counter;

/// Counts of one reader: a CPU with preemption off, or a queue's poster under its lock.
///
/// Only the owner counts, so an increment is a plain add to memory and not a locked one; anybody may
/// read. Counts of several readers are summed in [`Sum`].
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Stats {
    hits: Counter,
    misses: Counter,
    absent: Counter,
    evictions: Counter,
    prefetched: Counter,
}

/// Who counts what lookups do.
pub trait Tally {
    /// The cache had the answer.
    fn hit(&self);
    /// The table had to be asked.
    fn miss(&self);
    /// Neither knew.
    fn absent(&self);
    /// An entry gave way to another key.
    fn eviction(&self);
    /// An entry was brought in ahead of its use.
    fn prefetched(&self);
}

impl Tally for Stats {
    #[inline(always)]
    fn hit(&self) {
        self.hits.add(1);
    }

    fn miss(&self) {
        self.misses.add(1);
    }

    fn absent(&self) {
        self.absent.add(1);
    }

    fn eviction(&self) {
        self.evictions.add(1);
    }

    fn prefetched(&self) {
        self.prefetched.add(1);
    }
}

impl Stats {
    /// Adds the counts to `sum`.
    pub fn add_to(&self, sum: &mut Sum) {
        sum.hits = sum.hits.wrapping_add(self.hits.get());
        sum.misses = sum.misses.wrapping_add(self.misses.get());
        sum.absent = sum.absent.wrapping_add(self.absent.get());
        sum.evictions = sum.evictions.wrapping_add(self.evictions.get());
        sum.prefetched = sum.prefetched.wrapping_add(self.prefetched.get());
    }
}

/// Counts of all readers of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Lookups that the cache answered.
    pub hits: u64,
    /// Lookups that the table had to answer, those without result included.
    pub misses: u64,
    /// Of the misses, those that found no queue.
    pub absent: u64,
    /// Entries that gave way to another key.
    pub evictions: u64,
    /// Entries that were brought in ahead of their use.
    pub prefetched: u64,
}
