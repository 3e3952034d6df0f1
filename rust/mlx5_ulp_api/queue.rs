// SPDX-License-Identifier: GPL-2.0

//! Queues.

use super::{
    bindings,
    queue_attr::QueueAttr,
    queue_ref::{
        QueueRef,
        Reservation, //
    },
    told::Told,
    Device,
    Done,
    Receive,
    Request,
    Work,
    Write, //
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

/// What a queue has done (`struct mlx5_ulp_queue_stats`).
pub(crate) type Statistics = bindings::mlx5_ulp_queue_stats;

/// Who hears that a queue that was full has room again.
pub(crate) trait Space: Send + Sync {
    /// There is room for the shortest post that has found the queue full, unless others take it: once, however many
    /// posts that were. Context as [`Done::done`]; may post. It also comes when the queue has failed, so that whoever
    /// waits posts again and learns that.
    fn space(&self);
}

/// Anybody posts.
const SHARED: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_SHARED;

/// A send queue, destroyed when dropped, which may sleep: requests in flight have ended when it is gone, and no callback
/// runs or will run.
///
/// Not to be dropped by a callback of its own, which it would wait for: for ever. So a [`Request`] that owns its queue is
/// to be kept by somebody else until it has ended, and who is told of [`Space`] by a queue must not own that.
///
/// # Invariants
///
/// The queue exists.
pub(crate) struct Queue {
    handle: NonNull<bindings::mlx5_ulp_queue>,
    /// Outlives the queue, which has its context.
    _space: Option<Told<dyn Space>>,
    device: Arc<Device>,
}

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for Queue {}
// SAFETY: The interface does its own locking.
unsafe impl Sync for Queue {}

impl Queue {
    /// `mlx5_ulp_queue_create()`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for attributes out of range, `EEXIST` if the name is taken, `ENODEV`, `ENOMEM`, or what the
    /// firmware answered.
    pub(crate) fn new(device: &Arc<Device>, attr: QueueAttr) -> Result<Self> {
        Self::create(device, attr, SHARED, None)
    }

    /// As [`Queue::new`], with `space` told when there is room again in a queue that was full.
    ///
    /// # Errors
    ///
    /// As [`Queue::new`].
    pub(crate) fn with_space(
        device: &Arc<Device>,
        attr: QueueAttr,
        space: Arc<dyn Space>,
    ) -> Result<Self> {
        Self::create(device, attr, SHARED, Some(Told::new(space)?))
    }

    /// Makes one; `poster` is who posts, of `enum mlx5_ulp_queue_flags`.
    pub(super) fn create(
        device: &Arc<Device>,
        attr: QueueAttr,
        poster: u32,
        told: Option<Told<dyn Space>>,
    ) -> Result<Self> {
        let context = told.as_ref().map_or(null_mut(), Told::context);
        let (named, qid) = match attr.name {
            Some(name) => (
                bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_NAMED,
                name.bits(),
            ),
            None => (0, 0),
        };
        let registers = match attr.registers {
            true => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_REGISTERS,
            false => 0,
        };
        let attr = bindings::mlx5_ulp_queue_attr {
            depth: attr.depth,
            max_sge: attr.max_sge,
            max_inline: attr.max_inline,
            max_recv_depth: attr.max_recv_depth,
            max_recv_sge: attr.max_recv_sge,
            space: told
                .is_some()
                .then_some(space as unsafe extern "C" fn(*mut c_void)),
            vector: attr.vector,
            access: attr.access.bits(),
            flags: poster | named | registers | attr.completions.flags(),
            qid,
            context,
        };
        // SAFETY: The handle is open, the attributes are valid; `space` is the function for the context, which is kept
        // until the queue is destroyed.
        let handle = unsafe { bindings::mlx5_ulp_queue_create(device.as_ptr(), &attr) };
        let handle = from_err_ptr(handle)?;
        // INVARIANT: Just created, and destroyed by `drop` only.
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            _space: told,
            device: device.clone(),
        })
    }

    /// The handle that it was made on, whose keys are for it.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The queue as the C interface knows it, valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue {
        self.handle.as_ptr()
    }

    /// The queue as everybody may use it who finds it.
    pub(crate) fn borrow(&self) -> QueueRef<'_> {
        // SAFETY: By the type invariant the queue exists, as long as `self`.
        unsafe { QueueRef::new(self.handle) }
    }

    /// See [`QueueRef::post_write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_write<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        write: Write<'_>,
    ) -> Result {
        self.borrow().post_write(request, write)
    }

    /// See [`QueueRef::post_writes`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_writes<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        writes: &[Write<'_>],
    ) -> Result {
        self.borrow().post_writes(request, writes)
    }

    /// See [`QueueRef::post`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post<T: Done>(&self, works: &[Work<'_, T>]) -> Result {
        self.borrow().post(works)
    }

    /// See [`QueueRef::post_receives`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_receives<T: Done>(&self, receives: &[Receive<'_, T>]) -> Result {
        self.borrow().post_receives(receives)
    }

    /// `mlx5_ulp_reserve()`. Any context. Room for `count` requests, given back when dropped.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for all of them now, `EMSGSIZE` if there never is, `ENOTCONN`, `EPIPE`,
    /// `ENODEV`.
    pub(crate) fn reserve(&self, count: u32) -> Result<Reservation<'_>> {
        // SAFETY: The queue is not exclusive, or it is that in an `Exclusive`, which does not call this.
        unsafe { Reservation::new(self.borrow(), count) }
    }

    /// `mlx5_ulp_queue_disconnect()`: leaves the peer, without waiting. May sleep; not from a completion.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, or what the firmware answered: then what is in flight ends when it is dropped.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: By the type invariant the queue exists.
        to_result(unsafe { bindings::mlx5_ulp_queue_disconnect(self.handle.as_ptr()) })
    }

    /// `mlx5_ulp_queue_stop()`. May sleep; not from a completion.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone (everything has ended then, too), or what the firmware answered.
    pub(crate) fn stop(&self) -> Result {
        // SAFETY: By the type invariant the queue exists. If it is exclusive, `Exclusive::stop` has it mutably.
        to_result(unsafe { bindings::mlx5_ulp_queue_stop(self.handle.as_ptr()) })
    }

    /// See [`QueueRef::flush`].
    pub(crate) fn flush(&self) {
        self.borrow().flush();
    }

    /// See [`QueueRef::poll`].
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        self.borrow().poll(budget)
    }

    /// `mlx5_ulp_queue_pin()`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `EOPNOTSUPP` if the cache is off, `ENODEV`.
    pub(crate) fn pin(&self) -> Result {
        // SAFETY: By the type invariant the queue exists.
        to_result(unsafe { bindings::mlx5_ulp_queue_pin(self.handle.as_ptr()) })
    }

    /// `mlx5_ulp_queue_unpin()`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not pinned, `ENODEV`.
    pub(crate) fn unpin(&self) -> Result {
        // SAFETY: By the type invariant the queue exists.
        to_result(unsafe { bindings::mlx5_ulp_queue_unpin(self.handle.as_ptr()) })
    }

    /// `mlx5_ulp_queue_drain()`. May sleep; not from a completion.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone; all requests have ended then, too.
    pub(crate) fn drain(&self) -> Result {
        // SAFETY: By the type invariant the queue exists. If it is exclusive, `Exclusive::drain` has it mutably.
        to_result(unsafe { bindings::mlx5_ulp_queue_drain(self.handle.as_ptr()) })
    }

    /// See [`QueueRef::statistics`].
    pub(crate) fn statistics(&self) -> Statistics {
        self.borrow().statistics()
    }
}

/// Called by the module.
///
/// # Safety
///
/// `context` must be that of a [`Told`] that outlives the call.
unsafe extern "C" fn space(context: *mut c_void) {
    // SAFETY: The caller guarantees it.
    unsafe { Told::<dyn Space>::of(context) }.space();
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue exists, and nobody uses it after.
        unsafe { bindings::mlx5_ulp_queue_destroy(self.handle.as_ptr()) };
    }
}
