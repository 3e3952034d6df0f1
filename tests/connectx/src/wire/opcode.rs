// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The BTH opcode: transport service and operation (IBTA 9.2.1, table 38).

/// Transport service, the upper three bits of the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
}

/// Operation, the lower five bits of the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastImm,
    SendOnly,
    SendOnlyImm,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastImm,
    WriteOnly,
    WriteOnlyImm,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    SendLastInv,
    SendOnlyInv,
    /// Masked compare and swap. Not part of the standard: carried in the manufacturer's opcode range.
    MaskedCompareSwap,
    /// Masked fetch and add, likewise.
    MaskedFetchAdd,
}

/// The five-bit operation codes that the standard defines.
const STANDARD: [(u8, Op); 23] = [
    (0x00, Op::SendFirst),
    (0x01, Op::SendMiddle),
    (0x02, Op::SendLast),
    (0x03, Op::SendLastImm),
    (0x04, Op::SendOnly),
    (0x05, Op::SendOnlyImm),
    (0x06, Op::WriteFirst),
    (0x07, Op::WriteMiddle),
    (0x08, Op::WriteLast),
    (0x09, Op::WriteLastImm),
    (0x0a, Op::WriteOnly),
    (0x0b, Op::WriteOnlyImm),
    (0x0c, Op::ReadRequest),
    (0x0d, Op::ReadResponseFirst),
    (0x0e, Op::ReadResponseMiddle),
    (0x0f, Op::ReadResponseLast),
    (0x10, Op::ReadResponseOnly),
    (0x11, Op::Acknowledge),
    (0x12, Op::AtomicAcknowledge),
    (0x13, Op::CompareSwap),
    (0x14, Op::FetchAdd),
    (0x16, Op::SendLastInv),
    (0x17, Op::SendOnlyInv),
];

/// Manufacturer's range (upper two bits set) of the opcode byte.
const MASKED_COMPARE_SWAP: u8 = 0xc0;
const MASKED_FETCH_ADD: u8 = 0xc1;

/// A whole opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode {
    pub transport: Transport,
    pub op: Op,
}

/// What ends a SEND or WRITE message besides its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    None,
    /// Immediate data; the responder completes a receive with it.
    Immediate,
    /// The responder invalidates one of its own memory keys.
    Invalidate,
}

/// The operation that a request packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    Send,
    Write,
    Read,
    Atomic,
}

/// A request packet's place in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub kind: RequestKind,
    pub first: bool,
    pub last: bool,
    pub tail: Tail,
}

impl Op {
    /// The operation of a SEND packet at this place of its message.
    pub fn send(first: bool, last: bool, tail: Tail) -> Self {
        match (first, last, tail) {
            (true, false, _) => Op::SendFirst,
            (false, false, _) => Op::SendMiddle,
            (false, true, Tail::None) => Op::SendLast,
            (false, true, Tail::Immediate) => Op::SendLastImm,
            (false, true, Tail::Invalidate) => Op::SendLastInv,
            (true, true, Tail::None) => Op::SendOnly,
            (true, true, Tail::Immediate) => Op::SendOnlyImm,
            (true, true, Tail::Invalidate) => Op::SendOnlyInv,
        }
    }

    /// The operation of a WRITE packet at this place of its message.
    pub fn write(first: bool, last: bool, immediate: bool) -> Self {
        match (first, last, immediate) {
            (true, false, _) => Op::WriteFirst,
            (false, false, _) => Op::WriteMiddle,
            (false, true, false) => Op::WriteLast,
            (false, true, true) => Op::WriteLastImm,
            (true, true, false) => Op::WriteOnly,
            (true, true, true) => Op::WriteOnlyImm,
        }
    }

