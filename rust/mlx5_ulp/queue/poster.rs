// SPDX-License-Identifier: GPL-2.0

//! The posting side of a queue, and who may use it when.

use super::{
    credit::Handle,
    slots::Slots, //
};
use crate::{
    codegen::opaque,
    doorbell::{
        blueflame::BlueFlame,
        hold::Hold,
        policy::Policy,
        register::Doorbell,
        sample::Sample, //
    },
    irq::InterruptsOff,
    sync::RawIrqLock,
    wqe::{
        ctrl::HeadTemplate,
        merge::Limits, //
    },
};
use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    ffi::c_ulong,
    prelude::*, //
};

/// What only a poster touches.
#[repr(C, align(64))]
pub(super) struct Poster {
    /// Basic blocks posted, free running.
    pub(super) producer: u32,
    /// The QP's number.
    pub(super) qpn: u32,
    /// Requests posted since the last that was signaled.
    pub(super) unsignaled: u32,
    /// Most of those in a row.
    pub(super) most_silent: u32,
    /// Number behind the last signaled request that was rung.
    pub(super) signaled_rung: u32,
    /// Requests that there is room reserved for.
    pub(super) reserved: u32,
    /// Whether the last request was a registration, which the next one has to wait for.
    pub(super) registered: bool,
    /// What a plain WRITE begins with.
    pub(super) plain_head: HeadTemplate,
    /// Where WQEs go.
    pub(super) slots: Slots,
    /// When to ring.
    pub(super) policy: Policy,
    /// How to ring.
    pub(super) doorbell: Doorbell,
    /// Beginning of the last WQE: what the doorbell register is told.
    pub(super) head: [u8; 8],
    /// Whether the next places to be written to are prefetched.
    pub(super) prefetch: bool,
    /// Which WQEs go to the doorbell register themselves.
    pub(super) blueflame: BlueFlame,
    /// How adjacent WRITEs of a chain are merged, if they are.
    pub(super) merge: Option<Limits>,
    /// How long WQEs wait at most.
    pub(super) hold: Hold,
    /// How long requests take, and wait.
    pub(super) sample: Sample,
}

impl Poster {
    /// Has the CPU get hold of what a post will write after its first WQE.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        if self.prefetch {
            self.slots.prefetch(self.producer.wrapping_add(1));
            self.doorbell.prefetch();
        }
    }
}

/// The poster of a queue, for one user at a time: whoever holds the lock or, of an exclusive queue, the
/// one who posts by his own word.
#[pin_data]
#[repr(C)]
pub(super) struct PosterCell {
    // First: where the cell is, is what is used most.
    poster: UnsafeCell<Poster>,
    #[pin]
    lock: RawIrqLock,
}

// SAFETY: `PosterGuard` gives access to one user at a time, from whatever CPU; a `Poster` is `Send`.
unsafe impl Sync for PosterCell {}

impl PosterCell {
    /// With a free lock.
    pub(super) fn new(poster: Poster) -> impl PinInit<Self> {
        pin_init!(Self {
            lock <- RawIrqLock::new(),
            poster: UnsafeCell::new(poster),
        })
    }

