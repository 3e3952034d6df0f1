// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a cache did, as one reader saw it.

use core::sync::atomic::{AtomicU64, Ordering};

/// Counts of one reader: a CPU with preemption off, or a queue's poster under its lock.
///
/// Only the owner counts, so an increment is a plain add to memory and not a locked one; anybody may
/// read. Counts of several readers are summed in [`Sum`].
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Stats {
    hits: AtomicU64,
    misses: AtomicU64,
    absent: AtomicU64,
    evictions: AtomicU64,
    prefetched: AtomicU64,
}

/// For the owner of `counter` only.
#[inline(always)]
fn bump(counter: &AtomicU64) {
    let n = counter.load(Ordering::Relaxed);
    counter.store(n.wrapping_add(1), Ordering::Relaxed);
}

impl Stats {
    #[inline(always)]
    pub(super) fn hit(&self) {
        bump(&self.hits);
    }

    pub(super) fn miss(&self) {
        bump(&self.misses);
    }

    pub(super) fn absent(&self) {
        bump(&self.absent);
    }

    pub(super) fn eviction(&self) {
        bump(&self.evictions);
    }

    pub(super) fn prefetched(&self) {
        bump(&self.prefetched);
    }

    /// Adds the counts to `sum`.
    pub fn add_to(&self, sum: &mut Sum) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.hits = sum.hits.wrapping_add(get(&self.hits));
        sum.misses = sum.misses.wrapping_add(get(&self.misses));
        sum.absent = sum.absent.wrapping_add(get(&self.absent));
        sum.evictions = sum.evictions.wrapping_add(get(&self.evictions));
        sum.prefetched = sum.prefetched.wrapping_add(get(&self.prefetched));
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
