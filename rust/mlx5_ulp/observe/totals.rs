// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Counters of one queue, and sums of them.

use super::opcodes::{
    self,
    Mix, //
};
use crate::{
    doorbell::sample::Latency,
    wqe::opcode::Opcode, //
};
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

/// Bytes of a basic block and of a cache line.
const BASIC_BLOCK: u64 = 64;

/// Number of causes for which a doorbell is rung.
pub const CAUSES: usize = 6;

/// Number of classes of batches: 1, 2, up to 4, up to 8, up to 16 WQEs with one doorbell, and more.
pub const BATCHES: usize = 6;

/// Batches that are counted by their exact size, from none on; one more counter is for all that are
/// larger.
const EXACT: usize = 17;

/// What the posting side of a queue counts.
#[derive(Debug, Default)]
pub struct PostCounters {
    /// Requests posted, and WQEs that only report. Each is a WQE of its own, but for those in `merged`.
    pub posted: Counter,
    /// Posts refused because the queue was full.
    pub full: Counter,
    /// Doorbells rung, by cause. Those for the first one, the usual one, are all that are left of the sum.
    causes: [Counter; CAUSES],
    /// Doorbells rung, by size of batch. The class is for the reader to find.
    batches: [Counter; EXACT + 1],
    /// Requests that went into the WQE of the one before them.
    pub merged: Counter,
    /// WQEs that were written to the doorbell register as a whole.
    pub blueflame: Counter,
    /// Basic blocks beyond one for each WQE.
    pub more_blocks: Counter,
    /// Basic blocks of WQEs that were written to the doorbell register as a whole.
    pub blueflame_blocks: Counter,
    /// Batches that were measured: see [`crate::doorbell::sample`].
    pub samples: Counter,
    /// Sum of what their first requests took, nanoseconds.
    pub sampled_ns: Counter,
    /// Sum of what these waited for the doorbell, nanoseconds.
    pub waited_ns: Counter,
    /// Of `posted`, by opcode. Those with the first one, the usual one, are all that are left of the sum.
    opcodes: [Counter; opcodes::COUNT],
}

impl PostCounters {
    /// One request with this opcode is being posted; need not be called for [`Opcode::RDMA_WRITE`].
    pub fn opcode(&self, opcode: Opcode) {
        if let Some(counter) = self.opcodes.get(opcodes::place(opcode)) {
            counter.add(1);
        }
    }

    /// A batch was measured.
    pub fn measured(&self, latency: &Latency) {
        self.samples.add(1);
        self.sampled_ns.add(latency.total.max(0) as u64);
        self.waited_ns.add(latency.waited.max(0) as u64);
    }

    /// What was posted, by opcode; it was `posted` in all.
    fn mix(&self, posted: u64) -> Mix {
        let mut mix = Mix(core::array::from_fn(|i| {
            self.opcodes.get(i).map_or(0, Counter::get)
        }));
        mix.0[0] = 0;
        // The counters are not read at one moment.
        mix.0[0] = posted.saturating_sub(mix.requests());
        mix
    }

    /// A doorbell was rung for `wqes` WQEs, at least one, for the cause with this number.
    #[inline(always)]
    pub fn rung(&self, cause: usize, wqes: u32) {
        if cause != 0 {
            if let Some(counter) = self.causes.get(cause) {
                counter.add(1);
            }
        }
        if let Some(counter) = self.batches.get((wqes as usize).min(EXACT)) {
            counter.add(1);
        }
    }

    /// Doorbells rung, by cause; there were `doorbells` in all.
    fn causes(&self, doorbells: u64) -> [u64; CAUSES] {
        let mut causes = core::array::from_fn(|i| self.causes.get(i).map_or(0, Counter::get));
        let others = causes.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n));
        // The counters are not read at one moment.
        causes[0] = doorbells.saturating_sub(others);
        causes
    }

    /// Doorbells rung, by class of batch.
    fn batches(&self) -> [u64; BATCHES] {
        let mut classes = [0u64; BATCHES];
        for (wqes, counter) in self.batches.iter().enumerate() {
            // Base 2 logarithm, rounded up.
            let class = usize::BITS - wqes.saturating_sub(1).leading_zeros();
            if let Some(sum) = classes.get_mut(class as usize) {
                *sum = sum.wrapping_add(counter.get());
            }
        }
        classes
    }
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
    /// Looks at the queue that no event asked for.
    pub polls: Counter,
    /// Times the queue was armed.
    pub arms: Counter,
    /// Changes of the completion mode.
    pub switches: Counter,
    /// Compressed blocks taken.
    pub blocks: Counter,
}

