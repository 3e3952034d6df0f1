// SPDX-License-Identifier: GPL-2.0

//! Taking completion entries, retiring requests, telling consumers.
//!
//! The device is not trusted: an entry retires requests only if it names a WQE that is in flight on
//! this queue. Everything else is counted, reported once and dropped.
//!
//! # Room
//!
//! The consumer counter goes to the doorbell record once in a poll, behind its last entry, while callbacks
//! post anew into the credits that came back. So a completion queue has entries for all requests in flight
//! *and* for those that one poll takes: [`Completing::room`] is what is left for the latter.

use super::{
    cqe::{
        self,
        Opcode,
        Tail, //
    },
    run::Run,
    unusual::Took, //
};
use crate::{
    hw::{
        barrier,
        cq::CqCore, //
    },
    irq::softirqs_are_off,
    observe::{
        latency,
        totals::CompletionCounters,
        trace, //
    },
    queue::{
        in_flight::View,
        request::deliver,
        send::SendQueue, //
    },
    wqe,
};
use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    ptr::null_mut,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        AtomicU32,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    },
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mlx5_ulp_bindings as bindings;

/// What only one who completes touches: guarded by `taken`.
#[repr(align(64))]
pub(crate) struct Completing {
    /// Whether somebody is at it. Not a lock: nobody waits for it with interrupts off, and callbacks
    /// run while it is set.
    taken: AtomicBool,
    /// Whether everything was completed for good: nobody looks at the ring any more.
    over: AtomicBool,
    /// Whether an entry that made no sense has been reported.
    pub(super) reported: AtomicBool,
    /// Whether an error entry was taken.
    pub(super) failed: AtomicBool,
    /// The QP that entries must name.
    qpn: AtomicU32,
    /// Entries that one poll may take.
    room: AtomicU32,
    /// The ring, for whoever has the turn; null until it is attached, and once everything is over.
    ring: AtomicPtr<CqCore>,
    /// What is expected there. For whoever has the turn.
    run: UnsafeCell<Run>,
    /// The ring; null until it is attached.
    cq: AtomicPtr<CqCore>,
    counters: CompletionCounters,
}

impl Completing {
    /// Nothing taken yet.
    pub(crate) fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            over: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            qpn: AtomicU32::new(0),
            room: AtomicU32::new(0),
            ring: AtomicPtr::new(null_mut()),
            run: UnsafeCell::new(Run::none()),
            cq: AtomicPtr::new(null_mut()),
            counters: CompletionCounters::default(),
        }
    }

    /// From here on entries come in `cq`, must name this QP, and up to `depth` requests and receives are in
    /// flight.
    ///
    /// # Safety
    ///
    /// `cq` must live until [`SendQueue::end`] has returned.
    pub(crate) unsafe fn attach(&self, cq: &CqCore, qpn: u32, depth: u32) {
        let entries = 1u32 << (cq.log_entries() & 31);
        self.room
            .store(entries.saturating_sub(depth).max(1), Relaxed);
        self.qpn.store(qpn, Relaxed);
        let cq = core::ptr::from_ref(cq).cast_mut();
        self.cq.store(cq, Release);
        self.ring.store(cq, Release);
    }

    /// What has completed.
    pub(crate) fn counters(&self) -> &CompletionCounters {
        &self.counters
    }

    /// Whether everything has completed for good.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }

    /// Entries taken, free running: the consumer counter.
    #[inline(always)]
    fn consumer(&self) -> u32 {
        self.counters.entries.get() as u32
    }

    /// Entries that one poll may take.
    pub(super) fn room(&self) -> u32 {
        self.room.load(Relaxed)
    }

    /// The QP that entries must name.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// The completion mode was switched. By whoever holds the lock of the moderator.
    pub(super) fn switched(&self) {
        self.counters.switches.add(1);
    }

    /// The ring, for the holder of the turn, who may look at it until he gives the turn back.
    #[inline(always)]
    fn ring<'a>(&self, _turn: &'a Turn<'_>) -> Option<&'a CqCore> {
        // SAFETY: By the contract of `attach` it lives until `end` has returned, which waits for the turn
        // and clears the pointer while it has it.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    /// What is expected in the ring, likewise.
    #[inline(always)]
    fn run<'a>(&'a self, _turn: &'a mut Turn<'_>) -> &'a mut Run {
        // SAFETY: There is one turn at a time, which is borrowed mutably.
        unsafe { &mut *self.run.get() }
    }

    /// Both.
    #[inline]
    fn ring_and_run<'a>(&'a self, turn: &'a mut Turn<'_>) -> Option<(&'a CqCore, &'a mut Run)> {
        let ring = core::ptr::from_ref(self.ring(turn)?);
        // SAFETY: As in `ring`: it lives until the turn is given back, which is borrowed here.
        Some((unsafe { &*ring }, self.run(turn)))
    }
}

