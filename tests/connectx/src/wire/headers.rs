// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Transport headers: the base header and the extended headers that follow it (IBTA 9.2 to 9.3).

use super::opcode::{Op, Opcode, Transport};
use super::MASK_24;

/// Base transport header, 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    pub opcode: Opcode,
    /// Solicited event: the responder's completion raises an event on a CQ armed for solicited ones.
    pub solicited: bool,
    /// Bytes of padding after the payload, 0 to 3.
    pub pad: u8,
    pub pkey: u16,
    /// Destination QP number, 24 bits.
    pub dest_qp: u32,
    /// The requester wants this packet acknowledged.
    pub ack_req: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    pub const LEN: usize = 12;

    /// Appends the header. Path migration is reported as "migrated", the only state this device has.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.opcode.to_byte());
        out.push((u8::from(self.solicited) << 7) | (1 << 6) | ((self.pad & 3) << 4));
        out.extend(self.pkey.to_be_bytes());
        out.extend((self.dest_qp & MASK_24).to_be_bytes());
        out.extend(((u32::from(self.ack_req) << 31) | (self.psn & MASK_24)).to_be_bytes());
    }

    /// Takes the header off the front of `bytes`; `None` if it is cut short or speaks a foreign opcode or version.
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let [op, flags] = take_array(bytes)?;
        let pkey = u16::from_be_bytes(take_array(bytes)?);
        let dest = u32::from_be_bytes(take_array(bytes)?);
        let psn = u32::from_be_bytes(take_array(bytes)?);
        if flags & 0xf != 0 {
            return None;
        }
        Some(Bth {
            opcode: Opcode::from_byte(op)?,
            solicited: flags & 0x80 != 0,
            pad: (flags >> 4) & 3,
            pkey,
            dest_qp: dest & MASK_24,
            ack_req: psn >> 31 != 0,
            psn: psn & MASK_24,
        })
    }
}

/// RDMA extended header: where a WRITE goes or what a READ wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    pub va: u64,
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub length: u32,
}

/// Atomic extended header.
///
/// The masks are on the wire only in the masked operations; otherwise they are all ones (compare and swap) or
/// zero (fetch and add: no field boundaries), which makes the plain operation a special case of the masked one.
/// In fetch and add, `swap_add_mask` holds the field boundaries: a set bit stops the carry above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    pub va: u64,
    pub rkey: u32,
    pub swap_add: u64,
    pub compare: u64,
    pub swap_add_mask: u64,
    pub compare_mask: u64,
}

impl AtomicEth {
    /// The masks that make the masked form of `op` behave like the plain one.
    pub fn plain_masks(op: Op) -> (u64, u64) {
        match op {
            Op::CompareSwap | Op::MaskedCompareSwap => (u64::MAX, u64::MAX),
            _ => (0, 0),
        }
    }
}

/// Datagram extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    pub qkey: u32,
    /// Source QP number, 24 bits.
    pub src_qp: u32,
}

/// Why a responder refuses (IBTA 9.7.5.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NakCode {
    PsnSequence,
    InvalidRequest,
    RemoteAccess,
    RemoteOperation,
}

/// The syndrome byte of an acknowledge header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckSyndrome {
    Ack,
    /// No receive was posted: try again after the time with this code (5 bits).
    RnrNak(u8),
    Nak(NakCode),
}

/// Acknowledge extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    pub syndrome: AckSyndrome,
    /// Message sequence number: messages completed by the responder, 24 bits.
    pub msn: u32,
}

/// "No end-to-end credit limit" in the credit field of an ACK; this device does not throttle by credits.
const CREDITS_INVALID: u8 = 0x1f;

impl Aeth {
    fn to_bytes(self) -> [u8; 4] {
        let syndrome = match self.syndrome {
            AckSyndrome::Ack => CREDITS_INVALID,
            AckSyndrome::RnrNak(timer) => 0x20 | (timer & 0x1f),
            AckSyndrome::Nak(code) => {
                0x60 | match code {
                    NakCode::PsnSequence => 0,
                    NakCode::InvalidRequest => 1,
                    NakCode::RemoteAccess => 2,
                    NakCode::RemoteOperation => 3,
                }
            }
        };
        ((u32::from(syndrome) << 24) | (self.msn & MASK_24)).to_be_bytes()
    }

    fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        let [syndrome, ..] = bytes;
        let syndrome = match syndrome & 0xe0 {
            0x00 => AckSyndrome::Ack,
            0x20 => AckSyndrome::RnrNak(syndrome & 0x1f),
            0x60 => AckSyndrome::Nak(match syndrome & 0x1f {
                0 => NakCode::PsnSequence,
                1 => NakCode::InvalidRequest,
                2 => NakCode::RemoteAccess,
                3 => NakCode::RemoteOperation,
                _ => return None,
            }),
            _ => return None,
        };
        Some(Aeth {
            syndrome,
            msn: u32::from_be_bytes(bytes) & MASK_24,
        })
    }
}

/// The extended headers of a packet. Which ones are present follows from the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    pub deth: Option<Deth>,
    /// Number of the shared receive queue that a request of an extended reliable connection is for.
    pub xrc_srq: Option<u32>,
    pub reth: Option<Reth>,
    pub atomic: Option<AtomicEth>,
    pub aeth: Option<Aeth>,
    /// Original value of an atomic, as a number.
    pub atomic_ack: Option<u64>,
    /// Immediate data as the four bytes on the wire.
    pub immediate: Option<[u8; 4]>,
    /// Key to invalidate.
    pub invalidate: Option<u32>,
}

