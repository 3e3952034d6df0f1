// SPDX-License-Identifier: GPL-2.0

//! How a queue is made, and what it is known by.

use super::{
    bindings,
    Access, //
};
use kernel::prelude::*;

/// How to make a queue (`struct mlx5_ulp_queue_attr`).
#[derive(Clone, Copy)]
pub(crate) struct QueueAttr {
    /// Requests that may be in flight.
    pub(crate) depth: u32,
    /// Most data ranges of one request.
    pub(crate) max_sge: u32,
    /// Most bytes of payload in a request itself: of [`Local::Inline`](super::Local::Inline).
    pub(crate) max_inline: u32,
    /// Receives that may wait for messages; 0 for none.
    pub(crate) max_recv_depth: u32,
    /// Most ranges of one receive.
    pub(crate) max_recv_sge: u32,
    /// Completion vector.
    pub(crate) vector: u32,
    /// What the peer may do through it.
    pub(crate) access: Access,
    /// Its name, by which [`Device::with_queue`](super::Device::with_queue) finds it.
    pub(crate) name: Option<Qid>,
    /// Where completions are heard of.
    pub(crate) completions: Completions,
    /// Whether there are registrations and invalidations.
    pub(crate) registers: bool,
}

/// Where completions of a queue are heard of (of `enum mlx5_ulp_queue_flags`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completions {
    /// With softirqs off.
    Softirq,
    /// In process context, on a workqueue.
    Work,
    /// Where [`QueueRef::poll`](super::QueueRef::poll) is called.
    Polled,
}

impl Completions {
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Softirq => 0,
            Self::Work => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_WORK,
            Self::Polled => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_POLLED,
        }
    }
}

impl QueueAttr {
    /// For `depth` requests of one range each, no receives, nothing for the peer to do, no name.
    pub(crate) const fn new(depth: u32) -> Self {
        Self {
            depth,
            max_sge: 1,
            max_inline: 0,
            max_recv_depth: 0,
            max_recv_sge: 1,
            vector: 0,
            access: Access::LOCAL,
            name: None,
            completions: Completions::Softirq,
            registers: false,
        }
    }
}

/// The name of a queue (`mlx5_ulp_qid()`).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Qid(u32);

impl Qid {
    /// Of the function that the queue serves, 0 for the physical one, and the number that this knows it by.
    ///
    /// # Errors
    ///
    /// `EINVAL` for numbers out of range.
    pub(crate) fn new(vf_id: u8, local_qid: u32) -> Result<Self> {
        if u32::from(vf_id) > bindings::MLX5_ULP_MAX_VF_ID
            || local_qid > bindings::MLX5_ULP_MAX_LOCAL_QID
        {
            return Err(EINVAL);
        }
        Ok(Self(local_qid << 8 | u32::from(vf_id)))
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }
}