    /// Takes the lock.
    ///
    /// The cell must not be of an exclusive queue that is open; see [`PosterCell::exclusive`].
    #[inline(always)]
    pub(super) fn lock(&self) -> PosterGuard<'_> {
        PosterGuard {
            locked: Some(self.lock.lock()),
            exclusive: None,
            cell: self,
        }
    }

    /// Takes the poster without a lock. Interrupts are off meanwhile, so that a grace period of RCU
    /// waits for it.
    ///
    /// # Safety
    ///
    /// Nobody else may use the poster until the guard is dropped.
    #[inline(always)]
    pub(super) unsafe fn exclusive(&self) -> PosterGuard<'_> {
        PosterGuard {
            locked: None,
            exclusive: Some(InterruptsOff::new()),
            cell: self,
        }
    }

    /// Takes the poster as `handle` may.
    ///
    /// # Safety
    ///
    /// For [`Handle::Exclusive`], as [`PosterCell::exclusive`].
    #[inline(always)]
    pub(super) unsafe fn take(&self, handle: Handle) -> PosterGuard<'_> {
        match handle {
            Handle::Shared => self.lock(),
            // SAFETY: Guaranteed by the caller.
            Handle::Exclusive => unsafe { self.exclusive() },
        }
    }

    /// As [`PosterCell::take`]; `None` if somebody else has the lock.
    ///
    /// # Safety
    ///
    /// As [`PosterCell::take`].
    #[inline(always)]
    pub(super) unsafe fn try_take(&self, handle: Handle) -> Option<PosterGuard<'_>> {
        match handle {
            Handle::Shared => Some(PosterGuard {
                locked: Some(self.lock.try_lock()?),
                exclusive: None,
                cell: self,
            }),
            // SAFETY: Guaranteed by the caller.
            Handle::Exclusive => Some(unsafe { self.exclusive() }),
        }
    }

    /// Ends [`PosterGuard::release_well`]; never fails.
    #[cold]
    #[inline(never)]
    fn unlock_paravirtual(&self, flags: c_ulong) -> Result {
        // SAFETY: The only caller has the lock, with these flags, and forgets that it has it.
        unsafe { RawIrqLock::unlock(self, |cell| &cell.lock, flags) };
        // The compiler is not to know: who calls this last returns what it returns.
        core::hint::black_box(Ok(()))
    }

    /// What [`PosterGuard::into_lock`] was called for.
    ///
    /// # Safety
    ///
    /// The lock is that of this cell.
    pub(super) unsafe fn locked(&self, lock: PosterLock) -> PosterGuard<'_> {
        PosterGuard {
            locked: Some(lock.0),
            exclusive: None,
            cell: self,
        }
    }
}

/// The lock of a poster, held: the interrupt state. Not given back unless by way of [`PosterCell::locked`].
#[must_use]
pub(super) struct PosterLock(c_ulong);

/// The poster, for its one user.
pub(super) struct PosterGuard<'a> {
    // What keeps others out, or the removal of the queue.
    locked: Option<c_ulong>,
    exclusive: Option<InterruptsOff>,
    cell: &'a PosterCell,
}

impl PosterGuard<'_> {
    /// Gives the poster back: as dropping it does, in line.
    #[inline(always)]
    pub(super) fn release(self) {
        let mut this = ManuallyDrop::new(self);
        this.give_back();
    }

    /// As [`PosterGuard::release`], for who returns that all is well: where unlocking is a call, it is that
    /// function's last, and the other ways need no stack frame.
    #[inline(always)]
    pub(super) fn release_well(self) -> Result {
        let Some(flags) = self.locked else {
            self.release();
            return Ok(());
        };
        let this = ManuallyDrop::new(self);
        let cell = opaque(this.cell);
        // SAFETY: Taken, with these flags; the guard is not dropped.
        unsafe {
            RawIrqLock::unlock_else(
                cell,
                |cell| &cell.lock,
                flags,
                || cell.unlock_paravirtual(flags),
                Ok(()),
            )
        }
    }

    /// The lock alone, if it is there, for another function: [`PosterCell::locked`] undoes this.
    #[inline(always)]
    pub(super) fn into_lock(self) -> Option<PosterLock> {
        let mut this = ManuallyDrop::new(self);
        if let Some(interrupts) = this.exclusive.take() {
            drop(interrupts);
        }
        this.locked.take().map(PosterLock)
    }

    #[inline(always)]
    fn give_back(&mut self) {
        if let Some(flags) = self.locked.take() {
            // SAFETY: Taken, with these flags.
            unsafe { RawIrqLock::unlock(opaque(self.cell), |cell| &cell.lock, flags) };
        }
        if let Some(interrupts) = self.exclusive.take() {
            drop(interrupts);
        }
    }
}

impl Drop for PosterGuard<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Deref for PosterGuard<'_> {
    type Target = Poster;

    #[inline(always)]
    fn deref(&self) -> &Poster {
        // SAFETY: The guard is the only one: by the lock, or by the word of `exclusive`'s caller.
        unsafe { &*self.cell.poster.get() }
    }
}

impl DerefMut for PosterGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Poster {
        // SAFETY: As above, and the guard is borrowed mutably.
        unsafe { &mut *self.cell.poster.get() }
    }
}