impl Extensions {
    /// Appends the headers that `opcode` calls for, in wire order. A header that is called for but absent goes
    /// out as zeros: the length of the packet always fits its opcode.
    pub fn put(&self, opcode: Opcode, out: &mut Vec<u8>) {
        let op = opcode.op;
        if opcode.transport == Transport::Ud {
            let deth = self.deth.unwrap_or(Deth { qkey: 0, src_qp: 0 });
            out.extend(deth.qkey.to_be_bytes());
            out.extend((deth.src_qp & MASK_24).to_be_bytes());
        }
        if opcode.has_xrceth() {
            out.extend((self.xrc_srq.unwrap_or(0) & MASK_24).to_be_bytes());
        }
        if op.has_reth() {
            let reth = self.reth.unwrap_or_default();
            out.extend(reth.va.to_be_bytes());
            out.extend(reth.rkey.to_be_bytes());
            out.extend(reth.length.to_be_bytes());
        }
        if op.has_atomic_eth() {
            let a = self.atomic.unwrap_or(AtomicEth {
                va: 0,
                rkey: 0,
                swap_add: 0,
                compare: 0,
                swap_add_mask: 0,
                compare_mask: 0,
            });
            out.extend(a.va.to_be_bytes());
            out.extend(a.rkey.to_be_bytes());
            out.extend(a.swap_add.to_be_bytes());
            out.extend(a.compare.to_be_bytes());
            if op.is_masked_atomic() {
                out.extend(a.swap_add_mask.to_be_bytes());
                out.extend(a.compare_mask.to_be_bytes());
            }
        }
        if op.has_aeth() {
            out.extend(self.aeth.map_or([0; 4], Aeth::to_bytes));
        }
        if op == Op::AtomicAcknowledge {
            out.extend(self.atomic_ack.unwrap_or(0).to_be_bytes());
        }
        if op.has_immediate() {
            out.extend(self.immediate.unwrap_or([0; 4]));
        }
        if op.has_ieth() {
            out.extend(self.invalidate.unwrap_or(0).to_be_bytes());
        }
    }

    /// Takes the headers that `opcode` calls for off the front of `bytes`; `None` if they are cut short or senseless.
    pub fn take(opcode: Opcode, bytes: &mut &[u8]) -> Option<Self> {
        let op = opcode.op;
        let mut ext = Extensions::default();
        if opcode.transport == Transport::Ud {
            ext.deth = Some(Deth {
                qkey: u32::from_be_bytes(take_array(bytes)?),
                src_qp: u32::from_be_bytes(take_array(bytes)?) & MASK_24,
            });
        }
        if opcode.has_xrceth() {
            ext.xrc_srq = Some(u32::from_be_bytes(take_array(bytes)?) & MASK_24);
        }
        if op.has_reth() {
            ext.reth = Some(Reth {
                va: u64::from_be_bytes(take_array(bytes)?),
                rkey: u32::from_be_bytes(take_array(bytes)?),
                length: u32::from_be_bytes(take_array(bytes)?),
            });
        }
        if op.has_atomic_eth() {
            let va = u64::from_be_bytes(take_array(bytes)?);
            let rkey = u32::from_be_bytes(take_array(bytes)?);
            let swap_add = u64::from_be_bytes(take_array(bytes)?);
            let compare = u64::from_be_bytes(take_array(bytes)?);
            let (swap_add_mask, compare_mask) = if op.is_masked_atomic() {
                (
                    u64::from_be_bytes(take_array(bytes)?),
                    u64::from_be_bytes(take_array(bytes)?),
                )
            } else {
                AtomicEth::plain_masks(op)
            };
            ext.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_add,
                compare,
                swap_add_mask,
                compare_mask,
            });
        }
        if op.has_aeth() {
            ext.aeth = Some(Aeth::from_bytes(take_array(bytes)?)?);
        }
        if op == Op::AtomicAcknowledge {
            ext.atomic_ack = Some(u64::from_be_bytes(take_array(bytes)?));
        }
        if op.has_immediate() {
            ext.immediate = Some(take_array(bytes)?);
        }
        if op.has_ieth() {
            ext.invalidate = Some(u32::from_be_bytes(take_array(bytes)?));
        }
        Some(ext)
    }
}

/// Takes `N` bytes off the front of `bytes`.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledge_syndromes_round_trip() {
        let all = [
            AckSyndrome::Ack,
            AckSyndrome::RnrNak(0),
            AckSyndrome::RnrNak(31),
            AckSyndrome::Nak(NakCode::PsnSequence),
            AckSyndrome::Nak(NakCode::InvalidRequest),
            AckSyndrome::Nak(NakCode::RemoteAccess),
            AckSyndrome::Nak(NakCode::RemoteOperation),
        ];
        for syndrome in all {
            let aeth = Aeth {
                syndrome,
                msn: 0x12_3456,
            };
            assert_eq!(Aeth::from_bytes(aeth.to_bytes()), Some(aeth));
        }
        assert_eq!(Aeth::from_bytes([0x64, 0, 0, 0]), None);
        assert_eq!(Aeth::from_bytes([0x40, 0, 0, 0]), None);
    }

    #[test]
    fn base_header_layout() {
        let bth = Bth {
            opcode: Opcode::rc(Op::WriteOnly),
            solicited: true,
            pad: 3,
            pkey: 0xffff,
            dest_qp: 0x01_0203,
            ack_req: true,
            psn: 0xab_cdef,
        };
        let mut out = Vec::new();
        bth.put(&mut out);
        assert_eq!(
            out,
            [0x0a, 0xf0, 0xff, 0xff, 0, 1, 2, 3, 0x80, 0xab, 0xcd, 0xef]
        );
        assert_eq!(Bth::take(&mut out.as_slice()), Some(bth));
    }
}
