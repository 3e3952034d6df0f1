// SPDX-License-Identifier: GPL-2.0

//! Queues with one poster.

use super::{
    bindings,
    poster::{
        Poster,
        PosterReservation, //
    },
    told::Told,
    Address,
    AsQueue,
    ConnectAttr,
    Device,
    Done,
    Queue,
    QueueAttr,
    Receive,
    Request,
    Space,
    Statistics,
    Work,
    Write, //
};
use kernel::{
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

/// A queue with one poster, who needs no lock (`MLX5_ULP_QUEUE_EXCLUSIVE`): whoever has it mutably. Destroyed when dropped, as
/// [`Queue`].
pub(crate) struct Exclusive(Queue);

// SAFETY: It is that of the queue in it, which is destroyed when it is dropped, and not before.
unsafe impl AsQueue for Exclusive {
    fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue {
        self.0.as_ptr()
    }
}

impl Exclusive {
    /// `mlx5_ulp_queue_create()`. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Queue::new`]; `EINVAL` also for a queue with a name, which others would find and take for one that anybody
    /// posts to.
    pub(crate) fn new(device: &Arc<Device>, attr: QueueAttr) -> Result<Self> {
        Self::create(device, attr, None)
    }

    /// As [`Exclusive::new`], with `space` told when there is room again in a queue that was full.
    ///
    /// # Errors
    ///
    /// As [`Exclusive::new`].
    pub(crate) fn with_space(
        device: &Arc<Device>,
        attr: QueueAttr,
        space: Arc<dyn Space>,
    ) -> Result<Self> {
        Self::create(device, attr, Some(Told::new(space)?))
    }

    fn create(
        device: &Arc<Device>,
        attr: QueueAttr,
        space: Option<Told<dyn Space>>,
    ) -> Result<Self> {
        if attr.name.is_some() {
            return Err(EINVAL);
        }
        let poster = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_EXCLUSIVE;
        Ok(Self(Queue::create(device, attr, poster, space)?))
    }

    /// As [`Queue::qpn`].
    pub(crate) fn qpn(&self) -> u32 {
        self.0.qpn()
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
    pub(crate) fn connect(&self, peer: &Address, attr: Option<&ConnectAttr>) -> Result {
        self.0.connect(peer, attr)
    }

    /// As [`Queue::connect_verbs`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn connect_verbs(
        &self,
        attr: *const bindings::ib_qp_attr,
        mask: c_int,
    ) -> Result {
        // SAFETY: Guaranteed by the caller.
        unsafe { self.0.connect_verbs(attr, mask) }
    }

    /// `mlx5_ulp_queue_exclusive()`: who posts.
    pub(crate) fn poster(&mut self) -> Poster<'_> {
        // SAFETY: The queue is exclusive. All who post, drain or stop do it by way of this function or borrow it mutably as
        // well, and it is borrowed as long as the poster exists.
        unsafe { Poster::new(self.0.borrow()) }
    }

    /// See [`Poster::post`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post<T: Done>(&mut self, works: &[Work<'_, T>]) -> Result {
        self.poster().post(works)
    }

    /// See [`Poster::post_writes`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_writes<T: Done>(
        &mut self,
        request: &Arc<Request<T>>,
        writes: &[Write<'_>],
    ) -> Result {
        self.poster().post_writes(request, writes)
    }

    /// `mlx5_ulp_reserve()`: room for `count` requests, given back when dropped.
    ///
    /// # Errors
    ///
    /// As [`Queue::reserve`].
    pub(crate) fn reserve(&mut self, count: u32) -> Result<PosterReservation<'_>> {
        self.poster().into_reservation(count)
    }

    /// As [`Queue::post_receives`], also beside the poster.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_receives<T: Done>(&self, receives: &[Receive<'_, T>]) -> Result {
        self.0.post_receives(receives)
    }

    /// As [`Queue::poll`].
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.0.poll(budget)
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
