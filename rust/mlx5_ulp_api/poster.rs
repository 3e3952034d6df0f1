// SPDX-License-Identifier: GPL-2.0

//! The posting side of a queue with one poster.

use super::{
    bindings,
    queue_ref::{
        post_chain,
        post_write_chain,
        QueueRef,
        Reservation, //
    },
    Done,
    Exclusive,
    Request,
    Work,
    Write, //
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The one who posts to an exclusive queue (`struct mlx5_ulp_exclusive`), during `'a`.
///
/// # Invariants
///
/// The queue is exclusive, and nobody else posts to it, drains or stops it during `'a`, but who has borrowed this mutably.
pub(crate) struct Poster<'a> {
    queue: QueueRef<'a>,
    _only: PhantomData<&'a mut Exclusive>,
}

impl<'a> Poster<'a> {
    /// # Safety
    ///
    /// `queue` must be an exclusive one, to which the caller is the only one who may post during `'a`.
    pub(super) unsafe fn new(queue: QueueRef<'a>) -> Self {
        // INVARIANT: The caller guarantees it.
        Self {
            queue,
            _only: PhantomData,
        }
    }

    /// The same, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Poster<'_> {
        // SAFETY: By the type invariant; `self` is borrowed mutably as long as the other exists.
        unsafe { Poster::new(self.queue) }
    }

    /// `mlx5_ulp_exclusive_post()`: as [`Queue::post`](super::Queue::post), and the doorbell is rung at once.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post<T: Done>(&mut self, works: &[Work<'_, T>]) -> Result {
        post_chain(works, |works, count| {
            // SAFETY: By the type invariants the queue exists and is exclusive, and nobody else posts or drains; as
            // `post_chain` guarantees.
            unsafe { bindings::mlx5_ulp_exclusive_post(self.queue.as_ptr().cast(), works, count) }
        })
    }

    /// `mlx5_ulp_exclusive_post_writes()`: as [`Queue::post_writes`](super::Queue::post_writes), and the doorbell is rung
    /// at once.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_writes<T: Done>(
        &mut self,
        request: &Arc<Request<T>>,
        writes: &[Write<'_>],
    ) -> Result {
        post_write_chain(request, writes, |writes, count| {
            // SAFETY: As in `post`.
            unsafe {
                bindings::mlx5_ulp_exclusive_post_writes(self.queue.as_ptr().cast(), writes, count)
            }
        })
    }

    /// `mlx5_ulp_reserve()`: room for `count` requests, given back when dropped.
    ///
    /// # Errors
    ///
    /// As [`Queue::reserve`](super::Queue::reserve).
    pub(crate) fn reserve(&mut self, count: u32) -> Result<PosterReservation<'_>> {
        self.reborrow().into_reservation(count)
    }

    /// See [`Poster::reserve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(super) fn into_reservation(self, count: u32) -> Result<PosterReservation<'a>> {
        // SAFETY: By the type invariant nobody else posts during the lifetime of the reservation: it keeps the poster.
        let room = unsafe { Reservation::new(self.queue, count)? };
        Ok(PosterReservation { room, poster: self })
    }
}

/// Room in an exclusive queue (`struct mlx5_ulp_reservation`), given back when dropped. Only its poster can have some; who
/// has it posts from it, or [beside](PosterReservation::beside) it.
pub(crate) struct PosterReservation<'a> {
    room: Reservation<'a>,
    poster: Poster<'a>,
}

impl PosterReservation<'_> {
    /// Requests that can still be posted from it.
    pub(crate) fn left(&self) -> u32 {
        self.room.left()
    }

    /// `mlx5_ulp_post_reserved()`.
    ///
    /// # Errors
    ///
    /// As [`Reservation::post`].
    pub(crate) fn post<T: Done>(&mut self, works: &[Work<'_, T>]) -> Result {
        self.room.post(works)
    }

    /// Who posts what nothing was reserved for, or reserves more.
    pub(crate) fn beside(&mut self) -> Poster<'_> {
        self.poster.reborrow()
    }
}
