// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When to ring the doorbell.
//!
//! Ringing costs an MMIO write; not ringing costs latency. The policy decides after each post whether
//! the WQEs that wait are shown to the HCA now. Whatever the mode, a WQE waits only while all of this
//! holds:
//!
//! * the HCA has work of this queue, whose completion will give another occasion to ring;
//! * fewer than the limit wait, or than the largest batch of the mode while the poster says that *more*
//!   follows at once;
//! * neither the poster (*last*) nor anybody else (*flush*) asked to ring;
//! * the first of them has waited less than the hold time.
//!
//! So no WQE is ever left behind: each way out of "waiting" is an event that will happen, and the hold
//! time is a clock's.

/// Smallest and largest batch.
pub const BATCH_RANGE: core::ops::RangeInclusive<u32> = 1..=64;

/// Largest batch that [`Mode::Adaptive`] may be allowed to reach.
pub const ADAPTIVE_MAX: u32 = 16;

/// Where [`Mode::Adaptive`] starts.
pub const ADAPTIVE_START: u32 = 4;

/// From so many requests in flight on, [`Mode::Adaptive`] goes by the load alone: throughput is what counts then.
pub const DEEP: u32 = 64;

/// So many measurements make one judgement.
pub const JUDGED: u32 = 4;

/// How the doorbell is rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// After each post.
    Each,
    /// After a fixed number of WQEs.
    Batch,
    /// After a number of WQEs that follows the load and the latency that is measured.
    Adaptive,
}

impl Mode {
    /// Their names, by index.
    pub const WORDS: &'static [&'static str] = &["each", "batch", "adaptive"];

    /// The mode with this index in [`Mode::WORDS`].
    pub const fn from_index(index: u32) -> Mode {
        match index {
            0 => Mode::Each,
            1 => Mode::Batch,
            _ => Mode::Adaptive,
        }
    }
}

/// Why the doorbell was rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// As many WQEs waited as the mode lets wait.
    Limit = 0,
    /// The HCA had nothing to do for this queue.
    Idle = 1,
    /// The poster said that nothing follows.
    Last = 2,
    /// Somebody asked for it.
    Flush = 3,
    /// The first WQE had waited for the hold time.
    Hold = 4,
    /// The mode changed.
    Mode = 5,
}

/// What a poster knows of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    None,
    /// More posts follow at once.
    More,
    /// Nothing follows for now.
    Last,
}

/// Decides when to ring, for one queue.
///
/// Not shared: it belongs to whoever may write the doorbell.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub struct Policy {
    // These two stand together so that one load has both: see `rings_each`.
    /// How many waiting WQEs make one ring.
    limit: u32,
    /// WQEs posted and not rung.
    waiting: u32,
    mode: Mode,
    /// `limit` in the batch mode.
    batch: u32,
    /// Upper end of `limit` in the adaptive mode.
    max_batch: u32,
    /// As `limit` while the poster says that more follows: what he builds is a batch, whatever the load.
    chain_limit: u32,
    /// Whether the last round of completions in [`Mode::Adaptive`] was about a lone request.
    lone: bool,
    /// Whether what was measured lets [`Mode::Adaptive`] have larger batches.
    may_grow: bool,
    /// Measurements since the last judgement, and their sums, nanoseconds.
    measured: u32,
    waited: i64,
    total: i64,
}

impl Policy {
    /// Rings as `mode` says; `batch` is for [`Mode::Batch`], `max_batch` for [`Mode::Adaptive`]. Both
    /// are brought into their ranges.
    pub fn new(mode: Mode, batch: u32, max_batch: u32) -> Policy {
        let batch = batch.clamp(*BATCH_RANGE.start(), *BATCH_RANGE.end());
        let max_batch = max_batch.clamp(1, ADAPTIVE_MAX);
        let chain_limit = match mode {
            Mode::Each => 1,
            Mode::Batch => batch,
            Mode::Adaptive => max_batch,
        };
        Policy {
            mode,
            batch,
            max_batch,
            limit: match mode {
                Mode::Adaptive => ADAPTIVE_START.min(chain_limit),
                _ => chain_limit,
            },
            chain_limit,
            waiting: 0,
            lone: false,
            may_grow: true,
            measured: 0,
            waited: 0,
            total: 0,
        }
    }

