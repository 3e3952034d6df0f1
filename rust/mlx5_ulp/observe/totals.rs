// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Counters of one queue, and sums of them.

use core::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

/// A counter with one writer at a time and any number of readers.
///
/// Adding is a load, an addition and a store, no locked instruction: whoever counts is the only
/// one who does, because it holds the lock of that side of the queue or is its only user.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`, wrapping around. For the one writer.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The present value, for anybody.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What the posting side of a queue counts.
#[derive(Debug, Default)]
pub struct PostCounters {
    /// Work queue entries written to the send queue.
    pub posted: Counter,
    /// Doorbells rung.
    pub doorbells: Counter,
    /// Posts refused because the queue was full.
    pub full: Counter,
}

/// What the completing side of a queue counts.
#[derive(Debug, Default)]
pub struct CompletionCounters {
    /// Work requests completed, well or not.
    pub completed: Counter,
    /// Of these, with an error that was the first of its queue.
    pub errors: Counter,
    /// Of these, flushed after an error.
    pub flushed: Counter,
    /// Completion queue entries taken.
    pub entries: Counter,
    /// Entries that made no sense: an unknown queue or an impossible index.
    pub invalid: Counter,
    /// Completion events (interrupts) taken.
    pub events: Counter,
}

/// Values of one queue at one moment, or the sum of several queues.
///
/// The parts are read one after the other while the queue works, so they may be from
/// slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// See [`PostCounters::posted`].
    pub posted: u64,
    /// See [`PostCounters::doorbells`].
    pub doorbells: u64,
    /// See [`PostCounters::full`].
    pub full: u64,
    /// See [`CompletionCounters::completed`].
    pub completed: u64,
    /// See [`CompletionCounters::errors`].
    pub errors: u64,
    /// See [`CompletionCounters::flushed`].
    pub flushed: u64,
    /// See [`CompletionCounters::entries`].
    pub entries: u64,
    /// See [`CompletionCounters::invalid`].
    pub invalid: u64,
    /// See [`CompletionCounters::events`].
    pub events: u64,
}

impl Totals {
    /// Reads the counters of a queue.
    pub fn read(post: &PostCounters, completion: &CompletionCounters) -> Self {
        Self {
            posted: post.posted.get(),
            doorbells: post.doorbells.get(),
            full: post.full.get(),
            completed: completion.completed.get(),
            errors: completion.errors.get(),
            flushed: completion.flushed.get(),
            entries: completion.entries.get(),
            invalid: completion.invalid.get(),
            events: completion.events.get(),
        }
    }

    /// Adds those of another queue, wrapping around.
    pub fn add(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.posted, other.posted),
            (&mut self.doorbells, other.doorbells),
            (&mut self.full, other.full),
            (&mut self.completed, other.completed),
            (&mut self.errors, other.errors),
            (&mut self.flushed, other.flushed),
            (&mut self.entries, other.entries),
            (&mut self.invalid, other.invalid),
            (&mut self.events, other.events),
        ] {
            *to = to.wrapping_add(from);
        }
    }

    /// Every number with the name it is shown under.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("posted", self.posted),
            ("doorbells", self.doorbells),
            ("full", self.full),
            ("completed", self.completed),
            ("errors", self.errors),
            ("flushed", self.flushed),
            ("cqes", self.entries),
            ("invalid_cqes", self.invalid),
            ("events", self.events),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_every_counter() {
        let post = PostCounters::default();
        let completion = CompletionCounters::default();
        let all = [
            &post.posted,
            &post.doorbells,
            &post.full,
            &completion.completed,
            &completion.errors,
            &completion.flushed,
            &completion.entries,
            &completion.invalid,
            &completion.events,
        ];
        for (i, counter) in all.iter().enumerate() {
            counter.add(i as u64 + 1);
        }
        let mut sum = Totals::read(&post, &completion);
        sum.add(&Totals::read(&post, &completion));
        let values: Vec<u64> = sum.named().iter().map(|(_, v)| *v).collect();
        assert_eq!(values, (1..=9).map(|n| 2 * n).collect::<Vec<u64>>());
    }

    #[test]
    fn counters_wrap() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.get(), 1);
    }
}
