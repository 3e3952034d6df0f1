// SPDX-License-Identifier: GPL-2.0

//! Finding queues by name and by number.

use super::{
    declared,
    device::handle,
    int_result,
    queue::live_queue, //
};
use crate::qid::key::{
    Name,
    Number, //
};
use kernel::ffi::{
    c_int,
    c_uint, //
};
use mlx5_ulp_bindings as bindings;

declared!(
    mlx5_ulp_queue_find,
    mlx5_ulp_queue_find_qpn,
    mlx5_ulp_queue_prefetch,
    mlx5_ulp_queue_pin,
    mlx5_ulp_queue_unpin,
);

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_find(
    dev: *const bindings::mlx5_ulp_device,
    qid: u32,
) -> *mut bindings::mlx5_ulp_queue {
    // SAFETY: Guaranteed by the caller.
    let registry = unsafe { handle(dev) }.registry();
    registry.find(Name::from_raw(qid)).cast_mut().cast()
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_find_qpn(
    dev: *const bindings::mlx5_ulp_device,
    qpn: u32,
) -> *mut bindings::mlx5_ulp_queue {
    let Some(number) = Number::new(qpn) else {
        return core::ptr::null_mut();
    };
    // SAFETY: Guaranteed by the caller.
    let registry = unsafe { handle(dev) }.registry();
    registry.find_number(number).cast_mut().cast()
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle, and `qids` point to `count` names.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_prefetch(
    dev: *const bindings::mlx5_ulp_device,
    qids: *const u32,
    count: c_uint,
) {
    if count == 0 {
        return;
    }
    // SAFETY: Guaranteed by the caller; a name is a word.
    let (handle, names) = unsafe {
        (
            handle(dev),
            core::slice::from_raw_parts(qids.cast::<Name>(), count as usize),
        )
    };
    handle.registry().prefetch(names);
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_pin(queue: *mut bindings::mlx5_ulp_queue) -> c_int {
    int_result(live_queue(queue, c"mlx5_ulp_queue_pin").and_then(|queue| queue.pin()))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_unpin(queue: *mut bindings::mlx5_ulp_queue) -> c_int {
    int_result(live_queue(queue, c"mlx5_ulp_queue_unpin").and_then(|queue| queue.unpin()))
}
