// SPDX-License-Identifier: GPL-2.0

//! What rdma_cm tells of a connection.
//!
//! Handlers run one at a time for one connection, under the mutex of its identifier, in process context.

use crate::{
    bindings::{
        self,
        mlx5_ulp_conn_event_MLX5_ULP_CONN_CLOSED as CLOSED,
        mlx5_ulp_conn_event_MLX5_ULP_CONN_ESTABLISHED as ESTABLISHED,
        mlx5_ulp_conn_event_MLX5_ULP_CONN_TIMEWAIT_EXIT as TIMEWAIT_EXIT,
        rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE as ADDR_CHANGE,
        rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR as ADDR_ERROR,
        rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED as ADDR_RESOLVED,
        rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR as CONNECT_ERROR,
        rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE as CONNECT_RESPONSE,
        rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL as DEVICE_REMOVAL,
        rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED as DISCONNECTED,
        rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED as CM_ESTABLISHED,
        rdma_cm_event_type_RDMA_CM_EVENT_REJECTED as REJECTED,
        rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR as ROUTE_ERROR,
        rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED as ROUTE_RESOLVED,
        rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT as CM_TIMEWAIT_EXIT,
        rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE as UNREACHABLE, //
    },
    conn::{
        Conn,
        ANSWER_DATA, //
    },
    phase::Phase,
    ready, //
};
use core::{
    ptr::null,
    sync::atomic::Ordering::Relaxed, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*, //
};

/// The connection's consumer is who refuses.
pub(crate) const CONSUMER: u8 = bindings::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED as u8;

/// Called by rdma_cm for the identifier of a [`Conn`].
///
/// # Safety
///
/// `id` must have a [`Conn`] as its context; `event` be valid.
pub(crate) unsafe extern "C" fn connection(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By contract; the connection destroys its identifier, and waits for this, before it goes.
    let (conn, event) = unsafe { (&*(*id).context.cast::<Conn>(), &*event) };
    match event.event {
        ADDR_RESOLVED => {
            // SAFETY: The identifier is valid in its handler.
            conn.ibdev.store(unsafe { (*id).device }, Relaxed);
            // SAFETY: As above.
            let status = unsafe { bindings::rdma_resolve_route(id, conn.timeout as c_ulong) };
            if status != 0 {
                conn.ended(status);
            }
        }
        ROUTE_RESOLVED => {
            conn.phase.advance(Phase::Resolving, Phase::Resolved);
            conn.resolved.tell();
        }
        ADDR_ERROR | ROUTE_ERROR => conn.ended(error_of(event.status)),
        // SAFETY: In the handler of `id`; a response has the private data that it says.
        CONNECT_RESPONSE => unsafe { conn.response(id, &event.param.conn) },
        REJECTED => {
            // SAFETY: This event has private data.
            unsafe { conn.keep(event.status, &event.param.conn) };
            conn.ended(-(bindings::ECONNREFUSED as c_int));
        }
        UNREACHABLE | CONNECT_ERROR => conn.ended(error_of(event.status)),
        // SAFETY: In the handler of `id`.
        CM_ESTABLISHED => unsafe { conn.established(id) },
        DISCONNECTED => {
            // Answers the peer, if that is who has asked.
            // SAFETY: The identifier is valid in its handler.
            unsafe { bindings::rdma_disconnect(id) };
            conn.ended(if conn.leaving.load(Relaxed) {
                0
            } else {
                -(bindings::ECONNRESET as c_int)
            });
        }
        ADDR_CHANGE => conn.ended(-(bindings::ENETRESET as c_int)),
        DEVICE_REMOVAL => {
            conn.ended(ENODEV.to_errno());
            // rdma_cm waits until it is destroyed.
            conn.removal.queue();
        }
        CM_TIMEWAIT_EXIT => conn.tell(TIMEWAIT_EXIT, 0),
        _ => {}
    }
    // Anything else would have rdma_cm destroy the identifier.
    0
}

/// The error of an event that has one: not all say which.
fn error_of(status: c_int) -> c_int {
    if status < 0 {
        status
    } else {
        ETIMEDOUT.to_errno()
    }
}

impl Conn {
    /// It is over, once. Whoever waits, or else its owner, hears why.
    pub(crate) fn ended(&self, status: c_int) {
        if self.phase.get() == Phase::Closed {
            return;
        }
        // Before the phase, with which it becomes visible.
        self.status.store(status, Relaxed);
        let before = self.phase.close();
        self.disconnect_queue();
        match before {
            Phase::Resolving => self.resolved.tell(),
            Phase::Connecting => self.answered.tell(),
            Phase::Accepted | Phase::Connected => self.tell(CLOSED, status),
            Phase::Resolved | Phase::Closed => {}
        }
    }

    /// Keeps what the peer has said.
    ///
    /// # Safety
    ///
    /// The private data of `param` must be valid.
    unsafe fn keep(&self, reason: c_int, param: &bindings::rdma_conn_param) {
        let data = param.private_data.cast::<u8>();
        let length = usize::from(param.private_data_len).min(ANSWER_DATA);
        // Before the phase, with which it becomes visible.
        self.reason.store(reason, Relaxed);
        let mut answer = self.answer.lock();
        if !data.is_null() {
            // SAFETY: Guaranteed by the caller. Bytes, of which both have so many.
            unsafe { core::ptr::copy_nonoverlapping(data, answer.as_mut_ptr(), length) };
        }
    }

    /// The peer has accepted.
    ///
    /// # Safety
    ///
    /// In the handler of `id`; the private data of `param` must be valid.
    unsafe fn response(&self, id: *mut bindings::rdma_cm_id, param: &bindings::rdma_conn_param) {
        let queue = self.queue.load(Relaxed);
        // SAFETY: Guaranteed by the caller.
        unsafe { self.keep(0, param) };
        // SAFETY: The owner keeps the queue while it connects it.
        let result = unsafe { ready::ready(queue, id, None) }
            .inspect_err(|_| {
                // SAFETY: The identifier is valid in its handler.
                unsafe { bindings::rdma_reject(id, null(), 0, CONSUMER) };
            })
            // It refuses by itself if it fails.
            // SAFETY: As above.
            .and_then(|()| to_result(unsafe { bindings::rdma_accept(id, core::ptr::null_mut()) }));
        match result {
            Ok(()) => {
                // Unless the owner has ended it meanwhile, who then sees to queue and identifier.
                if self.phase.advance(Phase::Connecting, Phase::Connected) {
                    self.made.store(true, Relaxed);
                    self.answered.tell();
                }
            }
            Err(e) => self.ended(e.to_errno()),
        }
    }

    /// Our answer has reached the peer.
    ///
    /// # Safety
    ///
    /// In the handler of `id`.
    unsafe fn established(&self, id: *mut bindings::rdma_cm_id) {
        if !self.phase.advance(Phase::Accepted, Phase::Connected) {
            return;
        }
        if self.leaving.load(Relaxed) {
            // Now it can be told that we are not there any more.
            // SAFETY: The identifier is valid in its handler.
            unsafe { bindings::rdma_disconnect(id) };
        } else {
            self.tell(ESTABLISHED, 0);
        }
    }
}