    /// The operation of a READ response packet at this place of its message.
    pub fn read_response(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, false) => Op::ReadResponseFirst,
            (false, false) => Op::ReadResponseMiddle,
            (false, true) => Op::ReadResponseLast,
            (true, true) => Op::ReadResponseOnly,
        }
    }

    /// The request that this operation is part of; `None` for responses.
    pub fn request(self) -> Option<Request> {
        use RequestKind::{Atomic, Read, Send, Write};
        let (kind, first, last, tail) = match self {
            Op::SendFirst => (Send, true, false, Tail::None),
            Op::SendMiddle => (Send, false, false, Tail::None),
            Op::SendLast => (Send, false, true, Tail::None),
            Op::SendLastImm => (Send, false, true, Tail::Immediate),
            Op::SendLastInv => (Send, false, true, Tail::Invalidate),
            Op::SendOnly => (Send, true, true, Tail::None),
            Op::SendOnlyImm => (Send, true, true, Tail::Immediate),
            Op::SendOnlyInv => (Send, true, true, Tail::Invalidate),
            Op::WriteFirst => (Write, true, false, Tail::None),
            Op::WriteMiddle => (Write, false, false, Tail::None),
            Op::WriteLast => (Write, false, true, Tail::None),
            Op::WriteLastImm => (Write, false, true, Tail::Immediate),
            Op::WriteOnly => (Write, true, true, Tail::None),
            Op::WriteOnlyImm => (Write, true, true, Tail::Immediate),
            Op::ReadRequest => (Read, true, true, Tail::None),
            Op::CompareSwap | Op::FetchAdd | Op::MaskedCompareSwap | Op::MaskedFetchAdd => {
                (Atomic, true, true, Tail::None)
            }
            Op::ReadResponseFirst
            | Op::ReadResponseMiddle
            | Op::ReadResponseLast
            | Op::ReadResponseOnly
            | Op::Acknowledge
            | Op::AtomicAcknowledge => return None,
        };
        Some(Request {
            kind,
            first,
            last,
            tail,
        })
    }

    /// Does the packet carry an RDMA extended header?
    pub fn has_reth(self) -> bool {
        matches!(
            self,
            Op::WriteFirst | Op::WriteOnly | Op::WriteOnlyImm | Op::ReadRequest
        )
    }

    /// Does the packet carry an atomic extended header? The masked forms carry two more operands.
    pub fn has_atomic_eth(self) -> bool {
        matches!(self, Op::CompareSwap | Op::FetchAdd) || self.is_masked_atomic()
    }

    /// Is this one of the manufacturer's masked atomics?
    pub fn is_masked_atomic(self) -> bool {
        matches!(self, Op::MaskedCompareSwap | Op::MaskedFetchAdd)
    }

    /// Does the packet carry an acknowledge extended header?
    pub fn has_aeth(self) -> bool {
        matches!(
            self,
            Op::ReadResponseFirst
                | Op::ReadResponseLast
                | Op::ReadResponseOnly
                | Op::Acknowledge
                | Op::AtomicAcknowledge
        )
    }

    /// Does the packet carry immediate data?
    pub fn has_immediate(self) -> bool {
        self.request().is_some_and(|r| r.tail == Tail::Immediate)
    }

    /// Does the packet carry a key to invalidate?
    pub fn has_ieth(self) -> bool {
        self.request().is_some_and(|r| r.tail == Tail::Invalidate)
    }
}

impl Opcode {
    /// The operation `op` of the reliable connection service.
    pub fn rc(op: Op) -> Self {
        Opcode {
            transport: Transport::Rc,
            op,
        }
    }

    /// Does the packet name a shared receive queue? Each request of the extended reliable connection does.
    pub fn has_xrceth(self) -> bool {
        self.transport == Transport::Xrc && self.op.request().is_some()
    }

    /// The byte on the wire.
    pub fn to_byte(self) -> u8 {
        match self.op {
            Op::MaskedCompareSwap => return MASKED_COMPARE_SWAP,
            Op::MaskedFetchAdd => return MASKED_FETCH_ADD,
            _ => {}
        }
        let transport = match self.transport {
            Transport::Rc => 0x00,
            Transport::Uc => 0x20,
            Transport::Ud => 0x60,
            Transport::Xrc => 0xa0,
        };
        let low = STANDARD
            .iter()
            .find(|(_, op)| *op == self.op)
            .map_or(0, |(byte, _)| *byte);
        transport | low
    }

    /// The opcode of a byte from the wire; `None` for what this device does not speak.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            MASKED_COMPARE_SWAP => return Some(Opcode::rc(Op::MaskedCompareSwap)),
            MASKED_FETCH_ADD => return Some(Opcode::rc(Op::MaskedFetchAdd)),
            _ => {}
        }
        let transport = match byte >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            3 => Transport::Ud,
            5 => Transport::Xrc,
            _ => return None,
        };
        let op = STANDARD
            .iter()
            .find(|(low, _)| *low == byte & 0x1f)
            .map(|(_, op)| *op)?;
        let allowed = match transport {
            Transport::Rc | Transport::Xrc => true,
            // Sends and writes only, nothing that is answered.
            Transport::Uc => op.request().is_some_and(|r| {
                matches!(r.kind, RequestKind::Send | RequestKind::Write)
                    && r.tail != Tail::Invalidate
            }),
            Transport::Ud => matches!(op, Op::SendOnly | Op::SendOnlyImm),
        };
        allowed.then_some(Opcode { transport, op })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_parses_builds_the_same_byte() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            if let Some(opcode) = Opcode::from_byte(byte) {
                assert_eq!(opcode.to_byte(), byte, "{opcode:?}");
                known += 1;
            }
        }
        // RC and XRC: all; UC: sends and writes without the two invalidates; UD: two; and two masked atomics.
        assert_eq!(known, 2 * 23 + 12 + 2 + 2);
    }

    #[test]
    fn positions_survive_a_round_trip() {
        for first in [false, true] {
            for last in [false, true] {
                let r = Op::send(first, last, Tail::None).request();
                assert_eq!(r.map(|r| (r.first, r.last)), Some((first, last)));
                let w = Op::write(first, last, false).request();
                assert_eq!(w.map(|w| (w.first, w.last)), Some((first, last)));
                assert_eq!(Op::read_response(first, last).request(), None);
            }
        }
    }
}
