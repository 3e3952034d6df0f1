// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A send WQE taken apart: what the requester has to do.
//!
//! [`decode`] takes it apart: the bytes come from a ring that the guest fills, so every sequence of bytes has an answer.

mod decode;
pub mod reserved;

use crate::mkey::context::CONTEXT_LEN as MKEY_LEN;
use crate::wire::Tail;
use crate::wqe::av::AddressVector;
use crate::wqe::ctrl::Fence;
use crate::wqe::opcode::Opcode;
use crate::wqe::rdma::RemoteAddr;
use crate::wqe::umr::UmrCtrl;

/// Why a WQE cannot be executed. The number is the vendor syndrome of the error completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Malformed {
    /// An opcode that the service does not have.
    Opcode = 0x71,
    /// Segments are cut short, or too many.
    Segments = 0x72,
    /// The control segment names another queue pair or another place in the ring.
    Control = 0x73,
    /// A fence mode that means nothing.
    Fence = 0x74,
    /// An operand of an atomic that is not 8 bytes long.
    Operand = 0x76,
    /// An address vector that is cut short.
    Address = 0x77,
}

/// A piece of a message in local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Bytes of the WQE itself: where they start in it, and how many.
    Inline { at: usize, len: usize },
    /// Memory under a local key.
    Pointer { len: u64, lkey: u32, addr: u64 },
}

impl Piece {
    /// Bytes of the piece.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Inline { len, .. } => *len as u64,
            Piece::Pointer { len, .. } => *len,
        }
    }

    /// Does the piece hold nothing?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The local side of a message: gathered when sent, scattered to when read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pieces {
    pub pieces: Vec<Piece>,
    /// Bytes in all.
    pub len: u64,
}

/// Operands of an atomic; see [`crate::wire::AtomicEth`] for what the masks mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operands {
    pub op: crate::wire::Op,
    pub swap_add: u64,
    pub compare: u64,
    pub swap_add_mask: u64,
    pub compare_mask: u64,
}

/// What a WQE asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    Nop,
    Send {
        tail: Tail,
        /// Immediate data or key to invalidate.
        immediate: u32,
        data: Pieces,
    },
    Datagram {
        to: AddressVector,
        immediate: Option<u32>,
        data: Pieces,
    },
    Write {
        to: RemoteAddr,
        immediate: Option<u32>,
        data: Pieces,
    },
    Read {
        from: RemoteAddr,
        data: Pieces,
    },
    Atomic {
        at: RemoteAddr,
        operands: Operands,
        /// Where the old value goes.
        data: Pieces,
    },
    Umr {
        /// Key to change.
        key: u32,
        ctrl: UmrCtrl,
        segment: Box<[u8; MKEY_LEN]>,
        /// Translation entries.
        entries: Pieces,
    },
}

/// A WQE in execution.
#[derive(Clone, Debug)]
pub struct Work {
    /// Index of its first basic block, modulo 65536.
    pub index: u16,
    /// Basic blocks that it occupies.
    pub blocks: u16,
    pub opcode: Opcode,
    /// Completes with an entry even if it succeeds.
    pub signaled: bool,
    /// The entry counts as solicited on this side.
    pub local_event: bool,
    /// The peer's completion counts as solicited.
    pub solicited: bool,
    pub fence: Fence,
    /// Shared receive queue of the peer, on an extended reliable connection.
    pub xrc_srq: Option<u32>,
    pub task: Task,
    /// The WQE's bytes, for inline data.
    pub bytes: Vec<u8>,
}

impl Task {
    /// Local memory of the task and its length.
    pub fn data(&self) -> Option<&Pieces> {
        match self {
            Task::Nop => None,
            Task::Send { data, .. }
            | Task::Datagram { data, .. }
            | Task::Write { data, .. }
            | Task::Read { data, .. }
            | Task::Atomic { data, .. } => Some(data),
            Task::Umr { entries, .. } => Some(entries),
        }
    }

    /// Is the answer more than an acknowledgment?
    pub fn is_read_or_atomic(&self) -> bool {
        matches!(self, Task::Read { .. } | Task::Atomic { .. })
    }

    /// Is it carried out without a packet?
    pub fn is_local(&self) -> bool {
        matches!(self, Task::Nop | Task::Umr { .. })
    }
}
