// SPDX-License-Identifier: GPL-2.0

//! What belongs to one hardware context: its connection, and what a flush has to cover.

use crate::{
    connector::Link,
    gendisk::Quiesced, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    sync::atomic::{
        AtomicBool,
        AtomicU64,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};
use kernel::{
    bindings,
    sync::rcu, //
};

/// Proof that nobody changes the connections of a disk: its block layer is dispatching, or its control lock
/// is held, or [`Channel::poll`] is looking.
#[derive(Clone, Copy)]
pub(crate) struct Steady<'a>(PhantomData<&'a ()>);

impl Steady<'_> {
    /// # Safety
    ///
    /// During the lifetime, blk-mq must be in a callback that a quiesced queue does not make
    /// (`queue_rq`, `commit_rqs`), or the control lock of the disk be held, or this be in a section of RCU that has
    /// found a channel `pollable`, for its connection.
    pub(crate) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// Proof that nobody uses the connections of a disk: it is quiesced, its control lock is held, and who polls has been
/// waited for.
pub(crate) struct Still<'a>(PhantomData<&'a Quiesced>);

impl<'a> Still<'a> {
    /// Waits for those who poll one of `channels`, all of a disk. Sleeps.
    ///
    /// # Safety
    ///
    /// During the lifetime, the control lock of the disk must be held; `_quiesced` must be of the same disk.
    pub(crate) unsafe fn new(channels: &[Channel], _quiesced: &'a Quiesced) -> Self {
        // All, whichever is the first.
        let pollable = channels.iter().fold(false, |pollable, channel| {
            pollable | channel.pollable.swap(false, Relaxed)
        });
        if pollable {
            // SAFETY: May be called where one may sleep. Behind it nobody looks who has found one pollable.
            unsafe { bindings::synchronize_rcu() };
        }
        Self(PhantomData)
    }
}

/// One hardware context.
pub(crate) struct Channel {
    /// Changed only with the disk quiesced and its control lock held.
    link: UnsafeCell<Option<Link>>,
    /// Writes that have completed.
    written: AtomicU64,
    /// As many of these are known to be in the target's memory.
    flushed: AtomicU64,
    /// Whether it has no interrupts.
    polled: bool,
    /// Whether there is a connection to look at. blk-mq looks also while it is quiesced: a section of RCU in which
    /// this was true keeps the connection.
    pollable: AtomicBool,
    /// Completion entries that [`Channel::poll`] has found.
    found: AtomicU64,
}

// SAFETY: `link` is changed while nobody else looks at it: see `Steady` and `Still`.
unsafe impl Sync for Channel {}

impl Channel {
    /// Without a connection; without interrupts if `polled`.
    pub(crate) fn new(polled: bool) -> Self {
        Self {
            link: UnsafeCell::new(None),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            polled,
            pollable: AtomicBool::new(false),
            found: AtomicU64::new(0),
        }
    }

    /// Whether it has no interrupts.
    #[inline]
    pub(crate) fn is_polled(&self) -> bool {
        self.polled
    }

    /// Looks for the end of requests, if it has no interrupts: up to `budget` completion entries. Returns how many it
    /// has found. Task or softirq.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        let guard = rcu::read_lock();
        if !self.pollable.load(Acquire) {
            return 0;
        }
        // SAFETY: The guard is held as long as this is used, and `pollable` was true.
        let steady = unsafe { Steady::new() };
        let found = self
            .link(steady)
            .map_or(0, |link| link.queue().poll(budget));
        drop(guard);
        if found != 0 {
            self.found.fetch_add(found.into(), Relaxed);
        }
        found
    }

    /// How many completion entries [`Channel::poll`] has found.
    pub(crate) fn found(&self) -> u64 {
        self.found.load(Relaxed)
    }

    /// The connection, `None` while the peer is away.
    #[inline]
    pub(crate) fn link<'a>(&'a self, _steady: Steady<'a>) -> Option<&'a Link> {
        // SAFETY: Not changed as long as there is a `Steady`.
        unsafe { (*self.link.get()).as_ref() }
    }

    /// Changes the connection, and returns the one before.
    ///
    /// # Safety
    ///
    /// `_still` must be of the same disk; the first call with it.
    pub(crate) unsafe fn replace(&self, _still: &Still<'_>, link: Option<Link>) -> Option<Link> {
        let pollable = self.polled && link.is_some();
        // SAFETY: Nobody dispatches nor polls, since it was not made pollable after that, and `_still` has the lock.
        let before = core::mem::replace(unsafe { &mut *self.link.get() }, link);
        self.pollable.store(pollable, Release);
        before
    }

    /// A write has completed, to be said before its request ends.
    #[inline]
    pub(crate) fn wrote(&self) {
        self.written.fetch_add(1, Release);
    }

    /// The number of writes that have completed, if not all of them are known to be in the target's memory.
    pub(crate) fn unflushed(&self) -> Option<u64> {
        // The number first: a write that ends in between is counted by the next flush.
        let written = self.written.load(Acquire);
        (written > self.flushed.load(Relaxed)).then_some(written)
    }

    /// So many writes are in the target's memory now.
    pub(crate) fn flushed(&self, written: u64) {
        self.flushed.fetch_max(written, Relaxed);
    }
}
