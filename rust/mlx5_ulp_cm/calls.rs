// SPDX-License-Identifier: GPL-2.0

//! The functions of `<mlx5_ulp_conn.h>` about a connection.

use crate::{
    bindings,
    conn::{
        Conn,
        Consumer,
        ANSWER_DATA, //
    },
    declared,
    held::{
        self,
        Place, //
    },
    int_result,
    pointer_result, //
};
use core::{
    ptr::NonNull,
    sync::atomic::Ordering::Relaxed, //
};
use kernel::ffi::{
    c_int,
    c_uint,
    c_void, //
};

declared!(
    mlx5_ulp_conn_resolve,
    mlx5_ulp_conn_ibdev,
    mlx5_ulp_conn_connect,
    mlx5_ulp_conn_reject_reason,
    mlx5_ulp_conn_disconnect,
    mlx5_ulp_conn_destroy,
);

/// Borrows the connection of a consumer, in any context.
///
/// # Safety
///
/// `conn` must be one that was given out and that is not destroyed during `'a`.
unsafe fn conn<'a>(conn: *const bindings::mlx5_ulp_conn) -> &'a Conn {
    // SAFETY: What is given out is the address of a `Conn`, alive by the caller's word.
    unsafe { &*conn.cast::<Conn>() }
}

/// See `<mlx5_ulp_conn.h>`.
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
    let resolve = || {
        let place = Place::new()?;
        // SAFETY: Guaranteed by the caller.
        let conn = unsafe {
            let consumer = Consumer::new(ops, context);
            Conn::resolve(net, source, destination, timeout_ms, consumer)?
        };
        Ok(place.give(conn))
    };
    pointer_result(resolve())
}

/// See `<mlx5_ulp_conn.h>`.
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

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is destroyed after the connection, `request` null or valid, `answer` null or have room
/// for [`ANSWER_DATA`] bytes.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_connect(
    conn: *mut bindings::mlx5_ulp_conn,
    queue: *mut bindings::mlx5_ulp_queue,
    request: *const bindings::mlx5_ulp_conn_data,
    answer: *mut c_void,
    timeout_ms: c_uint,
) -> c_int {
    let conn = match held::get::<Conn>(conn, c"mlx5_ulp_conn_connect") {
        Ok(conn) => conn,
        Err(e) => return e.to_errno(),
    };
    // SAFETY: Guaranteed by the caller.
    let result = unsafe { conn.connect(queue, request.as_ref(), timeout_ms) };
    if let Some(answer) = NonNull::new(answer.cast::<[u8; ANSWER_DATA]>()) {
        let data = *conn.answer.lock();
        // SAFETY: Guaranteed by the caller; bytes have no alignment.
        unsafe { answer.write(data) };
    }
    int_result(result)
}

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// `conn` must be a connection that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_reject_reason(conn: *const bindings::mlx5_ulp_conn) -> c_int {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::conn(conn) }.reason.load(Relaxed)
}

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_disconnect(conn: *mut bindings::mlx5_ulp_conn) {
    if let Ok(conn) = held::get::<Conn>(conn, c"mlx5_ulp_conn_disconnect") {
        conn.disconnect();
    }
}

/// See `<mlx5_ulp_conn.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_conn_destroy(conn: *mut bindings::mlx5_ulp_conn) {
    if let Ok(conn) = held::take_back::<Conn>(conn, c"mlx5_ulp_conn_destroy") {
        conn.destroy();
    }
}
