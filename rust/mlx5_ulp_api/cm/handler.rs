// SPDX-License-Identifier: GPL-2.0

//! `<mlx5_ulp_cm.h>` for consumers written in Rust that have an rdma_cm event handler of their own: what they call at which
//! event. It is said there, and in `Documentation/connecting.rst`.
//!
//! An identifier of rdma_cm is theirs, and a pointer here: these functions cannot know whether it exists. For who says
//! `ulp_bindings_cm := handler`, which binds what of rdma_cm such a handler needs; as a module beside `ulp` and
//! `ulp_bindings`. [`cm`](super) is what others take, which needs none of this.
#![allow(dead_code)]

use crate::{
    ulp::{
        AsQueue,
        Device,
        Removal, //
    },
    ulp_bindings as bindings, //
};
use core::{
    mem::MaybeUninit,
    ptr::{
        from_ref,
        null, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// `mlx5_ulp_open_cm_id()`: takes hold of the device of `id`, with a removal notice to `removal` if there is one. May sleep.
///
/// # Errors
///
/// `ENODEV` if the identifier has no device, or that is none of ours; those of [`Device::of`].
///
/// # Safety
///
/// `id` must exist, and not be bound to a device by somebody else meanwhile.
pub(crate) unsafe fn open(
    id: *const bindings::rdma_cm_id,
    removal: Option<Arc<dyn Removal>>,
) -> Result<Arc<Device>> {
    // SAFETY: Guaranteed by the caller.
    let ibdev = unsafe { (*id).device };
    if ibdev.is_null() {
        return Err(ENODEV);
    }
    Device::of(ibdev, removal)
}

/// `mlx5_ulp_cm_param()`: what to say of `queue` when connecting or, with the `offer` that came with the request, when
/// accepting. Any context.
///
/// # Safety
///
/// `id` must exist, and be bound to the device of the queue.
pub(crate) unsafe fn param<Q: AsQueue>(
    queue: &Q,
    id: *const bindings::rdma_cm_id,
    offer: Option<&bindings::rdma_conn_param>,
) -> bindings::rdma_conn_param {
    let offer = offer.map_or(null(), from_ref);
    let mut param = MaybeUninit::uninit();
    // SAFETY: The queue exists as long as `queue` is borrowed; `offer` is null or valid; `param` is a place for the answer.
    // The caller guarantees the rest.
    unsafe { bindings::mlx5_ulp_cm_param(queue.as_ptr(), id, offer, param.as_mut_ptr()) };
    // SAFETY: All of it was filled in.
    unsafe { param.assume_init() }
}

/// `mlx5_ulp_cm_ready()`: connects `queue` as `id` says; when accepting, with the `param` that `rdma_accept()` will be called
/// with. May sleep.
///
/// # Errors
///
/// `EINVAL` if the identifier is not at a step of a connection over RoCE v2 on the device of the queue, and those of
/// [`Queue::connect_verbs`](crate::ulp::Queue::connect_verbs).
///
/// # Safety
///
/// To be called from the event handler of `id`.
pub(crate) unsafe fn ready<Q: AsQueue>(
    queue: &Q,
    id: *mut bindings::rdma_cm_id,
    param: Option<&bindings::rdma_conn_param>,
) -> Result {
    let param = param.map_or(null(), from_ref);
    // SAFETY: The queue exists as long as `queue` is borrowed; `param` is null or valid. The caller guarantees the rest.
    to_result(unsafe { bindings::mlx5_ulp_cm_ready(queue.as_ptr(), id, param) })
}
