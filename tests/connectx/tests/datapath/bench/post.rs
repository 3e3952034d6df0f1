// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Work requests as the driver writes them.

use connectx::qp;
use connectx::uar::Doorbell;
use connectx::wqe::atomic::OPMOD_MASKED_8_BYTES;
use connectx::wqe::av::AddressVector;
use connectx::wqe::ctrl::{Ctrl, Fence, Flags, Head, Signal};
use connectx::wqe::data::{inline_header, Data};
use connectx::wqe::opcode::Opcode;
use connectx::wqe::rdma::RemoteAddr;
use connectx::wqe::{blocks, BB};

use super::{gid, QpHandle, Side};

/// A signaled WQE without fence.
pub const SIGNALED: Flags = Flags::new(Fence::None, Signal::Always, false);

/// One that completes silently.
pub const SILENT: Flags = Flags::new(Fence::None, Signal::OnError, false);

/// A data segment.
pub fn data(len: u32, lkey: u32, addr: u64) -> [u8; 16] {
    Data {
        byte_count: len,
        lkey,
        addr,
    }
    .encode()
}

/// Where a datagram goes: a queue pair of a side.
pub fn address(to: usize, qpn: u32, qkey: u32) -> AddressVector {
    AddressVector {
        qkey,
        dqpn: qpn,
        stat_rate_sl: 0,
        fl_mlid: 0,
        rlid_or_sport: 49152,
        rmac: [0; 6],
        tclass: 0,
        hop_limit: 64,
        grh: true,
        sgid_index: 0,
        flow_label: 0,
        rgid: gid(to as u16),
    }
}

/// Data inside the WQE.
pub fn inline(bytes: &[u8]) -> Vec<u8> {
    let mut out = inline_header(bytes.len() as u16).to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(16), 0);
    out
}

/// A remote address segment.
pub fn remote(addr: u64, rkey: u32) -> [u8; 16] {
    RemoteAddr { addr, rkey }.encode()
}

impl Side {
    /// Writes a WQE of these segments into the ring and the doorbell record; does not ring.
    pub fn place(
        &mut self,
        qp: &mut QpHandle,
        opcode: Opcode,
        flags: Flags,
        imm: u32,
        segments: &[u8],
    ) -> (u16, [u8; 8]) {
        let index = qp.pi;
        let ds = (16 + segments.len()).div_ceil(16) as u8;
        let ctrl = Ctrl {
            head: Head {
                opmod: match opcode {
                    Opcode::ATOMIC_MASKED_CS | Opcode::ATOMIC_MASKED_FA => OPMOD_MASKED_8_BYTES,
                    _ => 0,
                },
                index,
                opcode,
                qpn: qp.qpn,
                ds,
            },
            signature: 0,
            flags,
            imm,
        };
        let mut wqe = ctrl.encode().to_vec();
        wqe.extend_from_slice(segments);
        for (i, block) in wqe.chunks(BB).enumerate() {
            let slot = (u64::from(index) + i as u64) % qp.sq_blocks;
            self.write(qp.sq + slot * BB as u64, block);
        }
        qp.pi = index.wrapping_add(blocks(ds));
        self.set_send_counter(qp, qp.pi);
        (index, ctrl.head.encode())
    }

    /// Writes the send counter of the doorbell record alone.
    pub fn set_send_counter(&mut self, qp: &QpHandle, counter: u16) {
        self.write(qp.record + 4, &u32::from(counter).to_be_bytes());
    }

    pub fn ring(&mut self, qp: &QpHandle, index: u16) {
        let doorbell = Doorbell {
            qpn: qp.qpn,
            wqe_index: index,
            blueflame: None,
            alone: false,
        };
        qp::doorbell(&mut self.hca, doorbell);
    }

    /// Posts a signaled WQE and rings.
    pub fn post(&mut self, qp: &mut QpHandle, opcode: Opcode, imm: u32, segments: &[u8]) -> u16 {
        self.post_with(qp, opcode, SIGNALED, imm, segments)
    }

    pub fn post_with(
        &mut self,
        qp: &mut QpHandle,
        opcode: Opcode,
        flags: Flags,
        imm: u32,
        segments: &[u8],
    ) -> u16 {
        let (index, _) = self.place(qp, opcode, flags, imm, segments);
        self.ring(qp, index);
        index
    }

    /// Posts a receive of these segments.
    pub fn post_receive(&mut self, qp: &mut QpHandle, segments: &[[u8; 16]]) {
        let slot = u64::from(qp.rq_pi) % qp.rq_size;
        let mut wqe = segments.concat();
        if wqe.len() < qp.rq_stride as usize {
            wqe.extend(data(0, 0x100, 0));
        }
        self.write(qp.rq + slot * qp.rq_stride, &wqe);
        qp.rq_pi = qp.rq_pi.wrapping_add(1);
        self.write(qp.record, &u32::from(qp.rq_pi).to_be_bytes());
    }
}