    /// WQEs that wait for the doorbell.
    #[inline(always)]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// WQEs that make one ring at present.
    #[inline(always)]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// WQEs that make one ring while the poster says that more follows.
    pub const fn chain_limit(&self) -> u32 {
        self.chain_limit
    }

    /// The mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// `wqes` WQEs were posted. `busy`, asked only when it matters, says whether the HCA has earlier work
    /// of this queue that was rung and will yield a completion.
    ///
    /// `Some` means: ring now. The caller rings and calls [`Policy::rung`] with these WQEs. Else they
    /// wait.
    #[inline(always)]
    pub fn posted(&mut self, wqes: u32, busy: impl FnOnce() -> bool, hint: Hint) -> Option<Cause> {
        let waiting = self.waiting.wrapping_add(wqes);
        let limit = match hint {
            Hint::More => self.chain_limit,
            _ => self.limit,
        };
        if waiting >= limit {
            return Some(Cause::Limit);
        }
        match hint {
            Hint::Last => Some(Cause::Last),
            Hint::None if !busy() => Some(Cause::Idle),
            _ => {
                self.waiting = waiting;
                None
            }
        }
    }

    /// Whether each WQE is rung by itself at present, whatever the load, as when lone requests have brought
    /// the adaptive mode down to one. [`Policy::posted`] says [`Cause::Limit`] then, and [`Policy::rung`] need
    /// not be called.
    #[inline(always)]
    pub fn rings_each(&self) -> bool {
        // One comparison for both: nothing waits, and the limit is one.
        (u64::from(self.waiting) << 32 | u64::from(self.limit)) <= 1
    }

    /// Where [`Policy::rings_each`] says no: as [`Policy::posted`] for one WQE of which nothing more is known, but
    /// `None`, and nothing changed, unless it is the only one and is to be rung because the HCA is idle. Then
    /// [`Policy::rung`] need not be called.
    #[inline(always)]
    pub fn idle_alone(&self, busy: impl FnOnce() -> bool) -> Option<Cause> {
        /// Out of the way of the limit of one, where lone requests bring the adaptive mode: that does not jump.
        #[cold]
        fn idle() -> Option<Cause> {
            Some(Cause::Idle)
        }
        if self.waiting == 0 && !busy() {
            idle()
        } else {
            None
        }
    }

    /// Somebody asks to ring. `None` when nothing waits.
    #[inline(always)]
    pub fn flush(&self) -> Option<Cause> {
        (self.waiting != 0).then_some(Cause::Flush)
    }

    /// A round of completions was handled and its callbacks are through: `load` requests were in flight
    /// when it began. `busy` as in [`Policy::posted`].
    ///
    /// This is the load by which [`Mode::Adaptive`] moves its limit: to the double while more than four
    /// batches of that size are under way, if what is measured allows it; down to half when lone requests
    /// follow one another. That the load falls is no reason: at the end of a burst it does, and the next one
    /// comes.
    #[inline]
    pub fn completed(&mut self, load: u32, busy: bool) -> Option<Cause> {
        if self.mode == Mode::Adaptive {
            if load / 4 > self.limit && self.may_grow {
                self.limit = self.limit.saturating_mul(2).min(self.max_batch);
            }
            // Once is the end of a burst.
            let lone = load <= 1 && self.limit > 1;
            if lone && self.lone {
                self.halve();
            }
            self.lone = lone;
        }
        if self.waiting == 0 {
            None
        } else if !busy {
            Some(Cause::Idle)
        } else if self.waiting >= self.limit {
            Some(Cause::Limit)
        } else {
            None
        }
    }