/// Values of one queue at one moment, or the sum of several queues.
///
/// The parts are read one after the other while the queue works, so they may be from
/// slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// See [`PostCounters::posted`].
    pub posted: u64,
    /// Of these, by opcode.
    pub mix: Mix,
    /// See [`PostCounters::merged`].
    pub merged: u64,
    /// See [`PostCounters::blueflame`].
    pub blueflame: u64,
    /// See [`PostCounters::more_blocks`].
    pub more_blocks: u64,
    /// See [`PostCounters::blueflame_blocks`].
    pub blueflame_blocks: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Of these, by cause: see `doorbell/policy.rs`.
    pub causes: [u64; CAUSES],
    /// Of these, by class of batch: see [`BATCHES`].
    pub batches: [u64; BATCHES],
    /// See [`PostCounters::full`].
    pub full: u64,
    /// See [`PostCounters::samples`].
    pub samples: u64,
    /// See [`PostCounters::sampled_ns`].
    pub sampled_ns: u64,
    /// See [`PostCounters::waited_ns`].
    pub waited_ns: u64,
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
    /// See [`CompletionCounters::polls`].
    pub polls: u64,
    /// See [`CompletionCounters::arms`].
    pub arms: u64,
    /// See [`CompletionCounters::switches`].
    pub switches: u64,
    /// See [`CompletionCounters::blocks`].
    pub blocks: u64,
}

