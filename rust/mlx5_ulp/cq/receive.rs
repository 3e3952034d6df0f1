// SPDX-License-Identifier: GPL-2.0

//! Completion entries of receives.
//!
//! They come in the same completion queue as those of sends, one event for both, and are told from them by their
//! opcode: the way of sends does not ask about receives.

use super::{
    cqe::{
        Cqe,
        Opcode,
        Success,
        Tail, //
    },
    unusual::read, //
};
use crate::{
    hw::cq::CqCore,
    observe::trace,
    queue::{
        request::{
            deliver,
            Outcome, //
        },
        send::SendQueue, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// What a receive brought, beside its payload: of `enum mlx5_ulp_completion_flags`.
fn flags(opcode: Opcode) -> u8 {
    const IMM: u8 = bindings::mlx5_ulp_completion_flags_MLX5_ULP_WITH_IMM as u8;
    const INVALIDATE: u8 = bindings::mlx5_ulp_completion_flags_MLX5_ULP_WITH_INVALIDATE as u8;
    const WRITE: u8 = bindings::mlx5_ulp_completion_flags_MLX5_ULP_RECEIVED_WRITE as u8;
    match opcode {
        Opcode::RESP_WRITE_IMM => IMM | WRITE,
        Opcode::RESP_SEND_IMM => IMM,
        Opcode::RESP_SEND_INV => INVALIDATE,
        _ => 0,
    }
}

impl SendQueue {
    /// Takes the entry at this consumer counter, which says that a message has come.
    #[inline(never)]
    pub(super) fn take_receive(&self, ring: &CqCore, consumer: u32) {
        let entry = Cqe::decode(&read(ring, consumer));
        let Cqe::Success(Success {
            tail,
            imm,
            byte_cnt,
            ..
        }) = entry
        else {
            // The caller has seen its opcode; the device has changed it since.
            return self.completing.counters().invalid.add(1);
        };
        trace::completion(self.pci, tail.qpn, tail.wqe_counter, tail.opcode().0, 0);
        let Some((cookie, room)) = self.oldest_receive(&tail) else {
            return self.nonsense(&tail);
        };
        let mut completion = Outcome::Done.completion(self.context());
        let flags = flags(tail.opcode());
        let written = tail.opcode() == Opcode::RESP_WRITE_IMM;
        if byte_cnt > room && !written {
            // More than there was room for: the consumer must not look for it.
            self.nonsense(&tail);
            self.fail();
            completion.status = EIO.to_errno();
        } else {
            completion.flags = flags;
            completion.length = byte_cnt;
            match tail.opcode() {
                Opcode::RESP_SEND_INV => completion.invalidated_key = imm,
                Opcode::RESP_SEND => {}
                _ => completion.imm = imm,
            }
        }
        // SAFETY: The receive was in flight and has just been retired; it is never delivered again.
        unsafe { deliver(cookie, &completion) };
    }

    /// A receive has ended badly.
    pub(super) fn take_receive_error(&self, tail: &Tail, outcome: Outcome) {
        let Some((cookie, _)) = self.oldest_receive(tail) else {
            return self.nonsense(tail);
        };
        // No more posts before the consumer hears of it.
        self.fail();
        if let Outcome::Failed {
            syndrome,
            vendor_syndrome,
        } = outcome
        {
            pr_warn!(
                "queue {:#x}: receive {} failed: {} (syndrome {:#x}, vendor {:#x})\n",
                tail.qpn,
                tail.wqe_counter,
                syndrome.text(),
                syndrome.0,
                vendor_syndrome
            );
        }
        let completion = outcome.completion(self.context());
        // SAFETY: As in `take_receive`.
        unsafe { deliver(cookie, &completion) };
        // What waits for the doorbell is to be flushed by the device, too.
        self.flush();
    }

    /// Takes the oldest receive off the queue, if the entry with this tail is about it.
    fn oldest_receive(&self, tail: &Tail) -> Option<(usize, u32)> {
        if tail.qpn != self.completing.qpn() {
            return None;
        }
        self.receives.as_ref()?.retire(tail.wqe_counter)
    }
}
