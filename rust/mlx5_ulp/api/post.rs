// SPDX-License-Identifier: GPL-2.0

//! Posting and polling: the part of the interface that is on the data path.

use super::{
    declared,
    int_result,
    queue::queue, //
};
use crate::queue::credit::Handle;
use kernel::ffi::{
    c_int,
    c_uint, //
};
use mlx5_ulp_bindings as bindings;

declared!(
    mlx5_ulp_post_write,
    mlx5_ulp_post_writes,
    mlx5_ulp_exclusive_post_writes,
    mlx5_ulp_post,
    mlx5_ulp_exclusive_post,
    mlx5_ulp_reserve,
    mlx5_ulp_post_reserved,
    mlx5_ulp_release,
    mlx5_ulp_post_receives,
    mlx5_ulp_flush,
    mlx5_ulp_poll,
);

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet. `write` and its `sge` must be valid; with
/// `MLX5_ULP_INLINE` the ranges must be readable; `request` must be null or stay valid until it is told.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_post_write(
    queue: *mut bindings::mlx5_ulp_queue,
    write: *const bindings::mlx5_ulp_write,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue)
            .send()
            .post_write(Handle::Shared, &*write)
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_post_write`] for each of the `count` requests at `writes`.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_post_writes(
    queue: *mut bindings::mlx5_ulp_queue,
    writes: *const bindings::mlx5_ulp_write,
    count: c_uint,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: Guaranteed by the caller.
    let writes = unsafe { core::slice::from_raw_parts(writes, count as usize) };
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue)
            .send()
            .post_writes(Handle::Shared, writes)
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_post_writes`], and nobody else posts to the queue or drains it meanwhile.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_exclusive_post_writes(
    queue: *mut bindings::mlx5_ulp_exclusive,
    writes: *const bindings::mlx5_ulp_write,
    count: c_uint,
) -> c_int {
    if count != 1 {
        // SAFETY: Guaranteed by the caller.
        return unsafe { post_exclusive_chain(queue, writes, count) };
    }
    // SAFETY: An exclusive handle is the pointer of the queue. The rest is guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue.cast())
            .send()
            .post_write(Handle::Exclusive, &*writes)
    })
}

/// Several or none: called last, so that one WRITE needs no stack frame.
///
/// # Safety
///
/// As [`mlx5_ulp_exclusive_post_writes`].
#[inline(never)]
unsafe fn post_exclusive_chain(
    queue: *mut bindings::mlx5_ulp_exclusive,
    writes: *const bindings::mlx5_ulp_write,
    count: c_uint,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: As there.
    int_result(unsafe {
        let writes = core::slice::from_raw_parts(writes, count as usize);
        self::queue(queue.cast())
            .send()
            .post_writes(Handle::Exclusive, writes)
    })
}

/// Borrows a chain.
///
/// # Safety
///
/// `works` must point to `count` requests during `'a`, or `count` be 0.
unsafe fn chain<'a>(
    works: *const bindings::mlx5_ulp_work,
    count: c_uint,
) -> &'a [bindings::mlx5_ulp_work] {
    if count == 0 {
        return &[];
    }
    // SAFETY: Guaranteed by the caller.
    unsafe { core::slice::from_raw_parts(works, count as usize) }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_post_writes`], for each of the `count` requests at `works`.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_post(
    queue: *mut bindings::mlx5_ulp_queue,
    works: *const bindings::mlx5_ulp_work,
    count: c_uint,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue)
            .send()
            .post_works(Handle::Shared, chain(works, count))
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_post`], and nobody else posts to the queue or drains it meanwhile.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_exclusive_post(
    queue: *mut bindings::mlx5_ulp_exclusive,
    works: *const bindings::mlx5_ulp_work,
    count: c_uint,
) -> c_int {
    // SAFETY: An exclusive handle is the pointer of the queue. The rest is guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue.cast())
            .send()
            .post_works(Handle::Exclusive, chain(works, count))
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet, `reservation` valid and used by nobody else. Nobody posts to
/// an exclusive queue meanwhile.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_reserve(
    queue: *mut bindings::mlx5_ulp_queue,
    reservation: *mut bindings::mlx5_ulp_reservation,
    count: u32,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue)
            .send()
            .reserve(&mut (*reservation).left, count)
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_reserve`] and [`mlx5_ulp_post`].
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_post_reserved(
    queue: *mut bindings::mlx5_ulp_queue,
    reservation: *mut bindings::mlx5_ulp_reservation,
    works: *const bindings::mlx5_ulp_work,
    count: c_uint,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe {
        self::queue(queue)
            .send()
            .post_reserved(&mut (*reservation).left, chain(works, count))
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// As [`mlx5_ulp_reserve`].
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_release(
    queue: *mut bindings::mlx5_ulp_queue,
    reservation: *mut bindings::mlx5_ulp_reservation,
) {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::queue(queue).send().release(&mut (*reservation).left) };
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet. Each of the `count` receives at `receives` and its `sge`
/// must be valid; `request` must be null or stay valid until it is told.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_post_receives(
    queue: *mut bindings::mlx5_ulp_queue,
    receives: *const bindings::mlx5_ulp_receive,
    count: c_uint,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: Guaranteed by the caller.
    let receives = unsafe { core::slice::from_raw_parts(receives, count as usize) };
    // SAFETY: Guaranteed by the caller.
    int_result(unsafe { self::queue(queue).send().post_receives(receives) })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_flush(queue: *mut bindings::mlx5_ulp_queue) {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::queue(queue) }.send().flush();
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_poll(queue: *mut bindings::mlx5_ulp_queue, budget: c_uint) -> c_int {
    if budget == 0 {
        return 0;
    }
    // SAFETY: Guaranteed by the caller.
    let taken = unsafe { self::queue(queue) }.send().poll_now(budget);
    // A completion queue has at most 2^22 entries.
    taken as c_int
}
