// SPDX-License-Identifier: GPL-2.0

//! Ringing for what was posted, at once or later.

use super::{
    credit::{
        Handle,
        Way, //
    },
    encode::{
        Cursor,
        LastWqe, //
    },
    post::hint,
    poster::Poster,
    ring::hardware,
    send::{
        SendQueue,
        State, //
    },
};
use crate::{
    doorbell::{
        hold::Expiry,
        policy::{
            Cause,
            Hint,
            Mode, //
        },
        timer::{
            now,
            Expire, //
        }, //
    },
    observe::{
        latency,
        probes,
        trace, //
    },
    params::Params,
    wqe::merge::Limits,
};
use core::{
    mem::offset_of,
    sync::atomic::{
        fence,
        Ordering::{
            Relaxed,
            SeqCst, //
        }, //
    },
};

impl SendQueue {
    /// Takes over the parameters of the device, also while traffic runs.
    ///
    /// An exclusive queue must not be open yet: nobody but its poster may touch what they change.
    pub(crate) fn configure(&self, params: &Params) {
        let mut poster = self.poster.lock();
        // Read under the lock: of two who configure, the later one has the later values.
        let config = params.doorbell();
        let shorter = poster.hold.set(config.max_hold_us, now());
        poster.sample.forget();
        // `close` waits for the lock before it stops the timer.
        if let Some(ns) = shorter.filter(|_| self.state() != State::Gone) {
            self.timer.start(ns);
        }
        let before = poster.policy.mode();
        let cause = poster
            .policy
            .change(config.mode, config.batch, config.max_batch);
        self.watch_mode(before as u8, config.mode as u8);
        poster.prefetch = params.prefetch();
        poster.blueflame = params.blueflame();
        let compression = params.compression();
        poster.merge = compression.enabled.then_some(Limits {
            max_segments: self.max_ranges,
            max_message: self.max_message,
            min_send_size: compression.min_send_size,
        });
        // The doorbell of an exclusive queue is rung at the end of each post, whatever the mode.
        let deferring = self.handle == Handle::Shared && config.mode != Mode::Each;
        self.deferring.store(deferring, Relaxed);
        self.expect(&poster);
        self.ring_if(&mut poster, cause);
        self.open_ways(&poster);
    }

    /// The tracepoint of a change from one mode to another, as [`event_log::mode_name`] knows them; none if they
    /// are the same or the queue is not connected: what it is made with is no change.
    ///
    /// [`event_log::mode_name`]: crate::observe::event_log::mode_name
    pub(crate) fn watch_mode(&self, before: u8, now: u8) {
        if before != now && self.state() == State::Connected {
            trace::mode(self.pci, self.completing.qpn(), before, now);
        }
    }

    /// The probe of a batch that has changed from `before` on.
    fn watch_batch(&self, poster: &Poster, before: u32) {
        let now = poster.policy.limit();
        if now != before {
            probes::batch(self.pci, poster.qpn, before, now);
        }
    }

    /// Tells those who complete when to look after the poster.
    pub(super) fn expect(&self, poster: &Poster) {
        let asked = self.space.is_watched() || poster.sample.is_under_way();
        if asked || self.owes_report.load(Relaxed) {
            // Always: somebody may wait for room, a report in any case; or a batch is being measured.
            self.pending.expect(u32::MAX..=u32::MAX);
        } else if self.deferring.load(Relaxed) {
            self.pending.expect(poster.policy.calm());
        } else {
            self.pending.expect(0..=u32::MAX);
        }
    }

    /// Opens the ways of posting that these settings leave, up to the room that is not reserved, if the queue is
    /// open at all.
    pub(super) fn open_ways(&self, poster: &Poster) {
        if self.state() != State::Connected {
            return;
        }
        let depth = self.shape.depth.saturating_sub(poster.reserved);
        let depth_if = |plain: bool| if plain { depth } else { 0 };
        // What follows a registration has to wait for it: the general way says so.
        let plain = !poster.blueflame.takes_plain() && !poster.registered;
        // A chain of one prefetches, too.
        let one = depth_if(plain && !poster.prefetch);
        let chain = depth_if(plain && poster.merge.is_none());
        self.credit.open(self.handle, Way::Any, depth);
        self.credit.open(self.handle, Way::One, one);
        self.credit.open(self.handle, Way::Chain, chain);
        // As in `open`: a failure meanwhile sees these limits, or is seen here.
        fence(SeqCst);
        if self.state() != State::Connected {
            self.credit.close();
        }
    }

    /// `wqes` more WQEs, which are posted, wait for the doorbell: `head` is the beginning of the last of them,
    /// and `last_flags` are those of its request. With a `cause` they end the wait of those before them.
    #[inline(never)]
    pub(super) fn wait(
        &self,
        poster: &mut Poster,
        head: [u8; 8],
        wqes: u32,
        last_flags: u32,
        cause: Option<Cause>,
    ) {
        poster.head = head;
        if cause.is_some() {
            poster.policy.join(wqes);
            return self.ring_if(poster, cause);
        }
        let first = poster.policy.waiting() == wqes;
        if first {
            self.pending.begin();
            // The policy may have counted on a completion that has come since, and whose taker saw nothing
            // wait: see `Pending`. Of those that wait already it has been told.
            let counted = hint(last_flags) == Hint::None;
            if counted && !self.expects_completion(poster.signaled_rung) {
                return self.ring_if(poster, Some(Cause::Idle));
            }
            let now = now();
            if let Some(ns) = poster.hold.begin(now) {
                self.timer.start(ns);
            }
            // Whoever says what follows knows what he does.
            if counted
                && poster.policy.mode() == Mode::Adaptive
                && poster.sample.begin(self.credit.posted(), now)
            {
                // Who completes sees this in time: the HCA cannot complete what it is not shown.
                self.expect(poster);
            }
        }
    }