impl Totals {
    /// Reads the counters of a queue.
    pub fn read(post: &PostCounters, completion: &CompletionCounters) -> Self {
        let batches = post.batches();
        let doorbells = batches.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n));
        let posted = post.posted.get();
        Self {
            posted,
            mix: post.mix(posted),
            merged: post.merged.get(),
            blueflame: post.blueflame.get(),
            more_blocks: post.more_blocks.get(),
            blueflame_blocks: post.blueflame_blocks.get(),
            doorbells,
            causes: post.causes(doorbells),
            batches,
            full: post.full.get(),
            samples: post.samples.get(),
            sampled_ns: post.sampled_ns.get(),
            waited_ns: post.waited_ns.get(),
            completed: completion.completed.get(),
            errors: completion.errors.get(),
            flushed: completion.flushed.get(),
            entries: completion.entries.get(),
            invalid: completion.invalid.get(),
            events: completion.events.get(),
            polls: completion.polls.get(),
            arms: completion.arms.get(),
            switches: completion.switches.get(),
            blocks: completion.blocks.get(),
        }
    }

    /// Adds those of another queue, wrapping around.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_add);
    }

    /// Takes out what was there at an earlier moment.
    pub fn subtract(&mut self, base: &Self) {
        self.combine(base, u64::wrapping_sub);
    }

    fn combine(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        for (to, from) in [
            (&mut self.posted, other.posted),
            (&mut self.merged, other.merged),
            (&mut self.blueflame, other.blueflame),
            (&mut self.more_blocks, other.more_blocks),
            (&mut self.blueflame_blocks, other.blueflame_blocks),
            (&mut self.doorbells, other.doorbells),
            (&mut self.full, other.full),
            (&mut self.samples, other.samples),
            (&mut self.sampled_ns, other.sampled_ns),
            (&mut self.waited_ns, other.waited_ns),
            (&mut self.completed, other.completed),
            (&mut self.errors, other.errors),
            (&mut self.flushed, other.flushed),
            (&mut self.entries, other.entries),
            (&mut self.invalid, other.invalid),
            (&mut self.events, other.events),
            (&mut self.polls, other.polls),
            (&mut self.arms, other.arms),
            (&mut self.switches, other.switches),
            (&mut self.blocks, other.blocks),
        ] {
            *to = f(*to, from);
        }
        let arrays = [
            (&mut self.causes[..], &other.causes[..]),
            (&mut self.batches[..], &other.batches[..]),
            (&mut self.mix.0[..], &other.mix.0[..]),
        ];
        for (to, from) in arrays {
            for (to, from) in to.iter_mut().zip(from) {
                *to = f(*to, *from);
            }
        }
    }

    /// What the device had to do to get at the WQEs, by name.
    pub fn wqes(&self) -> [(&'static str, u64); 7] {
        let wqes = self.posted.wrapping_sub(self.merged);
        let blocks = wqes.wrapping_add(self.more_blocks);
        let lines = blocks.wrapping_sub(self.blueflame_blocks);
        [
            ("requests", self.posted),
            ("merged", self.merged),
            ("wqes", wqes),
            ("basic_blocks", blocks),
            ("blueflame", self.blueflame),
            ("cache_lines_fetched", lines),
            ("bytes_fetched", lines.wrapping_mul(BASIC_BLOCK)),
        ]
    }

    /// Every number with the name it is shown under.
    pub fn named(&self) -> [(&'static str, u64); 16 + CAUSES + BATCHES] {
        let [limit, idle, last, flush, hold, mode] = self.causes;
        let [b1, b2, b4, b8, b16, more] = self.batches;
        [
            ("posted", self.posted),
            ("doorbells", self.doorbells),
            ("full", self.full),
            ("completed", self.completed),
            ("errors", self.errors),
            ("flushed", self.flushed),
            ("cqes", self.entries),
            ("invalid_cqes", self.invalid),
            ("interrupts", self.events),
            ("polls", self.polls),
            ("arms", self.arms),
            ("mode_switches", self.switches),
            ("compressed_blocks", self.blocks),
            ("rung_limit", limit),
            ("rung_idle", idle),
            ("rung_last", last),
            ("rung_flush", flush),
            ("rung_hold", hold),
            ("rung_mode", mode),
            ("batch_1", b1),
            ("batch_2", b2),
            ("batch_3_to_4", b4),
            ("batch_5_to_8", b8),
            ("batch_9_to_16", b16),
            ("batch_above_16", more),
            ("latency_samples", self.samples),
            ("latency_sum_ns", self.sampled_ns),
            ("waited_sum_ns", self.waited_ns),
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
            &post.full,
            &completion.completed,
            &completion.errors,
            &completion.flushed,
            &completion.entries,
            &completion.invalid,
            &completion.events,
            &completion.polls,
            &completion.arms,
            &completion.switches,
            &completion.blocks,
        ];
        let samples = [&post.samples, &post.sampled_ns, &post.waited_ns];
        // One of each class of batches.
        let batches = [1, 2, 3, 5, 9, 17].map(|wqes| &post.batches[wqes]);
        let all = all
            .into_iter()
            .chain(&post.causes)
            .chain(batches)
            .chain(samples);
        for (i, counter) in all.enumerate() {
            counter.add(i as u64 + 1);
        }
        let mut sum = Totals::read(&post, &completion);
        sum.add(&Totals::read(&post, &completion));
        let mut nothing = sum;
        nothing.subtract(&sum);
        assert_eq!(nothing, Totals::default());
        let mut values: Vec<u64> = sum.named().iter().map(|(_, v)| *v).collect();
        // Doorbells are the sum of all batches; those of the first cause are what the other causes leave.
        let doorbells = (19..=24).sum::<u64>();
        assert_eq!(values.remove(1), 2 * doorbells);
        assert_eq!(values[12], 2 * (doorbells - (13..=18).sum::<u64>()));
        values[12] = 2 * 13;
        assert_eq!(values, (1..=27).map(|n| 2 * n).collect::<Vec<u64>>());
    }

    #[test]
    fn what_is_not_counted_by_opcode_is_a_write() {
        let post = PostCounters::default();
        post.posted.add(10);
        for opcode in [
            Opcode::ATOMIC_CS,
            Opcode::SEND,
            Opcode::SEND,
            Opcode::RDMA_WRITE,
        ] {
            post.opcode(opcode);
        }
        let count = |totals: &Totals, opcode| totals.mix.0[opcodes::place(opcode)];
        let mut sum = Totals::read(&post, &CompletionCounters::default());
        let base = sum;
        sum.add(&base);
        assert_eq!(count(&sum, Opcode::RDMA_WRITE), 14);
        assert_eq!(count(&sum, Opcode::SEND), 4);
        assert_eq!((sum.mix.requests(), sum.mix.atomics()), (20, 2));
        sum.subtract(&base);
        assert_eq!(sum.mix, base.mix);
    }

    #[test]
    fn what_the_device_fetches() {
        let post = PostCounters::default();
        // Two WQEs of one block, 16 requests in one of five blocks, and one of two blocks by BlueFlame.
        post.posted.add(2 + 16 + 1);
        post.merged.add(15);
        post.more_blocks.add(4 + 1);
        post.blueflame.add(1);
        post.blueflame_blocks.add(2);
        let mut sum = Totals::read(&post, &CompletionCounters::default());
        let values = |totals: &Totals| totals.wqes().map(|(_, value)| value);
        assert_eq!(values(&sum), [19, 15, 4, 9, 1, 7, 448]);
        sum.add(&sum.clone());
        assert_eq!(values(&sum), [38, 30, 8, 18, 2, 14, 896]);
    }

    #[test]
    fn classes_of_batches() {
        let post = PostCounters::default();
        for wqes in [1, 2, 3, 4, 5, 8, 9, 16, 17, u32::MAX] {
            post.rung(0, wqes);
        }
        let totals = Totals::read(&post, &CompletionCounters::default());
        assert_eq!(totals.batches, [1, 1, 2, 2, 2, 2]);
        assert_eq!((totals.doorbells, totals.causes[0]), (10, 10));
    }

    #[test]
    fn counters_wrap() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.get(), 1);
    }
}
