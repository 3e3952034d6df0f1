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
    unusual::Took, //
};
use crate::{
    hw::{
        barrier,
        cq::CqCore, //
    },
    observe::{
        latency,
        totals::CompletionCounters,
        trace, //
    },
    queue::{
        in_flight::View,
        request::{
            deliver,
            Outcome, //
        },
        send::SendQueue, //
    },
    wqe,
};
use core::{
    ptr::{
        null_mut,
        NonNull, //
    },
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
    /// Entries taken, free running.
    consumer: AtomicU32,
    /// Entries that one poll may take.
    room: AtomicU32,
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
            consumer: AtomicU32::new(0),
            room: AtomicU32::new(0),
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
        self.cq.store(core::ptr::from_ref(cq).cast_mut(), Release);
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

    /// Entries that one poll may take.
    pub(super) fn room(&self) -> u32 {
        self.room.load(Relaxed)
    }

    /// The QP that entries must name.
    pub(super) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// The completion mode was switched. By whoever holds the lock of the moderator.
    pub(super) fn switched(&self) {
        self.counters.switches.add(1);
    }

    /// The ring, for the holder of the turn, who may look at it until he gives the turn back.
    #[inline(always)]
    pub(super) fn ring<'a>(&self, _turn: &'a Turn<'_>) -> Option<&'a CqCore> {
        if self.over.load(Relaxed) {
            return None;
        }
        // SAFETY: By the contract of `attach` it lives until `end` has returned, which waits for the turn
        // and sets `over` while it has it.
        unsafe { self.cq.load(Acquire).as_ref() }
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

/// The place of the consumer in the ring: where the last eight bytes of the next entry are.
struct Place {
    at: NonNull<u64>,
    first: NonNull<u64>,
    /// Behind the last entry's.
    end: NonNull<u64>,
}

impl Place {
    /// The place of counter `consumer`.
    #[inline(always)]
    fn new(ring: &CqCore, consumer: u32) -> Self {
        let base = ring.base();
        let entries = 1usize << (ring.log_entries() & 31);
        let index = consumer as usize & entries.wrapping_sub(1);
        // SAFETY: The ring has `entries` entries and is aligned to a page, `index` is one of them: these
        // are eight aligned bytes in the ring, and the last one is behind the ring by as much.
        unsafe {
            let first = base.add(cqe::TAIL).cast::<u64>();
            Self {
                at: first.byte_add(index * cqe::SIZE),
                first,
                end: NonNull::new_unchecked(first.as_ptr().wrapping_byte_add(entries * cqe::SIZE)),
            }
        }
    }

    /// What is there, in one piece. The device may write it at any time.
    #[inline(always)]
    fn read(&self) -> u64 {
        // SAFETY: By `new` and `advance`, `at` is in the ring, which lives as long as the poll.
        unsafe { self.at.read_volatile() }
    }

    /// Goes to the next entry. True when that begins another round.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        // SAFETY: `at` is before `end`, by a whole number of entries.
        self.at = unsafe { self.at.byte_add(cqe::SIZE) };
        let round = self.at == self.end;
        if round {
            self.at = self.first;
        }
        round
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
        self.completing.consumer.load(Relaxed)
    }

    /// Takes up to `budget` entries, and not more than there is room for, and completes what they say.
    /// Returns how many it took: 0 when there was none, or the queue is over.
    ///
    /// Softirqs must be off: consumers are called. But for queues that call in process context.
    pub(crate) fn poll(&self, turn: &Turn<'_>, budget: u32) -> u32 {
        let completing = &self.completing;
        let Some(ring) = completing.ring(turn) else {
            return 0;
        };
        let budget = budget.min(completing.room());
        let (qpn, log_entries) = (completing.qpn(), ring.log_entries());
        let done = Outcome::Done.completion(self.context());
        let requests = self.requests.view();
        let (first, before) = (completing.consumer.load(Relaxed), self.credit.retired());
        let mut retired = before;
        let mut place = Place::new(ring, first);
        let mut plain = cqe::plain(qpn, first, log_entries);
        // Entries that may be taken, and the consumer counter when there are none left: one of them counts,
        // the other does for both.
        let mut left = budget;
        let mut stop = first.wrapping_add(budget);
        while left != 0 {
            let word = place.read();
            // Nothing else of the entry, nor what the device did before, may be read before that.
            barrier::dma_rmb();
            if (word ^ plain) & cqe::PLAIN_MASK == 0 {
                let counter = Tail::decode(&word.to_ne_bytes()).wqe_counter;
                if let Some(range) = requests.at(counter, retired, self.credit.posted()) {
                    if trace::completion_is_on() || latency::is_on() {
                        let now = Progress {
                            consumer: stop.wrapping_sub(left),
                            retired,
                        };
                        retired = self.retire_watched(ring, now, word, range.end);
                    } else {
                        self.retire(&requests, &mut retired, range.end, &done);
                    }
                    left = left.wrapping_sub(1);
                    if place.advance() {
                        plain ^= cqe::OWNER;
                    }
                    continue;
                }
            }
            let mut now = Progress {
                consumer: stop.wrapping_sub(left),
                retired,
            };
            let op_own = Tail::decode(&word.to_ne_bytes()).op_own;
            if !cqe::ready(op_own, now.consumer, log_entries) {
                break;
            }
            if cqe::is_receive(op_own) {
                self.take_receive(ring, now.consumer);
                left = left.wrapping_sub(1);
                if place.advance() {
                    plain ^= cqe::OWNER;
                }
                continue;
            }
            // The first of a poll may be a block of more than the caller wanted: else nobody ever takes it.
            let limit = if left == budget {
                completing.room()
            } else {
                left
            };
            let took = self.take_unusual(ring, &mut now, word, limit);
            left = left.saturating_sub(now.consumer.wrapping_sub(stop.wrapping_sub(left)));
            stop = now.consumer.wrapping_add(left);
            retired = now.retired;
            if let Took::Nothing = took {
                break;
            }
            place = Place::new(ring, now.consumer);
            plain = cqe::plain(qpn, now.consumer, log_entries);
        }
        let consumer = stop.wrapping_sub(left);
        let taken = consumer.wrapping_sub(first);
        if taken != 0 {
            ring.set_consumer(consumer);
            completing.consumer.store(consumer, Relaxed);
            completing.counters.entries.add(taken.into());
            let retired = retired.wrapping_sub(before);
            completing.counters.completed.add(retired.into());
            self.completed(retired);
        }
        taken
    }

    /// [`SendQueue::retire`] for the plain entry with tail `word`, while somebody watches. Returns how many
    /// requests are retired then.
    #[cold]
    #[inline(never)]
    fn retire_watched(&self, ring: &CqCore, now: Progress, word: u64, end: u32) -> u32 {
        let tail = Tail::decode(&word.to_ne_bytes());
        trace::completion(self.pci, tail.qpn, tail.wqe_counter, Opcode::REQ.0, 0);
        let done = Outcome::Done.completion(self.context());
        let mut retired = now.retired;
        let retire = || self.retire(&self.requests.view(), &mut retired, end, &done);
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
                if let Some(turn) = self.turn() {
                    return self.end(&turn);
                }
            }
            fsleep(Delta::from_micros(20));
        }
    }

    /// Looks for completions and calls consumers, from the work item; then as the mode says. See
    /// [`Interrupt`](super::interrupt::Interrupt), which has queued it.
    pub(crate) fn complete_in_work(&self) {
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

    /// Takes up to `budget` entries for a consumer who looks by himself. Any context but hard interrupts.
    pub(crate) fn poll_now(&self, budget: u32) -> u32 {
        let _context = Context::of(self);
        match self.turn() {
            Some(turn) => self.poll(&turn, budget),
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
    pub(crate) fn end(&self, turn: &Turn<'_>) {
        while self.poll(turn, u32::MAX) != 0 {}
        self.flush_in_software();
        self.tell_space();
        self.completing.over.store(true, Release);
    }
}
