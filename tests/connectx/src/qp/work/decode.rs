// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decoding of send WQEs.

use super::{Malformed, Operands, Piece, Pieces, Task, Work};
use crate::qp::context::{Attributes, Service};
use crate::wire::{Tail, MASK_24};
use crate::wqe::atomic::{self, Atomic, MaskedAtomic};
use crate::wqe::av::{self, AddressVector};
use crate::wqe::ctrl::{self, Ctrl};
use crate::wqe::data::{Data, Segment, Segments};
use crate::wqe::opcode::Opcode;
use crate::wqe::rdma::{self, RemoteAddr};
use crate::wqe::umr::{self, UmrCtrl};
use crate::wqe::{blocks, DS};

/// Bytes of the segment that names the peer's shared receive queue (`struct mlx5_wqe_xrc_seg`).
const XRC_SIZE: usize = 16;

/// A cursor over the segments of a WQE.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let array = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .ok_or(Malformed::Segments)?;
        self.at += N;
        Ok(*array)
    }

    /// The peer's shared receive queue. rdma-core's provider leaves the segment out where nothing is sent.
    fn xrc_srq(&mut self, opcode: Opcode, service: Service) -> Result<Option<u32>, Malformed> {
        if service != Service::Xrc || matches!(opcode, Opcode::NOP | Opcode::UMR) {
            return Ok(None);
        }
        let segment = self.take::<XRC_SIZE>()?;
        Ok(segment
            .first_chunk()
            .map(|number| u32::from_be_bytes(*number) & MASK_24))
    }

    /// The data segments up to the end of the WQE.
    fn pieces(&self) -> Result<Pieces, Malformed> {
        let rest = self.bytes.get(self.at..).ok_or(Malformed::Segments)?;
        let mut out = Pieces::default();
        for segment in Segments::new(rest) {
            let piece = match segment.map_err(|_| Malformed::Segments)? {
                Segment::Inline(data) => Piece::Inline {
                    // Both slices are of this WQE, so the difference is where the data starts.
                    at: data.as_ptr().addr() - self.bytes.as_ptr().addr(),
                    len: data.len(),
                },
                Segment::Pointer(data) => pointer(data),
            };
            out.len = out.len.saturating_add(piece.len());
            out.pieces.push(piece);
        }
        Ok(out)
    }
}

/// A data segment as a piece; a byte count of zero means 2 GiB (IBTA: messages are at most that long).
fn pointer(data: Data) -> Piece {
    Piece::Pointer {
        len: match data.byte_count & 0x7fff_ffff {
            0 => 1 << 31,
            n => n.into(),
        },
        lkey: data.lkey,
        addr: data.addr,
    }
}

impl Work {
    /// Takes a WQE apart. `bytes` is as long as the control segment says.
    ///
    /// # Errors
    ///
    /// See [`Malformed`].
    pub fn decode(
        bytes: Vec<u8>,
        index: u16,
        qpn: u32,
        attributes: &Attributes,
    ) -> Result<Self, Malformed> {
        let mut reader = Reader {
            bytes: &bytes,
            at: 0,
        };
        let ctrl = Ctrl::decode(&reader.take::<{ ctrl::SIZE }>()?);
        if ctrl.head.qpn != qpn || ctrl.head.index != index {
            return Err(Malformed::Control);
        }
        let xrc_srq = reader.xrc_srq(ctrl.head.opcode, attributes.service)?;
        let task = decode_task(&ctrl, &mut reader, attributes)?;
        Ok(Work {
            index,
            blocks: blocks(ctrl.head.ds),
            opcode: ctrl.head.opcode,
            signaled: ctrl.flags.signaled(),
            local_event: ctrl.flags.signal() == ctrl::Signal::AlwaysWithEvent,
            solicited: ctrl.flags.solicited(),
            fence: ctrl.flags.fence().ok_or(Malformed::Fence)?,
            xrc_srq,
            task,
            bytes,
        })
    }
}

