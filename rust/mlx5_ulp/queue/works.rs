// SPDX-License-Identifier: GPL-2.0

//! Posting requests of any kind.
//!
//! Beside the ways of [`super::post`], which are for WRITEs and short: here the opcode says what segments a WQE
//! has. Both write to the same ring under the same lock, and number their requests by the same counter.

use super::{
    credit::{
        Handle,
        Way, //
    },
    encode::{
        fence,
        ranges,
        remote,
        Control,
        Cursor, //
    },
    poster::Poster,
    request::flags,
    send::SendQueue,
    shape::Shape, //
};
use crate::{
    errno::eopnotsupp,
    wqe::{
        atomic::Atomic,
        opcode::Opcode, //
    }, //
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Bytes that an atomic changes, and an address of them is a multiple of.
const ATOMIC_BYTES: u32 = 8;

/// What the local ranges of a request are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Local {
    /// They are read; the payload may be in the WQE itself.
    Source,
    /// They are written.
    Destination,
}

/// What an opcode of `enum mlx5_ulp_opcode` makes of a request.
struct Kind {
    opcode: Opcode,
    local: Local,
    /// Immediate data, or a key.
    imm: u32,
    /// Operands of an atomic.
    operands: Option<Atomic>,
    /// Most local ranges, beside what the queue was made for.
    max_sge: u32,
}

/// The device's opcode for an opcode of `enum mlx5_ulp_opcode`; `None` if it does not exist.
fn opcode(work: &bindings::mlx5_ulp_work) -> Option<Opcode> {
    Some(match work.opcode {
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE => Opcode::RDMA_WRITE,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_READ => Opcode::RDMA_READ,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_COMPARE_SWAP => Opcode::ATOMIC_CS,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_FETCH_ADD => Opcode::ATOMIC_FA,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE_IMM => Opcode::RDMA_WRITE_IMM,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND => Opcode::SEND,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND_IMM => Opcode::SEND_IMM,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_SEND_INV => Opcode::SEND_INVAL,
        bindings::mlx5_ulp_opcode_MLX5_ULP_OP_REGISTER
        | bindings::mlx5_ulp_opcode_MLX5_ULP_OP_INVALIDATE => Opcode::UMR,
        _ => return None,
    })
}

impl Kind {
    /// # Errors
    ///
    /// `EINVAL` for an opcode that does not exist.
    fn of(work: &bindings::mlx5_ulp_work) -> Result<Self> {
        let opcode = opcode(work).ok_or(EINVAL)?;
        let (local, imm, compare, max_sge) = match opcode {
            Opcode::RDMA_READ => (Local::Destination, 0, None, Shape::MAX_READ_SGE),
            Opcode::ATOMIC_CS => (Local::Destination, 0, Some(work.compare), 1),
            Opcode::ATOMIC_FA => (Local::Destination, 0, Some(0), 1),
            Opcode::RDMA_WRITE | Opcode::SEND => (Local::Source, 0, None, Shape::MAX_SGE),
            Opcode::RDMA_WRITE_IMM | Opcode::SEND_IMM => {
                (Local::Source, work.imm, None, Shape::MAX_SGE)
            }
            Opcode::SEND_INVAL => (Local::Source, work.invalidate_key, None, Shape::MAX_SGE),
            _ => return Err(EINVAL),
        };
        Ok(Self {
            opcode,
            local,
            imm,
            operands: compare.map(|compare| Atomic {
                swap_add: work.operand,
                compare,
            }),
            max_sge,
        })
    }
}

impl SendQueue {
    /// Posts a chain of requests of any kind, all or none, and rings as the policy says.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_post()` in `<mlx5_ulp.h>`. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`], for each of `works`; the region of a registration must exist.
    pub(crate) unsafe fn post_works(
        &self,
        handle: Handle,
        works: &[bindings::mlx5_ulp_work],
    ) -> Result {
        if works.is_empty() {
            return Ok(());
        }
        let count = works.len() as u32;
        // SAFETY: As in `post_write`.
        let mut guard = unsafe { self.poster.take(handle) };
        let Ok(first) = self.credit.reserve(handle, Way::Any, count) else {
            return Err(self.refused(handle, count));
        };
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_works_at(handle, &mut guard, first, works) }
    }

    /// Posts a chain of any kind, for which there is room, from request number `first` on.
    ///
    /// # Errors
    ///
    /// Those of [`SendQueue::encode_work`]. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_works`].
    pub(super) unsafe fn post_works_at(
        &self,
        handle: Handle,
        poster: &mut Poster,
        first: u32,
        works: &[bindings::mlx5_ulp_work],
    ) -> Result {
        let Some(last) = works.last() else {
            return Ok(());
        };
        let mut at = Cursor::new(poster, first);
        poster.prefetch();
        for work in works {
            // SAFETY: Guaranteed by the caller.
            unsafe { self.encode_work(poster, &mut at, work)? };
        }
        for opcode in works.iter().filter_map(opcode) {
            self.post_counters.opcode(opcode);
        }
        self.finish_any(handle, poster, &at, first, last.flags);
        Ok(())
    }

    /// Writes a request of any kind at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an opcode or flags that do not exist or do not go together, `EMSGSIZE` if it does not fit
    /// the queue's shape, `EOPNOTSUPP` for an atomic on a device without.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    unsafe fn encode_work(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        work: &bindings::mlx5_ulp_work,
    ) -> Result {
        if work.flags & !(flags::ALL | flags::SOLICITED) != 0 {
            return Err(EINVAL);
        }
        const REGISTER: u32 = bindings::mlx5_ulp_opcode_MLX5_ULP_OP_REGISTER;
        const INVALIDATE: u32 = bindings::mlx5_ulp_opcode_MLX5_ULP_OP_INVALIDATE;
        match work.opcode {
            // SAFETY: Guaranteed by the caller.
            REGISTER => return unsafe { self.encode_register(poster, at, work) },
            INVALIDATE => return self.encode_invalidate(poster, at, work),
            _ => {}
        }
        let kind = Kind::of(work)?;
        if work.num_sge > kind.max_sge {
            return Err(EMSGSIZE);
        }
        // SAFETY: The caller guarantees the ranges.
        let ranges = unsafe { ranges(work.sge, work.num_sge) };
        let (second, mut head) = if kind.opcode.has_remote_address() {
            let remote = remote(work.remote_addr, work.rkey);
            (Some(remote.encode()), Shape::HEAD_DS)
        } else {
            (None, 1)
        };
        if let Some(operands) = kind.operands {
            if !self.atomics {
                return Err(eopnotsupp());
            }
            let whole = matches!(ranges, [range] if range.length == ATOMIC_BYTES);
            if !whole || work.remote_addr % u64::from(ATOMIC_BYTES) != 0 {
                return Err(EINVAL);
            }
            poster.slots.store(at.block, head, operands.encode());
            head = head.wrapping_add(1);
        }
        let (ds, bytes) = if work.flags & flags::INLINE == 0 {
            self.encode_ranges(poster, at.block, head, ranges)?
        } else if kind.local == Local::Source {
            // SAFETY: The caller guarantees that they are readable.
            unsafe { self.encode_inline(poster, at.block, head, ranges)? }
        } else {
            return Err(EINVAL);
        };
        let control = Control {
            opcode: kind.opcode,
            imm: kind.imm,
            ds,
            bytes,
            fence: fence(work.flags),
            registers: false,
        };
        self.finish_wqe(poster, at, &control, second, work.flags, work.request);
        Ok(())
    }
}
