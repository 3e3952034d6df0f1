// SPDX-License-Identifier: GPL-2.0

//! Queues with one poster.

use super::{
    bindings,
    queue_ref::{
        post_chain,
        post_write_chain, //
    },
    Address,
    Device,
    Done,
    Queue,
    QueueAttr,
    Receive,
    Request,
    Statistics,
    Work,
    Write, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A queue with one poster, who needs no lock (`MLX5_ULP_QUEUE_EXCLUSIVE`): whoever has it mutably. Destroyed when dropped, as
/// [`Queue`].
pub(crate) struct Exclusive(Queue);

impl Exclusive {
    /// `mlx5_ulp_queue_create()`. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Queue::new`]; `EINVAL` also for a queue with a name, which others would find and take for one that anybody
    /// posts to.
    pub(crate) fn new(device: &Arc<Device>, attr: QueueAttr) -> Result<Self> {
        if attr.name.is_some() {
            return Err(EINVAL);
        }
        let poster = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_EXCLUSIVE;
        Ok(Self(Queue::create(device, attr, poster, None)?))
    }

    /// As [`Queue::address`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn address(&self, gid_index: Option<u8>) -> Result<Address> {
        self.0.address(gid_index)
    }

    /// As [`Queue::connect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn connect(&self, peer: &Address, gid_index: Option<u8>) -> Result {
        self.0.connect(peer, gid_index)
    }

    /// `mlx5_ulp_exclusive_post()`: as [`Queue::post`], and the doorbell is rung at once.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post<T: Done>(&mut self, works: &[Work<'_, T>]) -> Result {
        post_chain(works, |works, count| {
            // SAFETY: The queue exists; as `post_chain` guarantees. Nobody else posts or drains, for that takes it mutably.
            unsafe { bindings::mlx5_ulp_exclusive_post(self.0.as_ptr().cast(), works, count) }
        })
    }

    /// `mlx5_ulp_exclusive_post_writes()`: as [`Queue::post_writes`], and the doorbell is rung at once.
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
                bindings::mlx5_ulp_exclusive_post_writes(self.0.as_ptr().cast(), writes, count)
            }
        })
    }

    /// As [`Queue::post_receives`], also beside the poster.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_receives<T: Done>(&self, receives: &[Receive<'_, T>]) -> Result {
        self.0.post_receives(receives)
    }

    /// As [`QueueRef::poll`](super::QueueRef::poll).
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.0.borrow().poll(budget)
    }

    /// As [`Queue::drain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn drain(&mut self) -> Result {
        self.0.drain()
    }

    /// As [`Queue::disconnect`], also beside the poster.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn disconnect(&self) -> Result {
        self.0.disconnect()
    }

    /// As [`Queue::stop`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn stop(&mut self) -> Result {
        self.0.stop()
    }

    /// As [`Queue::statistics`].
    pub(crate) fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}
