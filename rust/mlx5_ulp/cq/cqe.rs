// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion queue entries of 64 bytes (`struct mlx5_cqe64`, `struct mlx5_err_cqe`).
//!
//! The last byte, `op_own`, says what the entry is and whose: the HCA writes it last. An entry at
//! consumer counter `ci` of a queue with `1 << log_size` entries is ready when its owner bit equals
//! bit `log_size` of `ci` and its opcode is not [`Opcode::INVALID`].

use super::be;
use super::syndrome::Syndrome;

/// Bytes of an entry.
pub const SIZE: usize = 64;

/// Byte where [`Tail`] starts.
pub const TAIL: usize = 0x38;

/// `op_own` of an entry that the HCA has not written yet: invalid, owner 0.
pub const OP_OWN_INIT: u8 = 0xf0;

/// What an entry is (`MLX5_CQE_*`, four bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A send WQE was carried out.
    pub const REQ: Opcode = Opcode(0);
    /// A receive was consumed by RDMA WRITE with immediate.
    pub const RESP_WRITE_IMM: Opcode = Opcode(1);
    /// A receive was filled by SEND.
    pub const RESP_SEND: Opcode = Opcode(2);
    /// A receive was filled by SEND with immediate.
    pub const RESP_SEND_IMM: Opcode = Opcode(3);
    /// A receive was filled by SEND with invalidate.
    pub const RESP_SEND_INV: Opcode = Opcode(4);
    /// Last entry before the queue moved to another buffer.
    pub const RESIZE: Opcode = Opcode(5);
    /// A signature check failed.
    pub const SIG_ERR: Opcode = Opcode(12);
    /// A send WQE failed.
    pub const REQ_ERR: Opcode = Opcode(13);
    /// A receive failed.
    pub const RESP_ERR: Opcode = Opcode(14);
    /// Not written by the HCA.
    pub const INVALID: Opcode = Opcode(15);

    /// Whether the entry reports a failure of a work request.
    #[inline(always)]
    pub const fn is_error(self) -> bool {
        matches!(self, Opcode::REQ_ERR | Opcode::RESP_ERR)
    }
}

/// Whether an entry with this `op_own` is about a receive, and no error.
#[inline(always)]
pub const fn is_receive(op_own: u8) -> bool {
    let opcode = op_own >> 4;
    Opcode::RESP_WRITE_IMM.0 <= opcode && opcode <= Opcode::RESP_SEND_INV.0
}

/// Whether an entry with this `op_own` is ready for the consumer at counter `ci`.
#[inline(always)]
pub const fn ready(op_own: u8, ci: u32, log_size: u8) -> bool {
    (op_own as u32 ^ (ci >> (log_size & 31))) & 1 == 0 && op_own >> 4 != Opcode::INVALID.0
}

/// Whether an entry with this `op_own` says that a send WQE was carried out, and nothing else but perhaps that
/// it is a solicited one, which no driver in the kernel looks at.
#[inline(always)]
pub const fn is_plain(op_own: u8) -> bool {
    op_own & !3 == Opcode::REQ.0 << 4
}

/// The owner bit of an entry that the HCA writes at producer counter `pi`.
#[inline(always)]
pub const fn owner(pi: u32, log_size: u8) -> bool {
    (pi >> (log_size & 31)) & 1 != 0
}

/// The last eight bytes: all that the completion of a WRITE needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Opcode of the send WQE, requester entries only.
    pub wqe_opcode: u8,
    /// The local QP, 24 bits.
    pub qpn: u32,
    /// Requester: index of the WQE's first basic block. Responder: counter of the receive.
    pub wqe_counter: u16,
    /// Checksum of the entry for queues that have it; 0 otherwise.
    pub signature: u8,
    /// Opcode in bits 7:4, format in 3:2, solicited in 1, owner in 0.
    pub op_own: u8,
}

impl Tail {
    /// The bytes as they stand in memory.
    #[inline(always)]
    pub fn encode(&self) -> [u8; 8] {
        let mut b = [0; 8];
        be::put32(
            &mut b,
            0,
            (u32::from(self.wqe_opcode) << 24) | (self.qpn & 0xff_ffff),
        );
        be::put16(&mut b, 4, self.wqe_counter);
        b[6] = self.signature;
        b[7] = self.op_own;
        b
    }

    /// Reads any eight bytes.
    #[inline(always)]
    pub const fn decode(b: &[u8; 8]) -> Tail {
        Tail {
            wqe_opcode: b[0],
            qpn: be::get32(b, 0) & 0xff_ffff,
            wqe_counter: be::get16(b, 4),
            signature: b[6],
            op_own: b[7],
        }
    }

