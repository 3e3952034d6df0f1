// SPDX-License-Identifier: GPL-2.0

//! Connections.

use super::{
    address::namespace,
    bindings,
    Address, //
};
use crate::ulp::{
    AsQueue,
    Exclusive,
    Poster,
    Queue,
    Told, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

/// Most bytes of private data of a request.
pub(crate) const REQUEST_DATA: usize = bindings::MLX5_ULP_CM_REQUEST_DATA as usize;
/// Bytes of private data of an answer, or a refusal.
pub(crate) const ANSWER_DATA: usize = bindings::MLX5_ULP_CM_ANSWER_DATA as usize;

/// Who hears what befalls a connection (`struct mlx5_ulp_conn_ops`). In process context; may sleep, but not for long, and
/// must not use the connection, nor drop it, nor wait for somebody who does.
pub(crate) trait Events: Send + Sync {
    /// The peer has heard that we accept: its queue may be posted to. Of connections that were accepted only.
    fn established(&self) {}

    /// It has ended, once, and its queue is disconnected: `Ok` if that was asked for here, else why (`ECONNRESET` if the
    /// peer has done it, `ENODEV` if the device goes, `ETIMEDOUT`, `ENETRESET`, `ECONNREFUSED`).
    fn closed(&self, why: Result);

    /// No packet of it can be under way any more.
    fn timewait_exit(&self) {}
}

/// What rdma_cm is told to call, with the context of a [`Told`].
pub(super) static OPS: bindings::mlx5_ulp_conn_ops =
    bindings::mlx5_ulp_conn_ops { event: Some(event) };

/// A connection of `<mlx5_ulp_conn.h>`, destroyed when dropped.
///
/// # Invariants
///
/// It exists.
struct Handle(NonNull<bindings::mlx5_ulp_conn>);

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for Handle {}
// SAFETY: The interface does its own locking.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it exists, and nobody uses it after.
        unsafe { bindings::mlx5_ulp_conn_destroy(self.0.as_ptr()) };
    }
}

/// The way to a peer, which says by what device. It becomes a [`Conn`] by [`Route::with`] a queue on that.
pub(crate) struct Route {
    // Before who is told of it.
    handle: Handle,
    told: Told<dyn Events>,
}

impl Route {
    /// `mlx5_ulp_conn_resolve()`, from the address `source` or any of ours, with `timeout_ms` for the address and again for the
    /// route. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EINTR` if the task is killed, `ENOMEM`, `ENODEV` for an address that is not reached through an RDMA
    /// device, and others of rdma_cm.
    pub(crate) fn resolve(
        source: Option<&Address>,
        destination: &Address,
        timeout_ms: u32,
        events: Arc<dyn Events>,
    ) -> Result<Self> {
        let told = Told::new(events)?;
        let source = source.map_or(core::ptr::null(), Address::as_ptr);
        // SAFETY: A namespace that is always there, valid addresses; functions for what is told, which outlives the handle.
        let conn = from_err_ptr(unsafe {
            bindings::mlx5_ulp_conn_resolve(
                namespace(),
                source,
                destination.as_ptr(),
                timeout_ms,
                &OPS,
                told.context(),
            )
        })?;
        // INVARIANT: Just made.
        let handle = Handle(NonNull::new(conn).ok_or(ENOMEM)?);
        Ok(Self { handle, told })
    }

    /// `mlx5_ulp_conn_ibdev()`, for [`Device::of`](crate::ulp::Device::of).
    pub(crate) fn ibdev(&self) -> *mut bindings::ib_device {
        // SAFETY: By the type invariant it exists.
        unsafe { bindings::mlx5_ulp_conn_ibdev(self.handle.0.as_ptr()) }
    }

    /// A connection for `queue`, which is to be on the device of the route.
    pub(crate) fn with<Q: AsQueue>(self, queue: Q) -> Conn<Q> {
        Conn {
            handle: self.handle,
            queue,
            _told: self.told,
        }
    }
}

/// A connection and its queue, a [`Queue`] or an [`Exclusive`] one. Dropped, it ends, which sleeps; not in one of its own
/// [`Events`].
pub(crate) struct Conn<Q = Queue> {
    // Before the queue, as rdma_cm wants it, and that before who is told.
    handle: Handle,
    // Never lent mutably: who could put another one in its place could destroy it before the connection.
    queue: Q,
    _told: Told<dyn Events>,
}

