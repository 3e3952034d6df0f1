// SPDX-License-Identifier: GPL-2.0

//! Whose turn it is to complete the requests of a queue, and what only he touches.

use super::run::Run;
use crate::{
    hw::cq::CqCore,
    observe::totals::CompletionCounters,
    queue::send::SendQueue, //
};
use core::{
    cell::UnsafeCell,
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

/// What only one who completes touches: guarded by `taken`.
#[repr(align(64))]
pub(crate) struct Completing {
    /// Whether somebody is at it. Not a lock: nobody waits for it with interrupts off, and callbacks
    /// run while it is set.
    taken: AtomicBool,
    /// Whether everything was completed for good: nobody looks at the ring any more.
    pub(super) over: AtomicBool,
    /// Whether an entry that made no sense has been reported.
    pub(super) reported: AtomicBool,
    /// Whether an error entry was taken.
    pub(super) failed: AtomicBool,
    /// The QP that entries must name.
    qpn: AtomicU32,
    /// Entries that one poll may take.
    room: AtomicU32,
    /// The ring, for whoever has the turn; null until it is attached, and once everything is over.
    pub(super) ring: AtomicPtr<CqCore>,
    /// What is expected there. For whoever has the turn.
    run: UnsafeCell<Run>,
    /// The ring; null until it is attached.
    pub(super) cq: AtomicPtr<CqCore>,
    pub(super) counters: CompletionCounters,
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
    pub(super) fn consumer(&self) -> u32 {
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
    pub(super) fn ring<'a>(&self, _turn: &'a Turn<'_>) -> Option<&'a CqCore> {
        // SAFETY: By the contract of `attach` it lives until `end` has returned, which waits for the turn
        // and clears the pointer while it has it.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    /// What is expected in the ring, likewise.
    #[inline(always)]
    pub(super) fn run<'a>(&'a self, _turn: &'a mut Turn<'_>) -> &'a mut Run {
        // SAFETY: There is one turn at a time, which is borrowed mutably.
        unsafe { &mut *self.run.get() }
    }

    /// Both.
    #[inline]
    pub(super) fn ring_and_run<'a>(
        &'a self,
        turn: &'a mut Turn<'_>,
    ) -> Option<(&'a CqCore, &'a mut Run)> {
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
}
