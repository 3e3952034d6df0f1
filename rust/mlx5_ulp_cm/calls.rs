// SPDX-License-Identifier: GPL-2.0

//! The functions of `<mlx5_ulp_cm.h>` about a connection.

use crate::{
    bindings,
    conn::{
        Conn,
        Consumer,
        ANSWER_DATA, //
    },
    declared,
    int_result,
    pointer_result, //
};
use core::{
    ptr::NonNull,
    sync::atomic::Ordering::Relaxed, //
};
use kernel::{
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*, //
};

declared!(
    mlx5_ulp_conn_resolve,
    mlx5_ulp_conn_ibdev,
    mlx5_ulp_conn_connect,
    mlx5_ulp_conn_reject_reason,
    mlx5_ulp_conn_disconnect,
    mlx5_ulp_conn_destroy,
);

/// Borrows the connection of a consumer.
///
/// # Safety
///
/// `conn` must be one that was given out and that is not destroyed during `'a`.
unsafe fn conn<'a>(conn: *const bindings::mlx5_ulp_conn) -> &'a Conn {
    // SAFETY: What is given out is the pointer of a `KBox<Conn>`, alive by the caller's word.
    unsafe { &*conn.cast::<Conn>() }
}

/// The pointer that a consumer gets for a connection and gives back to [`mlx5_ulp_conn_destroy`].
pub(crate) fn into_raw(conn: Pin<KBox<Conn>>) -> *mut bindings::mlx5_ulp_conn {
    // SAFETY: It is not moved until it comes back, pinned again.
    KBox::into_raw(unsafe { Pin::into_inner_unchecked(conn) }).cast()
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `source` must be null or valid, all others valid, `net`, `ops` and `context` until the connection is
/// destroyed.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_resolve(
    net: *mut bindings::net,
    source: *const bindings::sockaddr,
    destination: *const bindings::sockaddr,
    timeout_ms: c_uint,
    ops: *const bindings::mlx5_ulp_conn_ops,
    context: *mut c_void,
) -> *mut bindings::mlx5_ulp_conn {
    // SAFETY: Guaranteed by the caller.
    let conn = unsafe {
        Conn::resolve(
            net,
            source,
            destination,
            timeout_ms,
            Consumer::new(ops, context),
        )
    };
    pointer_result(conn.map(into_raw))
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_ibdev(
    conn: *const bindings::mlx5_ulp_conn,
) -> *mut bindings::ib_device {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::conn(conn) }.ibdev.load(Relaxed)
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet, `queue` a queue that is destroyed after it,
/// `request` null or valid, `answer` null or have room for [`ANSWER_DATA`] bytes.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_connect(
    conn: *mut bindings::mlx5_ulp_conn,
    queue: *mut bindings::mlx5_ulp_queue,
    request: *const bindings::mlx5_ulp_conn_data,
    answer: *mut c_void,
    timeout_ms: c_uint,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    let conn = unsafe { self::conn(conn) };
    // SAFETY: Guaranteed by the caller.
    let result = unsafe { conn.connect(queue, request.as_ref(), timeout_ms) };
    if let Some(answer) = NonNull::new(answer.cast::<[u8; ANSWER_DATA]>()) {
        let data = conn.answer.lock().data;
        // SAFETY: Guaranteed by the caller; bytes have no alignment.
        unsafe { answer.write(data) };
    }
    int_result(result)
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_reject_reason(conn: *const bindings::mlx5_ulp_conn) -> c_int {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::conn(conn) }.answer.lock().reason
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_disconnect(conn: *mut bindings::mlx5_ulp_conn) {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::conn(conn) }.disconnect();
}

/// See `<mlx5_ulp_cm.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet; it is not used after.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_destroy(conn: *mut bindings::mlx5_ulp_conn) {
    // SAFETY: The pointer came from `into_raw`, and the caller gives it back.
    let conn = unsafe { Pin::new_unchecked(KBox::from_raw(conn.cast::<Conn>())) };
    conn.destroy();
}
