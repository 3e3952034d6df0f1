// SPDX-License-Identifier: GPL-2.0

//! Attempts of a disk to connect, which somebody may end who does not want to wait for them.
//!
//! An attempt waits for the answer of a peer, and rdma_cm asks one that does not answer for over a minute. Whoever takes
//! the disk away calls [`Attempts::give_up`]: the one that is under way ends at once, and there is no other.

use crate::{
    errno::ecanceled,
    ulp_cm::Conn, //
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// What is waited for.
enum Waiting {
    /// Nothing.
    No,
    /// The answer of a peer. The connection exists as long as it says so here.
    For(NonNull<Conn>),
    /// Nothing, from now on.
    Never,
}

// SAFETY: A connection may be used by any task.
unsafe impl Send for Waiting {}

/// The attempts of one disk.
#[pin_data]
pub(crate) struct Attempts {
    #[pin]
    waiting: Mutex<Waiting>,
}

impl Attempts {
    /// Of a disk that is wanted.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            waiting <- new_mutex!(Waiting::No, "mlx5_ulp_blk_attempts"),
        })
    }

    /// Ends the one that is under way, and all to come. Sleeps.
    pub(crate) fn give_up(&self) {
        let mut waiting = self.waiting.lock();
        if let Waiting::For(conn) = *waiting {
            // With the lock, so that it exists.
            // SAFETY: By what `Waiting::For` says.
            unsafe { conn.as_ref() }.disconnect();
        }
        *waiting = Waiting::Never;
    }

    /// Whether there is to be no attempt any more. Sleeps.
    pub(crate) fn are_given_up(&self) -> bool {
        matches!(*self.waiting.lock(), Waiting::Never)
    }

    /// Calls `connect`, which waits for the peer of `conn`. One task at a time.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if that is not wanted any more, that of `connect`.
    pub(crate) fn wait(&self, conn: &Conn, connect: impl FnOnce() -> Result) -> Result {
        {
            let mut waiting = self.waiting.lock();
            if matches!(*waiting, Waiting::Never) {
                return Err(ecanceled());
            }
            *waiting = Waiting::For(NonNull::from(conn));
        }
        let result = connect();
        let mut waiting = self.waiting.lock();
        if !matches!(*waiting, Waiting::Never) {
            *waiting = Waiting::No;
        }
        result
    }
}