    /// A batch was measured, under this `load`: its first WQE waited for `waited` of the `total` nanoseconds
    /// that its request took.
    ///
    /// [`JUDGED`] of them decide: those that open a batch may wait for a quarter of their latency. If they
    /// do for longer, [`Mode::Adaptive`] halves its limit; it lets it grow while they wait for less than an
    /// eighth. This is what the load does not tell: how fast batches fill, and how long the device takes.
    pub fn measured(&mut self, waited: i64, total: i64, load: u32) {
        if self.mode != Mode::Adaptive {
            return;
        }
        if load >= DEEP {
            return self.judge(true);
        }
        self.measured = self.measured.wrapping_add(1);
        self.waited = self.waited.saturating_add(waited);
        self.total = self.total.saturating_add(total);
        if self.measured < JUDGED {
            return;
        }
        let (waited, total) = (self.waited, self.total);
        self.judge(waited < total / 8);
        if waited > total / 4 {
            self.halve();
        }
    }

    /// Measurements are judged; others follow.
    fn judge(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
        (self.measured, self.waited, self.total) = (0, 0, 0);
    }

    /// Down by one step. Where each WQE is rung nothing waits, so nothing is measured: from there it may grow.
    fn halve(&mut self) {
        self.limit = (self.limit / 2).max(1);
        self.may_grow |= self.limit == 1;
    }

    /// Loads that leave everything as it is: see [`Policy::completed`].
    pub fn calm(&self) -> core::ops::RangeInclusive<u32> {
        if self.mode != Mode::Adaptive {
            return 0..=u32::MAX;
        }
        if self.lone {
            // Whatever comes next.
            return u32::MAX..=u32::MAX;
        }
        let low = if self.limit > 1 { 2 } else { 0 };
        let high = if self.limit < self.max_batch && self.may_grow {
            self.limit.saturating_mul(4).saturating_add(3)
        } else {
            u32::MAX
        };
        low..=high
    }

    /// The hold time of the oldest waiting WQE is over; `in_flight` requests are in flight, those that wait
    /// included.
    ///
    /// That alone says nothing of the load: posters may be slow, or the callbacks that post. Only when not
    /// even two batches are under way they are too large.
    pub fn held(&mut self, in_flight: u32) -> Option<Cause> {
        if self.waiting == 0 {
            return None;
        }
        if self.mode == Mode::Adaptive && in_flight / 2 < self.limit {
            self.halve();
        }
        Some(Cause::Hold)
    }

    /// `wqes` more WQEs, for which [`Policy::posted`] said to ring, are among those that wait until it is.
    pub fn join(&mut self, wqes: u32) {
        self.waiting = self.waiting.wrapping_add(wqes);
    }

    /// The doorbell was rung, for what waits and for `wqes` that did not have to; returns how many WQEs
    /// it showed.
    #[inline(always)]
    pub fn rung(&mut self, wqes: u32) -> u32 {
        core::mem::replace(&mut self.waiting, 0).wrapping_add(wqes)
    }

