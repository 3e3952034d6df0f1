// SPDX-License-Identifier: GPL-2.0

//! How a queue comes to its peer.

use super::{
    bindings,
    Queue, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// Where a queue can be reached (`struct mlx5_ulp_address`): plain numbers, to be told to the peer by whatever means.
pub(crate) type Address = bindings::mlx5_ulp_address;

/// How to connect, beside the address (`struct mlx5_ulp_connect_attr`). 0 stands for the usual.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnectAttr {
    /// Index of the own GID; `None` for the first of RoCE v2.
    pub(crate) gid_index: Option<u8>,
    /// Time until a packet is sent again: 4.096 us << `timeout`; 1 to 31.
    pub(crate) timeout: u8,
    /// How often it is sent again, 1 to 7.
    pub(crate) retry_count: u8,
    /// How often when the peer has no receive, 1 to 7, which means for ever.
    pub(crate) rnr_retry: u8,
    /// Of the IP header.
    pub(crate) traffic_class: u8,
    /// READs and atomics that the queue has under way at the peer.
    pub(crate) max_reads: u8,
    /// How many of the peer are taken here.
    pub(crate) max_peer_reads: u8,
}

/// A queue that rdma_cm can connect: [`Queue`] or [`Exclusive`](super::Exclusive).
///
/// # Safety
///
/// What `as_ptr` returns must be a queue that exists as long as `self`, wherever that is moved to.
pub(crate) unsafe trait AsQueue {
    /// The queue as the C interface knows it.
    fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue;
}

// SAFETY: It is destroyed when it is dropped, and not before.
unsafe impl AsQueue for Queue {
    fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue {
        Queue::as_ptr(self)
    }
}

fn raw_gid_index(gid_index: Option<u8>) -> i32 {
    gid_index.map_or(bindings::MLX5_ULP_GID_AUTO, i32::from)
}

impl Queue {
    /// `mlx5_ulp_queue_qpn()`: the number of its QP, 24 bits.
    pub(crate) fn qpn(&self) -> u32 {
        self.borrow().qpn()
    }

    /// `mlx5_ulp_queue_address()`; `gid_index` `None` for the first of RoCE v2. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such GID, `ENODEV`.
    pub(crate) fn address(&self, gid_index: Option<u8>) -> Result<Address> {
        // SAFETY: All zeroes is a valid value of this plain structure.
        let mut address: Address = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the queue exists; `address` is a place for the answer.
        to_result(unsafe {
            bindings::mlx5_ulp_queue_address(self.as_ptr(), raw_gid_index(gid_index), &mut address)
        })?;
        Ok(address)
    }

    /// `mlx5_ulp_queue_connect()`, as usual if there are no attributes. May sleep.
    ///
    /// # Errors
    ///
    /// `EISCONN`, `EINVAL`, `ENOENT`, `ENODEV`, `ENOMEM`, or what the firmware answered.
    pub(crate) fn connect(&self, peer: &Address, attr: Option<&ConnectAttr>) -> Result {
        let attr = attr.copied().unwrap_or_default();
        let attr = bindings::mlx5_ulp_connect_attr {
            gid_index: raw_gid_index(attr.gid_index),
            timeout: attr.timeout,
            retry_count: attr.retry_count,
            rnr_retry: attr.rnr_retry,
            traffic_class: attr.traffic_class,
            max_reads: attr.max_reads,
            max_peer_reads: attr.max_peer_reads,
        };
        // SAFETY: By the type invariant the queue exists; the rest is valid.
        to_result(unsafe { bindings::mlx5_ulp_queue_connect(self.as_ptr(), peer, &attr) })
    }

    /// `mlx5_ulp_queue_connect_verbs()`: by attributes of the verbs interface, of which `mask` says (of
    /// `enum ib_qp_attr_mask`) what is valid. For who does connection management of his own. May sleep.
    ///
    /// # Errors
    ///
    /// `EISCONN`, `EINVAL` for values out of range, attributes that are missing, or an address that is not RoCE v2 from
    /// this very device, `ENODEV`, `ENOMEM`, or what the firmware answered.
    ///
    /// # Safety
    ///
    /// `attr` must be valid, and with `IB_QP_AV` the GID attribute that the address names be null or valid.
    pub(crate) unsafe fn connect_verbs(
        &self,
        attr: *const bindings::ib_qp_attr,
        mask: c_int,
    ) -> Result {
        // SAFETY: By the type invariant the queue exists; the caller guarantees the rest.
        to_result(unsafe { bindings::mlx5_ulp_queue_connect_verbs(self.as_ptr(), attr, mask) })
    }
}