/// The right to complete requests of a queue: one at a time. Given back when dropped.
pub(crate) struct Turn<'a>(&'a SendQueue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.completing.taken.store(false, Release);
    }
}

/// The context in which consumers are called: with softirqs off on this CPU while it exists, from wherever
/// that happens, unless they are called in process context.
struct Context {
    softirqs_off: bool,
}

impl Context {
    fn of(queue: &SendQueue) -> Self {
        let softirqs_off = !queue.in_work;
        if softirqs_off {
            // SAFETY: Nests, and is undone by `drop` in the same task.
            unsafe { bindings::mlx5_ulp_shim_bh_disable() };
        }
        Self { softirqs_off }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.softirqs_off {
            // SAFETY: Undoes `of`.
            unsafe { bindings::mlx5_ulp_shim_bh_enable() };
        }
    }
}

/// How far a poll has come.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// Entries taken, free running.
    pub(super) consumer: u32,
    /// Requests retired, free running.
    pub(super) retired: u32,
}

/// Entries that are looked at before their consumers are told.
const CHUNK: usize = 16;

impl SendQueue {
    /// Takes the right to complete, if nobody has it.
    #[inline(always)]
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        if self.completing.taken.swap(true, Acquire) {
            return None;
        }
        Some(Turn(self))
    }

    /// Whether somebody is completing, callbacks included. Who has seen a request retired, and then sees
    /// this false, knows that its callback has returned.
    pub(crate) fn is_completing(&self) -> bool {
        self.completing.taken.load(Acquire)
    }

    /// Entries taken so far, the consumer counter to arm with. For the holder of the turn.
    #[inline]
    pub(crate) fn consumer(&self, _turn: &Turn<'_>) -> u32 {
        self.completing.consumer()
    }

    /// Takes up to `budget` entries, at least 1, and the rest of a compressed block, but not more than there is room
    /// for, and completes what they say. Returns how many it took: 0 when there was none, or the queue is over.
    ///
    /// What is taken as expected needs no look at the room: a [`Run`] ends with the table of cookies, of which
    /// there are the next power of two of the queue's depth, and the completion queue has twice the next power
    /// of two of all that is in flight, which leaves room for no less.
    ///
    /// Softirqs must be off: consumers are called. But for queues that call in process context.
    #[inline(always)]
    pub(crate) fn poll(&self, turn: &mut Turn<'_>, budget: u32) -> u32 {
        // Acquire: the marks and cookies of these are there. And no more than that, whatever the device says.
        let in_flight = self.credit.in_flight();
        if in_flight == 0 || trace::completing() {
            return self.poll_more(turn, budget, 0, in_flight);
        }
        // Mostly there is one, and it is as expected.
        let Some(cookie) = self.completing.run(turn).take_one() else {
            return self.poll_more(turn, budget, 0, in_flight);
        };
        self.retire_one(cookie);
        if budget != 1 {
            return self.poll_run(turn, budget, in_flight);
        }
        self.took(turn, 1, 1, in_flight);
        1
    }

    /// The rest of [`SendQueue::poll`], when the first entry was as expected: the next ones mostly are, too.
    #[inline(never)]
    fn poll_run(&self, turn: &mut Turn<'_>, budget: u32, in_flight: u32) -> u32 {
        let run = self.completing.run(turn);
        let taken = self.take_run(run, budget.wrapping_sub(1)).wrapping_add(1);
        if taken != budget {
            return self.poll_more(turn, budget, taken, in_flight);
        }
        self.took(turn, taken, taken, in_flight);
        taken
    }

    /// The rest of [`SendQueue::poll`], when `taken` entries were taken and as many requests retired, of those
    /// `in_flight` when it began.
    #[inline(never)]
    fn poll_more(&self, turn: &mut Turn<'_>, budget: u32, taken: u32, in_flight: u32) -> u32 {
        let Some((ring, run)) = self.completing.ring_and_run(turn) else {
            return 0;
        };
        let (first, retired) = (self.completing.consumer(), self.credit.retired());
        let mut now = Progress {
            consumer: first.wrapping_add(taken),
            retired,
        };
        self.take_rest(ring, run, &mut now, budget, taken);
        let entries = now.consumer.wrapping_sub(first);
        if entries != 0 {
            let retired = now.retired.wrapping_sub(retired).wrapping_add(taken);
            self.took(turn, entries, retired, in_flight);
        }
        entries
    }

    /// A poll has taken so many entries and retired so many requests; so many were in flight when it began.
    #[inline(always)]
    fn took(&self, turn: &mut Turn<'_>, entries: u32, retired: u32, in_flight: u32) {
        let counters = &self.completing.counters;
        counters.entries.add(entries.into());
        counters.completed.add(retired.into());
        if let Some(ring) = self.completing.ring(turn) {
            ring.set_consumer(self.completing.consumer());
        }
        self.completed(in_flight);
    }

    /// Retires the oldest request, and tells its consumer, whose cookie this is.
    #[inline(always)]
    fn retire_one(&self, cookie: usize) {
        // The credit comes back first, so that the callback can post. The cookie has been read before that.
        self.credit.retire();
        // SAFETY: The request was in flight, as `Run` says; it has just been retired, and what is retired is
        // never delivered again.
        unsafe { deliver(cookie, &self.success) };
    }

    /// Takes entries as long as they are as expected, up to `budget`, and completes what they say. Returns how
    /// many.
    #[inline(always)]
    fn take_run(&self, run: &mut Run, budget: u32) -> u32 {
        let retired = self.credit.retired();
        let mut cookies = [const { MaybeUninit::uninit() }; CHUNK];
        let most = self.credit.in_flight().min(budget);
        let taken = run.take(most, &mut cookies);
        // As in `retire_one`, for all of them.
        self.credit.set_retired(retired.wrapping_add(taken));
        for i in 0..taken as usize {
            // SAFETY: `take` has filled in so many. The rest as in `retire_one`.
            unsafe { deliver(cookies.get_unchecked(i).assume_init(), &self.success) };
        }
        taken
    }

    /// Takes more entries, those that are not as expected too: `budget` in all, of which `taken` are taken.
    /// `now` says how far the poll has come; returns how far it came.
    #[inline(always)]
    fn take_rest(&self, ring: &CqCore, run: &mut Run, now: &mut Progress, budget: u32, taken: u32) {
        let completing = &self.completing;
        let (qpn, log_entries) = (completing.qpn(), ring.log_entries());
        let requests = self.requests.view();
        let last = now
            .consumer
            .wrapping_add(budget.min(completing.room()).saturating_sub(taken));
        // Behind this one there may be no room.
        let end = now
            .consumer
            .wrapping_sub(taken)
            .wrapping_add(completing.room());
        // The block where the next WQE starts if it goes on as it did.
        let mut steady = None;
        loop {
            let left = last.wrapping_sub(now.consumer);
            if left as i32 <= 0 {
                break;
            }
            if run.left() != 0 && !trace::completing() {
                let taken = self.take_run(run, left);
                now.consumer = now.consumer.wrapping_add(taken);
                now.retired = now.retired.wrapping_add(taken);
                if taken != 0 {
                    steady = None;
                    continue;
                }
            }
            let word = ring.tail(now.consumer);
            let tail = Tail::decode(&word.to_ne_bytes());
            if !cqe::ready(tail.op_own, now.consumer, log_entries) {
                break;
            }
            // Nothing else of the entry, nor what the device did before, may be read before that.
            barrier::dma_rmb();
            if cqe::is_receive(tail.op_own) {
                *run = Run::none();
                self.take_receive(ring, now.consumer);
                now.consumer = now.consumer.wrapping_add(1);
                continue;
            }
            let range = if tail.qpn == qpn && cqe::is_plain(tail.op_own) {
                requests.at(tail.wqe_counter, now.retired, self.credit.posted())
            } else {
                None
            };
            *run = Run::none();
            let Some(range) = range else {
                // A block may be of more than the caller wanted, as long as there is room: what is left over of
                // entries that an event has told of would be told of by no other. There were no more of these than
                // there is room for.
                let limit = end.wrapping_sub(now.consumer);
                match self.take_unusual(ring, now, word, limit) {
                    Took::Entries => continue,
                    Took::Nothing => break,
                }
            };
            let single = range.end.wrapping_sub(now.retired) == 1;
            if trace::completing() {
                now.retired = self.retire_watched(ring, *now, word, range.end);
            } else {
                self.retire(&requests, &mut now.retired, range.end, &self.success);
            }
            now.consumer = now.consumer.wrapping_add(1);
            let next = tail.wqe_counter.wrapping_add(1);
            if single && steady.is_none_or(|block| block == tail.wqe_counter) {
                *run = Run::new(ring, &requests, qpn, now.consumer, next, now.retired);
            }
            steady = Some(next);
        }
    }

    /// [`SendQueue::retire`] for the plain entry with tail `word`, while somebody watches. Returns how many
    /// requests are retired then.
    #[cold]
    #[inline(never)]
    fn retire_watched(&self, ring: &CqCore, now: Progress, word: u64, end: u32) -> u32 {
        let tail = Tail::decode(&word.to_ne_bytes());
        trace::completion(self.pci, tail.qpn, tail.wqe_counter, Opcode::REQ.0, 0);
        let mut retired = now.retired;
        let retire = || self.retire(&self.requests.view(), &mut retired, end, &self.success);
        self.retire_measured(
            ring,
            ring.timestamp(now.consumer),
            tail.wqe_opcode,
            end,
            retire,
        );
        retired
    }

    /// Has `retire` complete the requests before number `end`, and measures the last of them if that is
    /// on: the entry about it came with this time stamp and the opcode of its WQE.
    pub(super) fn retire_measured(
        &self,
        ring: &CqCore,
        stamp: u64,
        wqe_opcode: u8,
        end: u32,
        mut retire: impl FnMut(),
    ) {
        // What is measured is counted by CPU, and callbacks that sleep change theirs.
        if latency::is_on() && !self.in_work {
            self.measure(ring, stamp, wqe::opcode::Opcode(wqe_opcode), end, retire);
        } else {
            retire();
        }
    }

    /// Completes all requests before number `end`, those from `retired` on, which are in flight.
    #[inline(always)]
    pub(super) fn retire(
        &self,
        requests: &View<'_>,
        retired: &mut u32,
        end: u32,
        completion: &bindings::mlx5_ulp_completion,
    ) {
        while *retired != end {
            let cookie = requests.cookie(*retired);
            *retired = retired.wrapping_add(1);
            // The credit comes back first, so that the callback can post.
            self.credit.set_retired(*retired);
            // SAFETY: The request was in flight, as `InFlight::at` or the credits say; it has just been
            // retired, and what is retired is never delivered again.
            unsafe { deliver(cookie, completion) };
        }
    }

    /// Completes everything in flight without the device, waiting for the turn: see [`SendQueue::end`].
    /// Sleeps.
    pub(crate) fn complete_all(&self) {
        loop {
            {
                let _context = Context::of(self);
                if let Some(mut turn) = self.turn() {
                    return self.end(&mut turn);
                }
            }
            fsleep(Delta::from_micros(20));
        }
    }

    /// Looks for completions and calls consumers, from the work item; then as the mode says. See
    /// [`Interrupt`](super::interrupt::Interrupt), which has queued it.
    pub(crate) fn complete_in_work(&self) {
        let mut pause = 20;
        // Whoever has the turn may have it for long, since callbacks may sleep here.
        while self.is_completing() && !self.completing.is_over() {
            fsleep(Delta::from_micros(pause));
            pause = pause.saturating_mul(2).min(1000);
        }
        // SAFETY: By the contract of `SendQueue::attach` the queue lives until the work item is disabled.
        if let Some(cq) = unsafe { self.completing.cq.load(Acquire).as_ref() } {
            self.look(cq, || self.work.queue());
        }
    }

    /// As [`SendQueue::tell_space`], once the turn is free. Sleeps.
    pub(crate) fn tell_space_later(&self) {
        if !self.space_is_wanted() {
            return;
        }
        loop {
            {
                let _context = Context::of(self);
                if let Some(_turn) = self.turn() {
                    return self.tell_space();
                }
            }
            fsleep(Delta::from_micros(20));
        }
    }

    /// Takes up to `budget` entries, at least 1, for a consumer who looks by himself. Interrupts are on.
    #[inline(always)]
    pub(crate) fn poll_now(&self, budget: u32) -> u32 {
        if !softirqs_are_off() {
            return self.poll_softirqs_off(budget);
        }
        match self.turn() {
            Some(mut turn) => self.poll(&mut turn, budget),
            None => 0,
        }
    }

    /// As [`SendQueue::poll_now`], from a task.
    #[inline(never)]
    fn poll_softirqs_off(&self, budget: u32) -> u32 {
        let _context = Context::of(self);
        match self.turn() {
            Some(mut turn) => self.poll(&mut turn, budget),
            None => 0,
        }
    }

    /// Tells the device how to moderate its events. Sleeps; one at a time, from the work item or before
    /// it is queued.
    ///
    /// # Errors
    ///
    /// Those of the firmware.
    pub(crate) fn moderate_device(&self) -> Result {
        // SAFETY: By the contract of `SendQueue::attach` the queue lives until the work item is disabled.
        match unsafe { self.completing.cq.load(Acquire).as_ref() } {
            Some(cq) => self.moderator.program(cq),
            None => Ok(()),
        }
    }

    /// Completes everything in flight without the device, and for good: nobody looks at the ring any more
    /// when this returns.
    ///
    /// The queue must be closed to all posters, and the device must not carry out anything of it any more.
    /// Softirqs must be off. May be called again.
    pub(crate) fn end(&self, turn: &mut Turn<'_>) {
        // What is there was there already, so not more than fits: a device that goes on writing entries, against
        // the rules, does not keep us.
        let ring = self.completing.ring(turn);
        let mut left = ring.map_or(0, |ring| 1u32 << (ring.log_entries() & 31));
        while left != 0 {
            let taken = self.poll(turn, left);
            if taken == 0 {
                break;
            }
            left = left.saturating_sub(taken);
        }
        self.flush_in_software();
        self.tell_space();
        self.completing.over.store(true, Release);
        self.completing.ring.store(null_mut(), Relaxed);
        *self.completing.run(turn) = Run::none();
    }
}