fn decode_task(
    ctrl: &Ctrl,
    reader: &mut Reader<'_>,
    attributes: &Attributes,
) -> Result<Task, Malformed> {
    let service = attributes.service;
    let connected = service.is_connected();
    let reliable = service.is_reliable();
    let immediate = ctrl.imm;
    match ctrl.head.opcode {
        Opcode::NOP => Ok(Task::Nop),
        Opcode::SEND | Opcode::SEND_IMM if service.is_datagram() => Ok(Task::Datagram {
            to: address_vector(&reader.take::<{ av::SIZE }>()?)?,
            immediate: (ctrl.head.opcode == Opcode::SEND_IMM).then_some(immediate),
            data: reader.pieces()?,
        }),
        Opcode::SEND | Opcode::SEND_IMM if connected => Ok(Task::Send {
            tail: if ctrl.head.opcode == Opcode::SEND {
                Tail::None
            } else {
                Tail::Immediate
            },
            immediate,
            data: reader.pieces()?,
        }),
        Opcode::SEND_INVAL if reliable => Ok(Task::Send {
            tail: Tail::Invalidate,
            immediate,
            data: reader.pieces()?,
        }),
        Opcode::RDMA_WRITE | Opcode::RDMA_WRITE_IMM if connected => Ok(Task::Write {
            to: RemoteAddr::decode(&reader.take::<{ rdma::SIZE }>()?),
            immediate: (ctrl.head.opcode == Opcode::RDMA_WRITE_IMM).then_some(immediate),
            data: reader.pieces()?,
        }),
        Opcode::RDMA_READ if reliable => Ok(Task::Read {
            from: RemoteAddr::decode(&reader.take::<{ rdma::SIZE }>()?),
            data: pointers_only(reader.pieces()?)?,
        }),
        // The opcodes of masked atomics on the wire are of the reliable connection alone.
        Opcode::ATOMIC_MASKED_CS | Opcode::ATOMIC_MASKED_FA if service != Service::Rc => {
            Err(Malformed::Opcode)
        }
        Opcode::ATOMIC_MASKED_CS | Opcode::ATOMIC_MASKED_FA
            if ctrl.head.opmod != atomic::OPMOD_MASKED_8_BYTES =>
        {
            // Of other sizes the capabilities (`atomic_size_qp`) do not speak.
            Err(Malformed::Operand)
        }
        op if op.is_atomic() && reliable => {
            let at = RemoteAddr::decode(&reader.take::<{ rdma::SIZE }>()?);
            let operands = decode_operands(op, reader)?;
            let data = pointers_only(reader.pieces()?)?;
            if data.len != 8 {
                return Err(Malformed::Operand);
            }
            Ok(Task::Atomic { at, operands, data })
        }
        Opcode::UMR if connected || service == Service::RegUmr => decode_umr(ctrl.imm, reader),
        _ => Err(Malformed::Opcode),
    }
}

/// An address vector of full length: a short one has no route. Whether it says that there is one does not matter on
/// Ethernet, where there always is: rdma-core's provider leaves that bit out.
fn address_vector(bytes: &[u8; av::SIZE]) -> Result<AddressVector, Malformed> {
    let extended = bytes[8] & (av::EXTENDED >> 24) as u8 != 0;
    extended
        .then(|| AddressVector::decode(bytes))
        .ok_or(Malformed::Address)
}

fn decode_operands(op: Opcode, reader: &mut Reader<'_>) -> Result<Operands, Malformed> {
    use crate::wire::{AtomicEth, Op};
    let wire = match op {
        Opcode::ATOMIC_CS => Op::CompareSwap,
        Opcode::ATOMIC_FA => Op::FetchAdd,
        Opcode::ATOMIC_MASKED_CS => Op::MaskedCompareSwap,
        _ => Op::MaskedFetchAdd,
    };
    if wire == Op::MaskedCompareSwap {
        let m = MaskedAtomic::decode(&reader.take::<{ atomic::MASKED_SIZE }>()?);
        return Ok(Operands {
            op: wire,
            swap_add: m.swap_add,
            compare: m.compare,
            swap_add_mask: m.swap_add_mask,
            compare_mask: m.compare_mask,
        });
    }
    let a = Atomic::decode(&reader.take::<{ atomic::SIZE }>()?);
    if wire == Op::MaskedFetchAdd {
        // Addend and field boundaries, no more, see `wqe/atomic.rs`.
        return Ok(Operands {
            op: wire,
            swap_add: a.swap_add,
            compare: 0,
            swap_add_mask: a.compare,
            compare_mask: 0,
        });
    }
    let (swap_add_mask, compare_mask) = AtomicEth::plain_masks(wire);
    Ok(Operands {
        op: wire,
        swap_add: a.swap_add,
        compare: a.compare,
        swap_add_mask,
        compare_mask,
    })
}

fn decode_umr(key: u32, reader: &mut Reader<'_>) -> Result<Task, Malformed> {
    let ctrl = UmrCtrl::decode(&reader.take::<{ umr::CTRL_SIZE }>()?);
    let segment = Box::new(reader.take::<{ umr::MKEY_SIZE }>()?);
    let len = usize::from(ctrl.xlt_octowords) * DS;
    let entries = if ctrl.flags & umr::flags::INLINE != 0 {
        if reader.bytes.len() - reader.at < len {
            return Err(Malformed::Segments);
        }
        Pieces {
            pieces: vec![Piece::Inline { at: reader.at, len }],
            len: len as u64,
        }
    } else if len != 0 {
        let pieces = pointers_only(reader.pieces()?)?;
        if pieces.len < len as u64 {
            return Err(Malformed::Segments);
        }
        pieces
    } else {
        Pieces::default()
    };
    Ok(Task::Umr {
        key,
        ctrl,
        segment,
        entries,
    })
}

/// Inline data cannot be written to.
fn pointers_only(pieces: Pieces) -> Result<Pieces, Malformed> {
    let all = pieces
        .pieces
        .iter()
        .all(|piece| matches!(piece, Piece::Pointer { .. }));
    all.then_some(pieces).ok_or(Malformed::Segments)
}

#[cfg(test)]
mod tests;