impl<Q: AsQueue> Conn<Q> {
    /// One that a peer has asked for.
    ///
    /// # Safety
    ///
    /// `conn` must exist, be accepted with `queue`, [`OPS`] and `told`, and be given up by whoever has it.
    pub(super) unsafe fn accepted(
        conn: NonNull<bindings::mlx5_ulp_conn>,
        queue: Q,
        told: Told<dyn Events>,
    ) -> Self {
        Self {
            // INVARIANT: The caller guarantees it.
            handle: Handle(conn),
            queue,
            _told: told,
        }
    }

    /// Its queue.
    #[inline]
    pub(crate) fn queue(&self) -> &Q {
        &self.queue
    }

    /// `mlx5_ulp_conn_connect()`, once: says `request`, at most [`REQUEST_DATA`] bytes, and waits for the answer, for
    /// `timeout_ms` or, if that is 0, until rdma_cm gives up. `answer` gets what the peer has said, accepting or refusing; it
    /// ends with zeroes. Then the queue may be posted to. May sleep.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` if the peer refuses, `ETIMEDOUT`, `EINTR` if the task was killed, `ECANCELED` if
    /// [`Conn::disconnect`] was called, `EMSGSIZE`, `EINVAL` if it was used before or was accepted, `ENODEV`, and those of
    /// connecting the queue. It can only be dropped then.
    pub(crate) fn connect(
        &self,
        request: &[u8],
        answer: &mut [u8; ANSWER_DATA],
        timeout_ms: u32,
    ) -> Result {
        let data = bindings::mlx5_ulp_conn_data {
            data: request.as_ptr().cast(),
            length: u8::try_from(request.len()).map_err(|_| EMSGSIZE)?,
        };
        // SAFETY: By the type invariant it exists; the queue is dropped after it. The request is as long as it says, and the
        // answer has the room that is asked for.
        to_result(unsafe {
            bindings::mlx5_ulp_conn_connect(
                self.handle.0.as_ptr(),
                self.queue.as_ptr(),
                &data,
                answer.as_mut_ptr().cast(),
                timeout_ms,
            )
        })
    }

    /// `mlx5_ulp_conn_reject_reason()`: of `enum ib_cm_rej_reason`, 0 if the peer has not refused.
    pub(crate) fn reject_reason(&self) -> u32 {
        // SAFETY: By the type invariant it exists.
        let reason = unsafe { bindings::mlx5_ulp_conn_reject_reason(self.handle.0.as_ptr()) };
        u32::try_from(reason).unwrap_or(0)
    }

    /// `mlx5_ulp_conn_disconnect()`: ends it, or the wait in [`Conn::connect`]. May sleep.
    pub(crate) fn disconnect(&self) {
        // SAFETY: By the type invariant it exists.
        unsafe { bindings::mlx5_ulp_conn_disconnect(self.handle.0.as_ptr()) };
    }
}

impl Conn<Exclusive> {
    /// See [`Exclusive::poster`].
    pub(crate) fn poster(&mut self) -> Poster<'_> {
        self.queue.poster()
    }

    /// See [`Exclusive::drain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn drain(&mut self) -> Result {
        self.queue.drain()
    }
}

/// Called by the module.
///
/// # Safety
///
/// `context` must be that of a [`Told`] that outlives the call.
unsafe extern "C" fn event(
    context: *mut c_void,
    event: bindings::mlx5_ulp_conn_event,
    status: c_int,
) {
    // SAFETY: The caller guarantees it.
    let told = unsafe { Told::<dyn Events>::of(context) };
    match event {
        bindings::mlx5_ulp_conn_event_MLX5_ULP_CONN_ESTABLISHED => told.established(),
        bindings::mlx5_ulp_conn_event_MLX5_ULP_CONN_CLOSED => told.closed(to_result(status)),
        bindings::mlx5_ulp_conn_event_MLX5_ULP_CONN_TIMEWAIT_EXIT => told.timewait_exit(),
        _ => {}
    }
}
