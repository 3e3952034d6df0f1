// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shared receive queues of extended reliable connections as the driver makes them.

use connectx::{field, ifc, size};

use super::{command, data, CqHandle, Side};

/// An XRC SRQ with four receives of 4096 bytes.
pub struct SharedQueue {
    pub number: u32,
    pub pd: u32,
    pub cq: CqHandle,
    /// Memory of the receives, and its key.
    pub memory: u64,
    pub key: u32,
}

/// Number that stands in completions of the queue.
pub const USER_INDEX: u32 = 0x77;

/// The queue in a domain, with its own CQ.
pub fn shared_queue(side: &mut Side, xrcd: u32) -> SharedQueue {
    let (ring, record) = (side.alloc(4096), side.alloc(8));
    let memory = side.alloc(4 * 4096);
    let key = side.create_mkey(memory, memory, 4 * 4096, &[]);
    let cq = side.create_cq(4, 64);
    let mut input = command(0x705, size!(mlx5_ifc_create_xrc_srq_in_bits));
    for (field, value) in [
        (
            field!(mlx5_ifc_create_xrc_srq_in_bits, xrc_srq_context_entry.pd),
            side.pd,
        ),
        (
            field!(mlx5_ifc_create_xrc_srq_in_bits, xrc_srq_context_entry.xrcd),
            xrcd,
        ),
        (
            field!(mlx5_ifc_create_xrc_srq_in_bits, xrc_srq_context_entry.cqn),
            cq.cqn,
        ),
        (
            field!(
                mlx5_ifc_create_xrc_srq_in_bits,
                xrc_srq_context_entry.user_index
            ),
            USER_INDEX,
        ),
        (
            field!(
                mlx5_ifc_create_xrc_srq_in_bits,
                xrc_srq_context_entry.log_rq_stride
            ),
            1,
        ),
        (
            field!(
                mlx5_ifc_create_xrc_srq_in_bits,
                xrc_srq_context_entry.log_xrc_srq_size
            ),
            3,
        ),
        (
            field!(
                mlx5_ifc_create_xrc_srq_in_bits,
                xrc_srq_context_entry.db_record_addr_l
            ),
            (record >> 2) as u32,
        ),
    ] {
        ifc::set(&mut input, field, value);
    }
    input.extend(ring.to_be_bytes());
    let out = side.cmd(&input, 0x10).expect("CREATE_XRC_SRQ");
    for i in 0..4u64 {
        let mut wqe = vec![0, 0, 0, i as u8 + 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        wqe.extend(data(4096, key, memory + 4096 * i));
        side.write(ring + 32 * i, &wqe);
    }
    side.write(record, &4u32.to_be_bytes());
    SharedQueue {
        number: ifc::get(&out, field!(mlx5_ifc_create_xrc_srq_out_bits, xrc_srqn)),
        pd: side.pd,
        cq,
        memory,
        key,
    }
}

/// The segment that names a queue of the peer.
pub fn queue(number: u32) -> Vec<u8> {
    let mut segment = vec![0; 16];
    segment[..4].copy_from_slice(&number.to_be_bytes());
    segment
}
