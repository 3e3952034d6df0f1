// SPDX-License-Identifier: GPL-2.0

//! Requests of any kind.

use super::{
    bindings,
    Done,
    Flags,
    Local,
    Range,
    Registration,
    Request, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a request does (`enum mlx5_ulp_opcode`).
#[derive(Clone, Copy)]
pub(crate) enum Operation<'a> {
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
    /// As a WRITE; then a receive of the peer completes with this number.
    WriteImm(u32),
    /// Local ranges to the next receive of the peer.
    Send,
    /// Likewise, with a number.
    SendImm(u32),
    /// Likewise, and invalidates a key of the peer.
    SendInvalidate(u32),
    /// A fast region's key becomes valid: see [`FastRegion::register`](super::FastRegion::register).
    Register(Registration<'a>),
    /// A key of a fast region of ours becomes useless.
    Invalidate(u32),
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
    pub(crate) operation: Operation<'a>,
    /// What it reads or writes here.
    pub(crate) local: Local<'a>,
    /// First address at the peer.
    pub(crate) remote_addr: u64,
    /// The peer's key.
    pub(crate) rkey: u32,
    /// How to post.
    pub(crate) flags: Flags,
}

impl<T: Done> Work<'_, T> {
    /// As the C interface takes it, valid as long as `self`. Takes a reference to the request, which the completion gives
    /// back.
    pub(super) fn to_raw(&self) -> bindings::mlx5_ulp_work {
        let (mut operand, mut compare, mut imm, mut invalidate_key) = (0, 0, 0, 0);
        let (mut region, mut access) = (core::ptr::null_mut(), 0);
        let opcode = match self.operation {
            Operation::Write => bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE,
            Operation::Read => bindings::mlx5_ulp_opcode_MLX5_ULP_OP_READ,
            Operation::WriteImm(number) => {
                imm = number;
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE_IMM
            }
            Operation::Send => bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND,
            Operation::SendImm(number) => {
                imm = number;
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND_IMM
            }
            Operation::SendInvalidate(key) => {
                invalidate_key = key;
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND_INV
            }
            Operation::CompareSwap {
                compare: expected,
                swap,
            } => {
                (operand, compare) = (swap, expected);
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_COMPARE_SWAP
            }
            Operation::Register(registration) => {
                (region, access) = (registration.region, registration.access.bits());
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_REGISTER
            }
            Operation::Invalidate(key) => {
                invalidate_key = key;
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_INVALIDATE
            }
            Operation::FetchAdd { add } => {
                operand = add;
                bindings::mlx5_ulp_opcode_MLX5_ULP_OP_FETCH_ADD
            }
        };
        let (sge, num_sge, inline) = self.local.raw();
        bindings::mlx5_ulp_work {
            request: Request::into_raw(self.request),
            sge,
            num_sge,
            flags: self.flags.bits() | inline,
            remote_addr: self.remote_addr,
            rkey: self.rkey,
            opcode,
            operand,
            compare,
            imm,
            invalidate_key,
            region,
            access,
        }
    }
}

/// Room for one message (`struct mlx5_ulp_receive`).
pub(crate) struct Receive<'a, T> {
    /// Told when it has come.
    pub(crate) request: &'a Arc<Request<T>>,
    /// Local ranges.
    pub(crate) ranges: &'a [Range<'a>],
}

impl<T: Done> Receive<'_, T> {
    /// As [`Work::to_raw`].
    pub(super) fn to_raw(&self) -> bindings::mlx5_ulp_receive {
        bindings::mlx5_ulp_receive {
            request: Request::into_raw(self.request),
            // A range is a `struct mlx5_ulp_sge` and nothing else.
            sge: self.ranges.as_ptr().cast(),
            num_sge: self.ranges.len() as u32,
        }
    }
}
