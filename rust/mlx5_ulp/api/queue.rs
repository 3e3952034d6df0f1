// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_queue`: create, connect, drain, destroy, statistics.

use super::{
    access,
    declared,
    device::open_handle,
    held::{
        self,
        held,
        Place, //
    },
    int_result,
    pointer_result, //
};
use crate::{
    observe::counters::Source,
    qid::key::Name,
    queue::{
        connect::Peer,
        credit::Handle,
        queue::{
            Queue,
            QueueConfig, //
        },
        shape::{
            ReceiveShape,
            Shape, //
        }, //
    },
};
use kernel::{
    error::code::*,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

held!(
    pub(crate) Queue,
    QUEUES,
    bindings::mlx5_ulp_queue,
    bindings::mlx5_ulp_shim_stale
);

declared!(
    mlx5_ulp_queue_create,
    mlx5_ulp_queue_qpn,
    mlx5_ulp_queue_address,
    mlx5_ulp_queue_connect,
    mlx5_ulp_queue_connect_verbs,
    mlx5_ulp_queue_disconnect,
    mlx5_ulp_queue_drain,
    mlx5_ulp_queue_stop,
    mlx5_ulp_queue_destroy,
    mlx5_ulp_queue_query_stats,
);

/// Borrows the queue of a consumer, in any context.
///
/// # Safety
///
/// `queue` must be one that [`mlx5_ulp_queue_create`] gave out and that is not destroyed during `'a`.
#[inline(always)]
pub(super) unsafe fn queue<'a>(queue: *const bindings::mlx5_ulp_queue) -> &'a Queue {
    // SAFETY: A queue is the address of a `Queue`, alive by the caller's word.
    unsafe { &*queue.cast::<Queue>() }
}

/// Looks up the queue of a consumer, for `call`. Sleeps.
///
/// # Errors
///
/// `EBADF` if it is none.
pub(super) fn live_queue(
    queue: *const bindings::mlx5_ulp_queue,
    call: &CStr,
) -> Result<Arc<Queue>> {
    held::get(queue, call)
}

/// The GID index of a consumer.
fn gid_index(index: i32) -> Result<Option<u8>> {
    match index {
        bindings::MLX5_ULP_GID_AUTO => Ok(None),
        _ => Ok(Some(u8::try_from(index).map_err(|_| ENOENT)?)),
    }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `attr` must be valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_create(
    dev: *mut bindings::mlx5_ulp_device,
    attr: *const bindings::mlx5_ulp_queue_attr,
) -> *mut bindings::mlx5_ulp_queue {
    // SAFETY: Guaranteed by the caller.
    let attr = unsafe { &*attr };
    let create = || {
        const EXCLUSIVE: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_EXCLUSIVE;
        const POLLED: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_POLLED;
        const WORK: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_WORK;
        const REGISTERS: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_REGISTERS;
        const NAMED: u32 = bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_NAMED;
        let handle = open_handle(dev, c"mlx5_ulp_queue_create")?;
        if attr.flags & !(EXCLUSIVE | POLLED | NAMED | REGISTERS | WORK) != 0
            || attr.flags & (POLLED | WORK) == POLLED | WORK
        {
            return Err(EINVAL);
        }
        let poster = match attr.flags & EXCLUSIVE {
            0 => Handle::Shared,
            _ => Handle::Exclusive,
        };
        // A registration takes as much room as a request with so many ranges.
        let least_sge = match attr.flags & REGISTERS {
            0 => 1,
            _ => Shape::REGISTRATION_SGE,
        };
        let config = QueueConfig {
            handle: poster,
            shape: Shape {
                depth: attr.depth,
                max_sge: attr.max_sge.max(least_sge),
                max_inline: attr.max_inline,
            },
            receive: (attr.max_recv_depth != 0).then_some(ReceiveShape {
                depth: attr.max_recv_depth,
                max_sge: attr.max_recv_sge.max(1),
            }),
            vector: attr.vector,
            access: access(attr.access)?.remote,
            name: (attr.flags & NAMED != 0).then_some(Name::from_raw(attr.qid)),
            polled: attr.flags & POLLED != 0,
            in_work: attr.flags & WORK != 0,
            space: attr.space,
            context: attr.context,
        };
        let place = Place::new()?;
        Ok(place.give(Queue::new(handle.pd()?, &config)?))
    };
    pointer_result(create())
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `address` must be valid for writing.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_address(
    queue: *mut bindings::mlx5_ulp_queue,
    gid_index: i32,
    address: *mut bindings::mlx5_ulp_address,
) -> c_int {
    int_result((|| {
        let queue = live_queue(queue, c"mlx5_ulp_queue_address")?;
        let a = queue.address(self::gid_index(gid_index)?)?;
        let answer = bindings::mlx5_ulp_address {
            qpn: a.qpn,
            psn: a.psn,
            gid: a.local.gid,
            mac: a.local.mac,
            mtu: a.mtu,
        };
        // SAFETY: Guaranteed by the caller.
        unsafe { *address = answer };
        Ok(())
    })())
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `peer` must be valid, `attr` null or valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_connect(
    queue: *mut bindings::mlx5_ulp_queue,
    peer: *const bindings::mlx5_ulp_address,
    attr: *const bindings::mlx5_ulp_connect_attr,
) -> c_int {
    const USUAL: bindings::mlx5_ulp_connect_attr = bindings::mlx5_ulp_connect_attr {
        gid_index: bindings::MLX5_ULP_GID_AUTO,
        timeout: 0,
        retry_count: 0,
        rnr_retry: 0,
        traffic_class: 0,
        max_reads: 0,
        max_peer_reads: 0,
    };
    // SAFETY: Guaranteed by the caller.
    let (peer, attr) = unsafe { (&*peer, attr.as_ref().unwrap_or(&USUAL)) };
    int_result((|| {
        live_queue(queue, c"mlx5_ulp_queue_connect")?.connect(&Peer {
            qpn: peer.qpn,
            psn: peer.psn,
            gid: peer.gid,
            mac: peer.mac,
            mtu: peer.mtu.into(),
            gid_index: gid_index(attr.gid_index)?,
            ack_timeout: attr.timeout,
            retry_count: attr.retry_count,
            rnr_retry: attr.rnr_retry,
            traffic_class: attr.traffic_class,
            max_reads: attr.max_reads,
            max_peer_reads: attr.max_peer_reads,
        })
    })())
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `attr` must be valid and, with `IB_QP_AV`, its GID attribute null or valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_connect_verbs(
    queue: *mut bindings::mlx5_ulp_queue,
    attr: *const bindings::ib_qp_attr,
    mask: c_int,
) -> c_int {
    let queue = live_queue(queue, c"mlx5_ulp_queue_connect_verbs");
    // SAFETY: Guaranteed by the caller; the GID attribute is not looked at without the bit.
    int_result(queue.and_then(|queue| unsafe { queue.connect_verbs(&*attr, mask as u32) }))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_disconnect(queue: *mut bindings::mlx5_ulp_queue) -> c_int {
    let queue = live_queue(queue, c"mlx5_ulp_queue_disconnect");
    int_result(queue.and_then(|queue| queue.disconnect()))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_qpn(queue: *const bindings::mlx5_ulp_queue) -> u32 {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::queue(queue) }.number()
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// Nobody posts to an exclusive queue meanwhile.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_drain(queue: *mut bindings::mlx5_ulp_queue) -> c_int {
    let queue = live_queue(queue, c"mlx5_ulp_queue_drain");
    // SAFETY: Guaranteed by the caller.
    int_result(queue.and_then(|queue| unsafe { queue.drain() }))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// Nobody posts to an exclusive queue meanwhile.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_stop(queue: *mut bindings::mlx5_ulp_queue) -> c_int {
    let queue = live_queue(queue, c"mlx5_ulp_queue_stop");
    // SAFETY: Guaranteed by the caller.
    int_result(queue.and_then(|queue| unsafe { queue.stop() }))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_destroy(queue: *mut bindings::mlx5_ulp_queue) {
    if let Ok(queue) = held::take_back::<Queue>(queue, c"mlx5_ulp_queue_destroy") {
        queue.give_back();
    }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `queue` must be a queue that is not destroyed yet, `stats` valid for writing.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_queue_query_stats(
    queue: *const bindings::mlx5_ulp_queue,
    stats: *mut bindings::mlx5_ulp_queue_stats,
) {
    // SAFETY: Guaranteed by the caller.
    let queue = unsafe { self::queue(queue) };
    let totals = queue.totals();
    let (receives, received) = queue.receive_totals();
    let answer = bindings::mlx5_ulp_queue_stats {
        posted: totals.posted,
        doorbells: totals.doorbells,
        full: totals.full,
        completed: totals.completed,
        errors: totals.errors,
        flushed: totals.flushed,
        unexpected: totals.invalid,
        receives,
        received,
    };
    // SAFETY: Guaranteed by the caller.
    unsafe { *stats = answer };
}
