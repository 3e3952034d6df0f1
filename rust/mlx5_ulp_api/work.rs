// SPDX-License-Identifier: GPL-2.0

//! Requests of any kind.

use super::{
    bindings,
    Done,
    Flags,
    Request, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A range of local memory (`struct mlx5_ulp_sge`): address in the key, bytes, key.
pub(crate) type Range = bindings::mlx5_ulp_sge;

/// What a request does (`enum mlx5_ulp_opcode`).
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    /// Local ranges to the peer's memory.
    Write,
    /// The peer's memory to local ranges.
    Read,
    /// The 8 bytes at the peer become `swap` if they are `compare`; what they were goes to the local range.
    CompareSwap {
        /// The value that is expected.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// `add` is added to the 8 bytes at the peer; what they were goes to the local range.
    FetchAdd {
        /// The addend.
        add: u64,
    },
}

/// One request of any kind (`struct mlx5_ulp_work`).
pub(crate) struct Work<'a, T> {
    /// Told when it has ended.
    pub(crate) request: &'a Arc<Request<T>>,
    /// What it does.
    pub(crate) operation: Operation,
    /// Local ranges.
    pub(crate) ranges: &'a [Range],
    /// First address at the peer.
    pub(crate) remote_addr: u64,
    /// The peer's key.
    pub(crate) rkey: u32,
    /// How to post.
    pub(crate) flags: Flags,
}

impl<T: Done> Work<'_, T> {
    /// As the C interface takes it. Takes a reference to the request, which the completion gives back.
    pub(super) fn into_raw(&self) -> bindings::mlx5_ulp_work {
        let (opcode, operand, compare) = match self.operation {
            Operation::Write => (bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE, 0, 0),
            Operation::Read => (bindings::mlx5_ulp_opcode_MLX5_ULP_OP_READ, 0, 0),
            Operation::CompareSwap { compare, swap } => {
                let opcode = bindings::mlx5_ulp_opcode_MLX5_ULP_OP_COMPARE_SWAP;
                (opcode, swap, compare)
            }
            Operation::FetchAdd { add } => {
                (bindings::mlx5_ulp_opcode_MLX5_ULP_OP_FETCH_ADD, add, 0)
            }
        };
        bindings::mlx5_ulp_work {
            request: Request::into_raw(self.request),
            sge: self.ranges.as_ptr(),
            num_sge: self.ranges.len() as u32,
            flags: self.flags.bits(),
            remote_addr: self.remote_addr,
            rkey: self.rkey,
            opcode,
            operand,
            compare,
        }
    }
}
