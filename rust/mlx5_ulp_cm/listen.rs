// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_listener`: waiting for peers.

use crate::{
    bindings,
    conn::{
        Conn,
        Consumer,
        ANSWER_DATA, //
    },
    declared,
    event::{
        self,
        CONSUMER, //
    },
    held::{
        self,
        held,
        Place, //
    },
    id::Id,
    phase::Phase,
    pointer_result,
    ready,
    work::{
        Work,
        WorkItem, //
    }, //
};
use core::{
    mem::offset_of,
    ptr::{
        null,
        null_mut,
        NonNull, //
    },
    sync::atomic::Ordering::Relaxed,
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Most bytes of private data of a refusal.
const REJECT_DATA: u8 = bindings::MLX5_ULP_CM_REJECT_DATA as u8;

/// Who waits for peers.
#[pin_data]
pub(crate) struct Listener {
    #[pin]
    id: Id,
    /// Destroys `id` when the device of its address goes.
    #[pin]
    removal: WorkItem,
    /// Held while one request is decided over: rdma_cm may deliver those of several devices at once.
    #[pin]
    deciding: Mutex<()>,
    ops: *const bindings::mlx5_ulp_listen_ops,
    context: *mut c_void,
}

// SAFETY: The context is only handed back; the functions may be called from any task.
unsafe impl Send for Listener {}
// SAFETY: As above.
unsafe impl Sync for Listener {}

impl Listener {
    /// See `mlx5_ulp_listen()`.
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn new(
        net: *mut bindings::net,
        address: *const bindings::sockaddr,
        backlog: c_int,
        ops: *const bindings::mlx5_ulp_listen_ops,
        context: *mut c_void,
    ) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                id <- Id::none(),
                // SAFETY: At the offset that is told; `end` disables it before the listener is dropped.
                removal <- unsafe { WorkItem::new::<Self>() },
                deciding <- new_mutex!((), "mlx5_ulp_cm_deciding"),
                ops,
                context,
            }),
            GFP_KERNEL,
        )?;
        let listener: &Self = &this;
        let known = core::ptr::from_ref(listener).cast_mut().cast();
        // SAFETY: The listener is pinned, and destroys the identifier before it goes.
        unsafe { this.id.create(net, request, known)? };
        let result = this.id.with(|id| {
            // SAFETY: The identifier exists; the address is valid by contract, and only copied.
            match unsafe { bindings::rdma_bind_addr(id, address.cast_mut()) } {
                // SAFETY: As above.
                0 => unsafe { bindings::rdma_listen(id, backlog) },
                error => error,
            }
        });
        if let Err(e) = result {
            this.end();
            return Err(e);
        }
        Ok(this)
    }

    /// No request comes any more when this returns. Sleeps.
    fn end(&self) {
        self.id.destroy();
        self.removal.disable();
    }

    /// Somebody wants to connect: what the handler returns.
    ///
    /// # Safety
    ///
    /// In the handler of `id`, which is that of the request; the private data of `offer` must be valid.
    unsafe fn decide(
        &self,
        id: NonNull<bindings::rdma_cm_id>,
        offer: &bindings::rdma_conn_param,
    ) -> Result {
        // To the end: the consumer's answer is its own until it is asked again.
        let _deciding = self.deciding.lock();
        let raw = id.as_ptr();
        // SAFETY: The identifier is valid in its handler.
        let ibdev = unsafe { (*raw).device };
        let place = Place::new()?;
        // SAFETY: rdma_cm destroys the identifier only if we refuse, and then the connection is dropped
        // without; it is the consumer's only when he has accepted.
        let conn = Conn::new(unsafe { Id::of(id) }, Phase::Accepted, ibdev, 0)?;
        let mut request = bindings::mlx5_ulp_conn_request {
            // Another task of the consumer may use it as soon as he has accepted.
            conn: place.give(conn.clone()),
            data: bindings::mlx5_ulp_conn_data {
                data: offer.private_data,
                length: offer.private_data_len,
            },
            queue: null_mut(),
            ops: null(),
            context: null_mut(),
            answer: bindings::mlx5_ulp_conn_data {
                data: null(),
                length: 0,
            },
        };
        // SAFETY: The consumer's function for the consumer's context, good until `end`, which waits.
        let verdict = unsafe {
            (*self.ops)
                .request
                .map_or(-1, |f| f(self.context, &mut request))
        };
        if verdict != 0 || request.queue.is_null() || request.ops.is_null() {
            let length = request.answer.length.min(REJECT_DATA);
            // SAFETY: In its handler; the data is the consumer's, of that length at least.
            unsafe { bindings::rdma_reject(raw, request.answer.data, length, CONSUMER) };
            let _ = held::take_back::<Conn>(Arc::as_ptr(&conn).cast(), c"mlx5_ulp_listen");
            return Err(EPERM);
        }
        // SAFETY: The consumer has set what stays valid until it destroys the connection.
        let consumer = unsafe { Consumer::new(request.ops, request.context) };
        conn.consumer.populate(consumer);
        conn.queue.store(request.queue, Relaxed);
        // SAFETY: In its handler, so nobody else looks at these. From here on the events of the
        // identifier are those of the connection, which its consumer destroys.
        unsafe {
            (*raw).context = conn.as_ptr();
            (*raw).event_handler = Some(event::connection);
        }
        // SAFETY: In its handler; the consumer has set queue and answer.
        if let Err(e) = unsafe { accept(raw, &request, offer) } {
            conn.ended(e.to_errno());
        }
        Ok(())
    }
}

