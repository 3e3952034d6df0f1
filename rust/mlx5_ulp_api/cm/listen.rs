// SPDX-License-Identifier: GPL-2.0

//! Waiting for peers.

use super::{
    address::namespace,
    bindings,
    conn::OPS,
    Address,
    Conn,
    Events,
    ANSWER_DATA, //
};
use crate::ulp::{
    AsQueue,
    Told, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull,
    slice, //
};
use kernel::{
    error::from_err_ptr,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

/// Who decides over requests (`struct mlx5_ulp_listen_ops`). In process context, one request at a time; may sleep.
pub(crate) trait Decide: Send + Sync + 'static {
    /// What is connected: a [`Queue`](crate::ulp::Queue) or an [`Exclusive`](crate::ulp::Exclusive) one.
    type Queue: AsQueue;

    /// What [`Decide::request`] has learned of who is accepted, for [`Decide::accepted`]. It is dropped if he cannot be
    /// accepted after all.
    type Guest;

    /// Whether to accept, and with what. Receives of the queue should be posted already.
    ///
    /// # Errors
    ///
    /// Any: the peer is refused, with what was [`said`](Offer::say).
    fn request(&self, offer: &mut Offer<'_>) -> Result<Welcome<Self::Queue, Self::Guest>>;

    /// Takes over what [`Decide::request`] has just accepted, before anything befalls it. To be kept: dropping it here
    /// would wait for this very call.
    fn accepted(&self, conn: Conn<Self::Queue>, guest: Self::Guest);
}

/// What is accepted with.
pub(crate) struct Welcome<Q, G> {
    /// A queue on the device of the [`Offer`].
    pub(crate) queue: Q,
    /// Who hears of the connection.
    pub(crate) events: Arc<dyn Events>,
    /// Who it is.
    pub(crate) guest: G,
}

/// Somebody wants to connect.
pub(crate) struct Offer<'a> {
    raw: &'a mut bindings::mlx5_ulp_conn_request,
    /// Where the answer is kept until the next offer.
    room: &'a mut [u8; ANSWER_DATA],
}

impl Offer<'_> {
    /// `mlx5_ulp_conn_ibdev()`, for [`Device::of`](crate::ulp::Device::of).
    pub(crate) fn ibdev(&self) -> *mut bindings::ib_device {
        // SAFETY: The connection exists as long as the request is decided over.
        unsafe { bindings::mlx5_ulp_conn_ibdev(self.raw.conn) }
    }

    /// Its private data; it ends with zeroes.
    pub(crate) fn data(&self) -> &[u8] {
        if self.raw.data.data.is_null() {
            return &[];
        }
        // SAFETY: Valid during the call, with so many bytes.
        unsafe { slice::from_raw_parts(self.raw.data.data.cast(), self.raw.data.length.into()) }
    }

    /// Private data of the answer, or of the refusal.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for more than [`ANSWER_DATA`].
    pub(crate) fn say(&mut self, data: &[u8]) -> Result {
        let room = self.room.get_mut(..data.len()).ok_or(EMSGSIZE)?;
        room.copy_from_slice(data);
        self.raw.answer = bindings::mlx5_ulp_conn_data {
            data: self.room.as_ptr().cast(),
            length: data.len() as u8,
        };
        Ok(())
    }
}

/// Who decides, and what was said last.
struct Desk<D> {
    decide: Arc<D>,
    said: UnsafeCell<[u8; ANSWER_DATA]>,
}

impl<D: Decide> Desk<D> {
    /// What rdma_cm is told to call, with a `Desk` as context.
    const OPS: &'static bindings::mlx5_ulp_listen_ops = &bindings::mlx5_ulp_listen_ops {
        request: Some(request::<D>),
    };
}

/// Waits for peers until it is dropped, which may sleep, and waits for who is deciding: it must not do it by himself.
pub(crate) struct Listener<D: Decide> {
    handle: NonNull<bindings::mlx5_ulp_listener>,
    /// Outlives the handle, which has a pointer to it.
    _desk: KBox<Desk<D>>,
}

// SAFETY: All functions of the interface may be called from any task; of the desk only the module makes use, one call at a
// time; who decides is `Send` and `Sync`.
unsafe impl<D: Decide> Send for Listener<D> {}
// SAFETY: As above.
unsafe impl<D: Decide> Sync for Listener<D> {}

impl<D: Decide> Listener<D> {
    /// `mlx5_ulp_listen()`, with `backlog` requests that may wait for the decision. May sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if address and port are taken, `EADDRNOTAVAIL` if the port is and one of both listens on all
    /// addresses, this or `ENODEV` if the address is not ours or not of an RDMA device, `ENOMEM`.
    pub(crate) fn new(address: &Address, backlog: i32, decide: Arc<D>) -> Result<Self> {
        let desk = Desk {
            decide,
            said: UnsafeCell::new([0; ANSWER_DATA]),
        };
        let desk = KBox::new(desk, GFP_KERNEL)?;
        let context = core::ptr::from_ref(&*desk).cast_mut().cast();
        // SAFETY: A namespace that is always there, a valid address; the function for what `context` points to, which is
        // kept until the listener has ended.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_listen(
                namespace(),
                address.as_ptr(),
                backlog,
                Desk::<D>::OPS,
                context,
            )
        })?;
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            _desk: desk,
        })
    }
}

impl<D: Decide> Drop for Listener<D> {
    fn drop(&mut self) {
        // SAFETY: Made by `new`, and ended once.
        unsafe { bindings::mlx5_ulp_unlisten(self.handle.as_ptr()) };
    }
}

/// Called by the module.
///
/// # Safety
///
/// `context` must be a [`Desk<D>`] that outlives the call, of which there is one at a time; `request` valid.
unsafe extern "C" fn request<D: Decide>(
    context: *mut c_void,
    request: *mut bindings::mlx5_ulp_conn_request,
) -> c_int {
    // SAFETY: The caller guarantees it.
    let (desk, raw) = unsafe { (&*context.cast::<Desk<D>>(), &mut *request) };
    // SAFETY: One request at a time, and what was said to the one before is needed no more.
    let room = unsafe { &mut *desk.said.get() };
    let Some(conn) = NonNull::new(raw.conn) else {
        return EINVAL.to_errno();
    };
    let mut offer = Offer { raw, room };
    let decided = desk.decide.request(&mut offer).and_then(|welcome| {
        let told = Told::new(welcome.events)?;
        Ok((welcome.queue, told, welcome.guest))
    });
    let (queue, told, guest) = match decided {
        Ok(accepted) => accepted,
        Err(e) => return e.to_errno(),
    };
    raw.queue = queue.as_ptr();
    raw.ops = &OPS;
    raw.context = told.context();
    // SAFETY: It is accepted with these, and belongs to the consumer.
    let conn = unsafe { Conn::accepted(conn, queue, told) };
    desk.decide.accepted(conn, guest);
    0
}