    /// What the entry is.
    #[inline(always)]
    pub const fn opcode(&self) -> Opcode {
        Opcode(self.op_own >> 4)
    }

    /// Where the payload is: 0 not here, 1 in the first 32 bytes, 2 in a 64-byte entry before this one,
    /// 3 the entry starts a compressed block.
    #[inline(always)]
    pub const fn format(&self) -> u8 {
        (self.op_own >> 2) & 3
    }

    /// Whether the sender asked for an event.
    #[inline(always)]
    pub const fn solicited(&self) -> bool {
        self.op_own & 2 != 0
    }

    /// `op_own` for an entry that is written at producer counter `pi`.
    #[inline(always)]
    pub const fn op_own(opcode: Opcode, solicited: bool, pi: u32, log_size: u8) -> u8 {
        (opcode.0 << 4) | ((solicited as u8) << 1) | owner(pi, log_size) as u8
    }
}

/// What tells a plain success, and of which WQE, in the number that [`u64::from_be_bytes`] makes of a
/// [`Tail`]: the QP, the counter, and the last byte with opcode, format, solicited and owner.
pub const PLAIN_MASK: u64 = 0x00ff_ffff_ffff_00ff;

/// One in the counter of that number.
pub const PLAIN_STEP: u64 = 1 << 16;

/// What is under [`PLAIN_MASK`] when the send WQE at block `counter` of `qpn` was carried out, reported
/// by an entry of its own for the consumer at counter `ci`.
pub const fn plain(qpn: u32, counter: u16, ci: u32, log_size: u8) -> u64 {
    let op_own = Tail::op_own(Opcode::REQ, false, ci, log_size);
    (qpn as u64 & 0xff_ffff) << 32 | (counter as u64) << 16 | op_own as u64
}

/// A work request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success {
    /// Kind, QP and counter.
    pub tail: Tail,
    /// SRQ number or user index, 24 bits.
    pub srqn: u32,
    /// Immediate data or invalidated key (responder), a number in host order.
    pub imm: u32,
    /// Bytes received, or read by a READ.
    pub byte_cnt: u32,
    /// The device's free-running clock.
    pub timestamp: u64,
    /// Route flags in bits 31:24, source QP of datagrams in bits 23:0.
    pub flags_rqpn: u32,
    /// Source LID (InfiniBand).
    pub slid: u16,
    /// Destination path bits (InfiniBand).
    pub ml_path: u8,
}

/// A work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind, QP and counter.
    pub tail: Tail,
    /// SRQ number or user index, 24 bits.
    pub srqn: u32,
    /// Why.
    pub syndrome: Syndrome,
    /// Detail of the vendor, not documented.
    pub vendor_syndrome: u8,
}

/// A decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cqe {
    /// A work request was carried out ([`Opcode::REQ`] and the four responder kinds).
    Success(Success),
    /// A work request failed ([`Opcode::REQ_ERR`], [`Opcode::RESP_ERR`]).
    Failure(Failure),
    /// Anything else; only the last eight bytes are looked at.
    Other(Tail),
}

impl Success {
    /// The bytes as they stand in memory.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        b[0x11] = self.ml_path;
        be::put16(&mut b, 0x16, self.slid);
        be::put32(&mut b, 0x18, self.flags_rqpn);
        be::put32(&mut b, 0x20, self.srqn & 0xff_ffff);
        be::put32(&mut b, 0x24, self.imm);
        be::put32(&mut b, 0x2c, self.byte_cnt);
        be::put64(&mut b, 0x30, self.timestamp);
        b[TAIL..].copy_from_slice(&self.tail.encode());
        b
    }
}

impl Failure {
    /// The bytes as they stand in memory.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        be::put32(&mut b, 0x20, self.srqn & 0xff_ffff);
        b[0x36] = self.vendor_syndrome;
        b[0x37] = self.syndrome.0;
        b[TAIL..].copy_from_slice(&self.tail.encode());
        b
    }
}