/// Accepts as the consumer has said. If it fails, the peer is refused.
///
/// # Safety
///
/// In the handler of `id`; what is in `request` must be valid.
unsafe fn accept(
    id: *mut bindings::rdma_cm_id,
    request: &bindings::mlx5_ulp_conn_request,
    offer: &bindings::rdma_conn_param,
) -> Result {
    // SAFETY: Guaranteed by the caller.
    let mut param = unsafe { ready::param(request.queue, id, Some(offer)) };
    param.private_data = request.answer.data;
    param.private_data_len = request.answer.length;
    let fits = usize::from(request.answer.length) <= ANSWER_DATA;
    fits.then_some(())
        .ok_or(EMSGSIZE)
        .and_then(|()| {
            // SAFETY: Guaranteed by the caller.
            unsafe {
                bindings::rdma_set_min_rnr_timer(id, ready::MIN_RNR_TIMER);
                ready::ready(request.queue, id, Some(&param))
            }
        })
        .inspect_err(|_| {
            // SAFETY: Guaranteed by the caller.
            unsafe { bindings::rdma_reject(id, null(), 0, CONSUMER) };
        })?;
    // It refuses by itself if it fails.
    // SAFETY: Guaranteed by the caller.
    to_result(unsafe { bindings::rdma_accept(id, &mut param) })
}

/// Called by rdma_cm for the identifier of a [`Listener`], and for those that come with requests.
///
/// # Safety
///
/// `id` must have a [`Listener`] as its context; `event` be valid.
unsafe extern "C" fn request(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By contract; the listener destroys its identifier, and waits for this, before it goes.
    let (listener, event) = unsafe { (&*(*id).context.cast::<Listener>(), &*event) };
    match event.event {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            let Some(id) = NonNull::new(id) else {
                return EINVAL.to_errno();
            };
            // An error has rdma_cm destroy the new identifier.
            // SAFETY: In the handler of `id`; a request has the private data that it says.
            match unsafe { listener.decide(id, &event.param.conn) } {
                Ok(()) => 0,
                Err(e) => e.to_errno(),
            }
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
            // Only if it was bound to an address. rdma_cm waits until it is destroyed.
            listener.removal.queue();
            0
        }
        _ => 0,
    }
}

impl Work for Listener {
    const ITEM: usize = offset_of!(Listener, removal);

    fn work(&self) {
        self.id.destroy();
    }
}

held!(
    pub(crate) Listener,
    LISTENERS,
    bindings::mlx5_ulp_listener,
    bindings::mlx5_ulp_cm_shim_stale
);

declared!(mlx5_ulp_listen, mlx5_ulp_unlisten);

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// All must be valid, and but for the address until [`mlx5_ulp_unlisten`] has returned.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_listen(
    net: *mut bindings::net,
    address: *const bindings::sockaddr,
    backlog: c_int,
    ops: *const bindings::mlx5_ulp_listen_ops,
    context: *mut c_void,
) -> *mut bindings::mlx5_ulp_listener {
    let listen = || {
        let place = Place::new()?;
        // SAFETY: Guaranteed by the caller.
        let listener = unsafe { Listener::new(net, address, backlog, ops, context)? };
        Ok(place.give(listener))
    };
    pointer_result(listen())
}

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_unlisten(listener: *mut bindings::mlx5_ulp_listener) {
    if let Ok(listener) = held::take_back::<Listener>(listener, c"mlx5_ulp_unlisten") {
        listener.end();
    }
}