    /// Rings for what was posted up to the cursor, before which nothing waits.
    #[inline(always)]
    pub(super) fn ring_now(&self, poster: &mut Poster, at: &Cursor, cause: Cause) {
        self.note_doorbell(poster, at, cause, at.wqes);
        poster.doorbell.ring(at.block, at.head);
    }

    /// Notes a doorbell that is about to be rung, for what waits and for the WQEs of the cursor. Returns
    /// for how many.
    fn rung(&self, poster: &mut Poster, at: &Cursor, cause: Cause) -> u32 {
        if poster.policy.waiting() != 0 {
            self.pending.end();
            poster.sample.rung(now);
        }
        let wqes = poster.policy.rung(at.wqes);
        self.note_doorbell(poster, at, cause, wqes);
        wqes
    }

    /// Notes a doorbell for `wqes` WQEs, up to the cursor: the last of those that have waited, if any did.
    #[inline(always)]
    pub(super) fn note_doorbell(&self, poster: &mut Poster, at: &Cursor, cause: Cause, wqes: u32) {
        poster.signaled_rung = at.request.wrapping_sub(at.unsignaled);
        self.post_counters.rung(cause as usize, wqes);
    }

    /// As [`SendQueue::ring_now`], with the tracepoint; the last WQE itself goes to the doorbell register
    /// when it is alone and fits.
    #[inline(never)]
    pub(super) fn ring_with(
        &self,
        poster: &mut Poster,
        at: &Cursor,
        cause: Cause,
        last: Option<LastWqe>,
    ) {
        if latency::is_on() {
            self.note_rung(at.request);
        }
        let wqes = self.rung(poster, at, cause);
        trace::doorbell(self.pci, poster.qpn, hardware(at.block), wqes);
        self.ring_or_copy(poster, at, wqes, last);
    }

    /// Rings for `wqes` WQEs, which have been noted; the last of them goes to the doorbell register itself when
    /// it is alone and fits.
    #[inline(always)]
    pub(super) fn ring_or_copy(
        &self,
        poster: &mut Poster,
        at: &Cursor,
        wqes: u32,
        last: Option<LastWqe>,
    ) {
        let whole = last.filter(|last| {
            let copies = poster.blueflame.takes(last.inline_bytes);
            wqes == 1 && copies && poster.doorbell.holds(last.blocks)
        });
        let Some(last) = whole else {
            return poster.doorbell.ring(at.block, at.head);
        };
        self.post_counters.blueflame.add(1);
        self.post_counters.blueflame_blocks.add(last.blocks.into());
        let (slots, doorbell) = (&poster.slots, &mut poster.doorbell);
        doorbell.blueflame(at.block, last.blocks, |block| {
            slots.block(last.block.wrapping_add(block))
        });
    }

    /// Rings for what waits, if there is a cause.
    pub(super) fn ring_if(&self, poster: &mut Poster, cause: Option<Cause>) {
        let Some(cause) = cause else {
            return;
        };
        // A queue that is gone has no doorbell any more.
        if self.state() == State::Gone {
            return;
        }
        let mut at = Cursor::new(poster, self.credit.posted());
        at.head = poster.head;
        self.ring_with(poster, &at, cause, None);
    }

    /// Whether a completion will come from what was rung: the last signaled request that was rung, with
    /// `signaled_rung` behind it, is not retired.
    #[inline(always)]
    pub(super) fn expects_completion(&self, signaled_rung: u32) -> bool {
        // This way round the sign alone says it.
        (self.credit.retired().wrapping_sub(signaled_rung) as i32) < 0
    }

    /// Shows the HCA everything that was posted. Any context.
    pub(crate) fn flush(&self) {
        if self.handle == Handle::Exclusive {
            // Nothing waits.
            return;
        }
        let mut poster = self.poster.lock();
        let cause = poster.policy.flush();
        self.ring_if(&mut poster, cause);
    }

    /// A round of completions is through, at whose beginning `load` requests were in flight: another occasion
    /// to ring for what waits, and the load by which the policy adapts. Any context.
    #[inline(always)]
    pub(crate) fn completed(&self, load: u32) {
        if self.pending.concerns(load) {
            self.completed_pending(load);
        }
    }

    #[inline(never)]
    fn completed_pending(&self, load: u32) {
        self.tell_space();
        if self.owes_report.load(Relaxed) {
            self.report_owed();
        }
        if !self.deferring.load(Relaxed) {
            // Nothing waits.
            return;
        }
        let mut guard = self.poster.lock();
        let poster = &mut *guard;
        let busy = self.expects_completion(poster.signaled_rung);
        let before = poster.policy.limit();
        if let Some(latency) = poster.sample.completed(self.credit.retired(), now) {
            poster.policy.measured(latency.waited, latency.total, load);
            self.post_counters.measured(&latency);
        }
        let cause = poster.policy.completed(load, busy);
        self.watch_batch(poster, before);
        self.expect(poster);
        self.ring_if(poster, cause);
    }
}

impl Expire for SendQueue {
    const TIMER: usize = offset_of!(SendQueue, timer);

    #[inline(never)]
    fn expire(&self) -> Option<i64> {
        let mut poster = self.poster.lock();
        let waiting = poster.policy.waiting() != 0;
        match poster.hold.expired(waiting, now()) {
            Expiry::Again(ns) => Some(ns),
            Expiry::Stop => None,
            Expiry::Ring => {
                probes::held(self.pci, poster.qpn, poster.policy.waiting());
                let before = poster.policy.limit();
                let cause = poster.policy.held(self.credit.in_flight());
                self.watch_batch(&poster, before);
                self.expect(&poster);
                self.ring_if(&mut poster, cause);
                None
            }
        }
    }
}