    /// Changes the mode while traffic runs. What waits is rung, so that nothing waits by old rules.
    /// Without effect when everything is as it was: what an adaptive queue has learned is kept.
    pub fn change(&mut self, mode: Mode, batch: u32, max_batch: u32) -> Option<Cause> {
        let new = Policy {
            waiting: self.waiting,
            ..Policy::new(mode, batch, max_batch)
        };
        let before = (self.mode, self.batch, self.max_batch);
        if before == (new.mode, new.batch, new.max_batch) {
            return None;
        }
        *self = new;
        (self.waiting != 0).then_some(Cause::Mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_always_rings() {
        let mut p = Policy::new(Mode::Each, 4, 16);
        for hint in [Hint::None, Hint::More, Hint::Last] {
            assert_eq!(p.posted(1, || true, hint), Some(Cause::Limit));
            assert_eq!(p.rung(1), 1);
        }
    }

    #[test]
    fn batch_rings_at_the_limit_and_when_idle() {
        let mut p = Policy::new(Mode::Batch, 4, 16);
        assert_eq!(p.posted(1, || false, Hint::None), Some(Cause::Idle));
        p.rung(1);
        for _ in 0..3 {
            assert_eq!(p.posted(1, || true, Hint::None), None);
        }
        assert_eq!(p.posted(1, || true, Hint::None), Some(Cause::Limit));
        assert_eq!(p.rung(1), 4);
        assert_eq!(p.flush(), None);
    }

    #[test]
    fn a_chain_is_one_batch_at_any_load() {
        let mut p = Policy::new(Mode::Adaptive, 4, 8);
        for _ in 0..8 {
            p.completed(1, false);
        }
        assert_eq!(p.limit(), 1);
        for _ in 0..7 {
            assert_eq!(p.posted(1, || false, Hint::More), None);
        }
        assert_eq!(p.posted(1, || false, Hint::More), Some(Cause::Limit));
        assert_eq!(p.rung(1), 8);
        for _ in 0..7 {
            p.posted(1, || true, Hint::More);
        }
        assert_eq!(p.posted(1, || true, Hint::Last), Some(Cause::Limit));
        assert_eq!(p.rung(1), 8);
        assert_eq!(p.posted(1, || true, Hint::None), Some(Cause::Limit));
    }

    #[test]
    fn a_lone_wqe_is_rung_for_the_same_cause() {
        for (mode, busy, waits) in [
            (Mode::Each, true, false),
            (Mode::Batch, false, false),
            (Mode::Batch, true, false),
            (Mode::Batch, false, true),
            (Mode::Adaptive, false, false),
        ] {
            let mut p = Policy::new(mode, 4, 16);
            if waits {
                p.posted(1, || true, Hint::None);
            }
            let alone = if p.rings_each() {
                Some(Cause::Limit)
            } else {
                p.idle_alone(|| busy)
            };
            let posted = p.posted(1, || busy, Hint::None);
            assert_eq!(alone, posted.filter(|_| !waits), "{mode:?} {busy} {waits}");
        }
    }

    #[test]
    fn what_ends_a_wait_is_rung_with_what_waited() {
        let mut p = Policy::new(Mode::Batch, 4, 16);
        for _ in 0..3 {
            assert_eq!(p.posted(1, || true, Hint::None), None);
        }
        assert_eq!(p.posted(2, || true, Hint::None), Some(Cause::Limit));
        assert_eq!(p.waiting(), 3);
        p.join(2);
        assert_eq!((p.rung(0), p.waiting()), (5, 0));
    }

    #[test]
    fn last_flush_completion_and_hold_ring_what_waits() {
        let mut p = Policy::new(Mode::Batch, 8, 16);
        assert_eq!(p.posted(1, || true, Hint::Last), Some(Cause::Last));
        p.rung(1);
        p.posted(1, || true, Hint::None);
        assert_eq!(p.flush(), Some(Cause::Flush));
        assert_eq!(p.completed(9, true), None);
        assert_eq!(p.completed(9, false), Some(Cause::Idle));
        assert_eq!(p.held(8), Some(Cause::Hold));
        assert_eq!(p.change(Mode::Each, 0, 0), Some(Cause::Mode));
    }

    #[test]
    fn no_change_changes_nothing() {
        let mut p = Policy::new(Mode::Adaptive, 4, 16);
        p.posted(1, || true, Hint::None);
        p.completed(128, true);
        assert_eq!(p.change(Mode::Adaptive, 4, 16), None);
        assert_eq!((p.limit(), p.waiting()), (2 * ADAPTIVE_START, 1));
        assert_eq!(p.change(Mode::Adaptive, 4, 2), Some(Cause::Mode));
        assert_eq!((p.limit(), p.waiting()), (2, 1));
        for (index, mode) in [Mode::Each, Mode::Batch, Mode::Adaptive].iter().enumerate() {
            assert_eq!(Mode::from_index(index as u32), *mode);
        }
    }

    #[test]
    fn a_calm_load_changes_nothing_and_any_other_does() {
        for max in 1..=ADAPTIVE_MAX {
            let mut p = Policy::new(Mode::Adaptive, 4, max);
            // All limits that there are: down from the start, and up; then some that must not grow.
            for round in 0..200 {
                match round {
                    100..104 => p.measured(2, 9, 0),
                    120..124 => p.measured(1, 9, 0),
                    _ => {}
                }
                let load = if round < 20 { 0 } else { 400 };
                p.completed(load, true);
                for load in 0..200 {
                    let mut q = p.clone();
                    q.completed(load, true);
                    assert_eq!(
                        (q.limit(), q.lone) == (p.limit(), p.lone),
                        p.calm().contains(&load),
                        "{p:?} {load}"
                    );
                }
            }
        }
        for mode in [Mode::Each, Mode::Batch] {
            assert_eq!(Policy::new(mode, 4, 16).calm(), 0..=u32::MAX);
        }
    }

    #[test]
    fn a_slow_poster_is_not_a_low_load() {
        let mut p = Policy::new(Mode::Adaptive, 4, 16);
        p.completed(64, true);
        p.completed(64, true);
        assert_eq!(p.limit(), 16);
        p.posted(1, || true, Hint::None);
        assert_eq!(p.held(64), Some(Cause::Hold));
        assert_eq!(p.limit(), 16);
        assert_eq!(p.held(31), Some(Cause::Hold));
        assert_eq!(p.limit(), 8);
    }

    /// With a limit of 16, after measurements of such a wait for each 1000 ns.
    fn judged(waits: &[i64], load: u32) -> Policy {
        let mut p = Policy::new(Mode::Adaptive, 4, 16);
        p.completed(128, true);
        p.completed(128, true);
        assert_eq!(p.limit(), 16);
        for waited in waits {
            p.measured(*waited, 1000, load);
        }
        p
    }

    #[test]
    fn a_batch_may_wait_for_a_quarter_of_its_latency() {
        let few = DEEP - 1;
        // Four decide, by their mean.
        assert_eq!(judged(&[1000; 3], few).limit(), 16);
        assert_eq!(judged(&[1000, 0, 0, 1], few).limit(), 8);
        assert_eq!(judged(&[250; 4], few).limit(), 16);
        assert_eq!(judged(&[251; 4], few).limit(), 8);
        assert_eq!(judged(&[251; 8], few).limit(), 4);
        assert_eq!(judged(&[i64::MAX; 400], few).limit(), 1);
        // Where throughput counts, none does.
        assert_eq!(judged(&[251; 8], DEEP).limit(), 16);
    }

    #[test]
    fn batches_grow_again_when_the_first_waits_for_an_eighth() {
        let grown = |waits: &[i64]| {
            let mut p = judged(waits, 10);
            p.completed(128, true);
            p.limit()
        };
        let worse = [251; 4];
        assert_eq!(grown(&worse), 8);
        assert_eq!(grown(&[worse, [125; 4]].concat()), 8);
        assert_eq!(grown(&[worse, [124; 4]].concat()), 16);
        assert_eq!(grown(&[&worse[..], &[124; 3]].concat()), 8);
        assert_eq!(grown(&[worse, [124; 4], [125; 4]].concat()), 8);
        // Where nothing waits, nothing is measured.
        assert_eq!(grown(&[worse; 4].concat()), 2);
    }

    #[test]
    fn lone_requests_that_follow_one_another_are_rung_for_by_themselves() {
        let mut p = Policy::new(Mode::Adaptive, 4, 16);
        for limit in [4, 2, 1, 1] {
            p.completed(1, false);
            assert_eq!(p.limit(), limit);
        }
        // Not so the ends of bursts.
        let mut p = judged(&[], 0);
        for _ in 0..10 {
            p.completed(60, true);
            p.completed(1, false);
            assert_eq!(p.limit(), 16);
        }
    }

    #[test]
    fn only_the_adaptive_mode_goes_by_what_is_measured() {
        for mode in [Mode::Each, Mode::Batch] {
            let mut p = Policy::new(mode, 8, 16);
            let limit = p.limit();
            for _ in 0..10 {
                p.measured(100, 100, 1);
            }
            assert_eq!(p.limit(), limit);
        }
    }

    #[test]
    fn adaptive_stays_in_its_range() {
        let mut p = Policy::new(Mode::Adaptive, 4, 100);
        assert_eq!(p.limit(), ADAPTIVE_START);
        for _ in 0..100 {
            p.completed(128, true);
            assert!(p.limit() <= ADAPTIVE_MAX);
        }
        assert_eq!(p.limit(), ADAPTIVE_MAX);
        for _ in 0..100 {
            p.completed(1, false);
            assert!(p.limit() >= 1);
        }
        assert_eq!(p.limit(), 1);
    }
}
