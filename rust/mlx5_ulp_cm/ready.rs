// SPDX-License-Identifier: GPL-2.0

//! The steps of a queue at the events of an rdma_cm_id.
//!
//! rdma_cm moves a QP that it made through its states by itself (`cma_modify_qp_rtr()`,
//! `cma_modify_qp_rts()`). It has not made ours, so the same is done here, from the same attributes.

use crate::{
    bindings,
    declared,
    int_result, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// 0.64 ms (code of the IB specification): how long a peer waits when we have no receive posted. rdma_cm's
/// own is the longest that there is, 655 ms.
pub(crate) const MIN_RNR_TIMER: u8 = 12;

/// Number of retries: the most that there are; for a missing receive it means for ever.
const RETRIES: u8 = 7;

/// What to say of `queue`, see `mlx5_ulp_cm_param()`.
///
/// # Safety
///
/// `queue` and `id` must be valid.
pub(crate) unsafe fn param(
    queue: *const bindings::mlx5_ulp_queue,
    id: *const bindings::rdma_cm_id,
    offer: Option<&bindings::rdma_conn_param>,
) -> bindings::rdma_conn_param {
    // SAFETY: Guaranteed by the caller.
    let (number, mut responder, mut initiator) = unsafe {
        (
            bindings::mlx5_ulp_queue_qpn(queue),
            bindings::mlx5_ulp_cm_shim_responder(id),
            bindings::mlx5_ulp_cm_shim_initiator(id),
        )
    };
    // In an event both are said from our side: what we shall serve, and what we may send.
    if let Some(offer) = offer {
        responder = responder.min(offer.responder_resources);
        initiator = initiator.min(offer.initiator_depth);
    }
    bindings::rdma_conn_param {
        private_data: core::ptr::null(),
        private_data_len: 0,
        responder_resources: responder,
        initiator_depth: initiator,
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: number,
        qkey: 0,
    }
}

/// Connects `queue` as `id` says, see `mlx5_ulp_cm_ready()`. Sleeps.
///
/// # Errors
///
/// Those of `rdma_init_qp_attr()` and of `mlx5_ulp_queue_connect_verbs()`.
///
/// # Safety
///
/// `queue` and `id` must be valid, and this be called from the event handler of `id`.
pub(crate) unsafe fn ready(
    queue: *mut bindings::mlx5_ulp_queue,
    id: *mut bindings::rdma_cm_id,
    param: Option<&bindings::rdma_conn_param>,
) -> Result {
    // On the stack: some 300 bytes.
    // SAFETY: A plain structure of the kernel, of which all zeroes is a valid value.
    let mut attr: bindings::ib_qp_attr = unsafe { core::mem::zeroed() };
    let mut mask = 0;
    for state in [
        bindings::ib_qp_state_IB_QPS_RTR,
        bindings::ib_qp_state_IB_QPS_RTS,
    ] {
        let mut of_state = 0;
        attr.qp_state = state;
        // SAFETY: Guaranteed by the caller; both are places for the answer. The two steps fill in
        // different attributes.
        to_result(unsafe { bindings::rdma_init_qp_attr(id, &mut attr, &mut of_state) })?;
        mask |= of_state;
    }
    if let Some(param) = param {
        // What the identifier knows is what the peer wants; this is what it will be granted.
        attr.max_dest_rd_atomic = param.responder_resources;
        attr.max_rd_atomic = param.initiator_depth;
    }
    // SAFETY: Guaranteed by the caller. The identifier keeps the GID attribute that the address names, and
    // is not destroyed within its handler.
    to_result(unsafe { bindings::mlx5_ulp_queue_connect_verbs(queue, &attr, mask) })
}

declared!(mlx5_ulp_cm_param, mlx5_ulp_cm_ready);

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// All must be valid, `offer` may be null.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_cm_param(
    queue: *const bindings::mlx5_ulp_queue,
    id: *const bindings::rdma_cm_id,
    offer: *const bindings::rdma_conn_param,
    param: *mut bindings::rdma_conn_param,
) {
    // SAFETY: Guaranteed by the caller.
    unsafe { param.write(self::param(queue, id, offer.as_ref())) };
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// As for [`ready`]; `param` must be null or valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_cm_ready(
    queue: *mut bindings::mlx5_ulp_queue,
    id: *mut bindings::rdma_cm_id,
    param: *const bindings::rdma_conn_param,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe { ready(queue, id, param.as_ref()) })
}
