// SPDX-License-Identifier: GPL-2.0

//! What belongs to one hardware context: its connection, and what a flush has to cover.

use crate::{
    connector::Link,
    mq::Quiesced, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    sync::atomic::{
        AtomicU64,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};

/// Proof that nobody changes the connections of a disk: its block layer is dispatching, or its control lock
/// is held.
#[derive(Clone, Copy)]
pub(crate) struct Steady<'a>(PhantomData<&'a ()>);

impl Steady<'_> {
    /// # Safety
    ///
    /// During the lifetime, blk-mq must be in a callback that a quiesced queue does not make
    /// (`queue_rq`, `commit_rqs`), or the control lock of the disk be held.
    pub(crate) unsafe fn new() -> Self {
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
}

// SAFETY: `link` is changed while nobody else looks at it: see `Steady` and `replace`.
unsafe impl Sync for Channel {}

impl Channel {
    /// Without a connection.
    pub(crate) fn new() -> Self {
        Self {
            link: UnsafeCell::new(None),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
        }
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
    /// The control lock of the disk must be held; `_quiesced` must be of the same disk.
    pub(crate) unsafe fn replace(&self, _quiesced: &Quiesced, link: Option<Link>) -> Option<Link> {
        // SAFETY: Nobody dispatches, and the caller has the lock.
        core::mem::replace(unsafe { &mut *self.link.get() }, link)
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