impl Cqe {
    /// Reads any 64 bytes.
    pub const fn decode(b: &[u8; SIZE]) -> Cqe {
        let tail = Tail::decode(&be::get64(b, TAIL).to_be_bytes());
        match tail.opcode() {
            Opcode::REQ
            | Opcode::RESP_WRITE_IMM
            | Opcode::RESP_SEND
            | Opcode::RESP_SEND_IMM
            | Opcode::RESP_SEND_INV => Cqe::Success(Success {
                tail,
                srqn: be::get32(b, 0x20) & 0xff_ffff,
                imm: be::get32(b, 0x24),
                byte_cnt: be::get32(b, 0x2c),
                timestamp: be::get64(b, 0x30),
                flags_rqpn: be::get32(b, 0x18),
                slid: be::get16(b, 0x16),
                ml_path: b[0x11],
            }),
            Opcode::REQ_ERR | Opcode::RESP_ERR => Cqe::Failure(Failure {
                tail,
                srqn: be::get32(b, 0x20) & 0xff_ffff,
                syndrome: Syndrome(b[0x37]),
                vendor_syndrome: b[0x36],
            }),
            _ => Cqe::Other(tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(opcode: Opcode) -> Tail {
        Tail {
            wqe_opcode: 0x08,
            qpn: 0x12_3456,
            wqe_counter: 0x789a,
            signature: 0,
            op_own: Tail::op_own(opcode, true, 0x100, 8),
        }
    }

    #[test]
    fn tail_is_where_the_kernel_puts_it() {
        let t = tail(Opcode::RESP_SEND);
        assert_eq!(t.encode(), [0x08, 0x12, 0x34, 0x56, 0x78, 0x9a, 0, 0x23]);
        assert_eq!(Tail::decode(&t.encode()), t);
        assert!(t.solicited());
    }

    #[test]
    fn plain_success_is_told_by_a_mask() {
        let ci = 0x105;
        let want = plain(0x12_3456, 0x789a, ci, 8);
        for (kind, low) in (0..16).flat_map(|kind| (0..16).map(move |low| (kind, low))) {
            for (qpn, wqe_counter) in [
                (0x12_3456, 0x789a),
                (0x52_3456, 0x789a),
                (0x12_3456, 0x789b),
            ] {
                let tail = Tail {
                    qpn,
                    wqe_counter,
                    op_own: kind << 4 | low,
                    ..tail(Opcode::REQ)
                };
                let own = low & 1 == owner(ci, 8) as u8;
                let said = (qpn, wqe_counter) == (0x12_3456, 0x789a);
                let is_plain = kind == 0 && low >> 1 == 0 && own && said;
                let number = u64::from_be_bytes(tail.encode());
                assert_eq!((number ^ want) & PLAIN_MASK == 0, is_plain, "{tail:?}");
            }
        }
        assert_eq!(plain(1, 6, 0, 8), plain(1, 5, 0, 8) + PLAIN_STEP);
        assert_eq!(plain(1, 5, 0x100, 8), plain(1, 5, 0, 8) + 1);
    }

    #[test]
    fn success_round_trip() {
        for op in 0..=4 {
            let s = Success {
                tail: tail(Opcode(op)),
                srqn: 0xab_cdef,
                imm: 0x0102_0304,
                byte_cnt: 4096,
                timestamp: 0x1122_3344_5566_7788,
                flags_rqpn: 0x3200_0011,
                slid: 0x99,
                ml_path: 0x55,
            };
            assert_eq!(Cqe::decode(&s.encode()), Cqe::Success(s));
        }
    }

    #[test]
    fn failure_round_trip() {
        for op in [Opcode::REQ_ERR, Opcode::RESP_ERR] {
            let f = Failure {
                tail: tail(op),
                srqn: 7,
                syndrome: Syndrome::REMOTE_ACCESS,
                vendor_syndrome: 0x88,
            };
            let b = f.encode();
            assert_eq!((b[0x36], b[0x37]), (0x88, 0x13));
            assert_eq!(Cqe::decode(&b), Cqe::Failure(f));
        }
    }

    #[test]
    fn receives_are_told_by_their_opcode() {
        for op_own in 0..=255u8 {
            let receive = matches!(op_own >> 4, 1..=4);
            assert_eq!(is_receive(op_own), receive);
        }
    }

    #[test]
    fn any_bytes_decode() {
        for op_own in 0..=255u8 {
            let mut b = [0xa5; SIZE];
            b[63] = op_own;
            match Cqe::decode(&b) {
                Cqe::Success(s) => assert!(s.tail.opcode().0 <= 4),
                Cqe::Failure(f) => assert!(f.tail.opcode().is_error()),
                Cqe::Other(t) => assert_eq!(t.op_own, op_own),
            }
        }
    }

    #[test]
    fn ownership_alternates_with_each_round() {
        let log = 3;
        assert!(!ready(OP_OWN_INIT, 0, log));
        for pi in 0..64u32 {
            let op_own = Tail::op_own(Opcode::REQ, false, pi, log);
            assert!(ready(op_own, pi, log));
            // One round earlier or later the same bytes are not for the consumer.
            assert!(!ready(op_own, pi + 8, log));
            assert!(!ready(op_own, pi.wrapping_sub(8), log));
        }
    }
}
