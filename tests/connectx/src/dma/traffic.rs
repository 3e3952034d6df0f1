// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What accesses are for, and the count of them.

use serde::Serialize;

/// What an access is for; accesses are counted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Command queue entries and mailboxes.
    Command,
    /// Pages that the driver gave to the firmware.
    FirmwarePage,
    /// Event queue entries.
    Eqe,
    /// Completion queue entries.
    Cqe,
    /// Doorbell records of queues.
    DoorbellRecord,
    /// Send queue WQEs.
    WqeFetch,
    /// Receive queue and shared receive queue WQEs.
    RecvWqeFetch,
    /// Translation entries read on behalf of a UMR WQE.
    Translation,
    /// Message payload and network frames.
    Payload,
    /// Operands of remote atomics.
    Atomic,
}

impl Kind {
    /// Every kind, in the order of the counters.
    pub const ALL: [Kind; 10] = [
        Kind::Command,
        Kind::FirmwarePage,
        Kind::Eqe,
        Kind::Cqe,
        Kind::DoorbellRecord,
        Kind::WqeFetch,
        Kind::RecvWqeFetch,
        Kind::Translation,
        Kind::Payload,
        Kind::Atomic,
    ];

    /// Name in the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::FirmwarePage => "firmware_page",
            Kind::Eqe => "eqe",
            Kind::Cqe => "cqe",
            Kind::DoorbellRecord => "doorbell_record",
            Kind::WqeFetch => "wqe_fetch",
            Kind::RecvWqeFetch => "recv_wqe_fetch",
            Kind::Translation => "translation",
            Kind::Payload => "payload",
            Kind::Atomic => "atomic",
        }
    }
}

/// Accesses of one kind and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Number of accesses.
    pub accesses: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// 64-byte cache lines touched, counted per access.
    pub lines: u64,
}

impl Traffic {
    pub(super) fn add(&mut self, addr: u64, len: usize) {
        let len = len as u64;
        self.accesses += 1;
        self.bytes += len;
        if len > 0 {
            self.lines += (addr.saturating_add(len - 1) >> 6) - (addr >> 6) + 1;
        }
    }
}
