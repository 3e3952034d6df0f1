// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queue entries of the netdev's queues (`struct mlx5_cqe64`).

use crate::cqfmt::cqe::{Opcode, Tail, SIZE};
use crate::cqfmt::syndrome::Syndrome;
use crate::io::Io;

/// Bytes that no field occupies.
const RESERVED: [usize; 7] = [0x01, 0x12, 0x13, 0x28, 0x29, 0x2a, 0x2b];

/// Offsets of what a receive completion tells about a frame.
const RSS_HASH: usize = 0x0c;
const RSS_HASH_TYPE: usize = 0x10;
const CHECK_SUM: usize = 0x14;
const HDS_IP_EXT: usize = 0x1c;
const L4_L3_HDR_TYPE: usize = 0x1d;
const VLAN_INFO: usize = 0x1e;
const BYTE_COUNT: usize = 0x2c;
/// Offset of the syndrome of an error completion.
const SYNDROME: usize = 0x37;

/// `CQE_L3_OK` and `CQE_L4_OK`.
const L3_OK: u8 = 1 << 1;
const L4_OK: u8 = 1 << 2;
/// In `l4_l3_hdr_type`: a tag was taken off (`cqe_has_vlan`).
const HAS_VLAN: u8 = 1 << 0;

/// An entry with nothing but its tail; the owner bit is left to who writes it.
fn entry(io: &mut Io, opcode: Opcode, wqe_opcode: u8, queue: u32, index: u16) -> [u8; SIZE] {
    let mut entry = [0; SIZE];
    let noise = io.blank::<SIZE>();
    for at in RESERVED {
        entry[at] = noise[at];
    }
    let tail = Tail {
        wqe_opcode,
        qpn: queue,
        wqe_counter: index,
        signature: 0,
        op_own: opcode.0 << 4,
    };
    entry[SIZE - 8..].copy_from_slice(&tail.encode());
    entry
}

/// A WQE was executed.
pub(super) fn success(
    io: &mut Io,
    opcode: Opcode,
    wqe_opcode: u8,
    queue: u32,
    index: u16,
) -> [u8; SIZE] {
    entry(io, opcode, wqe_opcode, queue, index)
}

/// A WQE failed.
pub(super) fn failure(
    io: &mut Io,
    opcode: Opcode,
    syndrome: Syndrome,
    queue: u32,
    index: u16,
) -> [u8; SIZE] {
    let mut entry = entry(io, opcode, 0, queue, index);
    entry[SYNDROME] = syndrome.0;
    entry
}

/// What the device found out about a received frame.
pub(super) struct Received {
    /// Bytes.
    pub len: u32,
    /// The VLAN tag that was taken off.
    pub vlan: Option<u16>,
    /// RSS hash and its type, 0 without.
    pub hash: (u32, u8),
    /// Ones' complement sum of the IP packet.
    pub check_sum: u16,
    /// Whether the checksums of IP and of TCP or UDP are right.
    pub checksums_ok: (bool, bool),
}

/// A frame was received.
pub(super) fn received(io: &mut Io, rqn: u32, index: u16, what: &Received) -> [u8; SIZE] {
    let mut entry = entry(io, Opcode::RESP_SEND, 0, rqn, index);
    let (hash, hash_type) = what.hash;
    entry[RSS_HASH..RSS_HASH + 4].copy_from_slice(&hash.to_be_bytes());
    entry[RSS_HASH_TYPE] = hash_type;
    entry[CHECK_SUM..CHECK_SUM + 2].copy_from_slice(&what.check_sum.to_be_bytes());
    let (l3, l4) = what.checksums_ok;
    entry[HDS_IP_EXT] = if l3 { L3_OK } else { 0 } | if l4 { L4_OK } else { 0 };
    if let Some(tag) = what.vlan {
        entry[L4_L3_HDR_TYPE] = HAS_VLAN;
        entry[VLAN_INFO..VLAN_INFO + 2].copy_from_slice(&tag.to_be_bytes());
    }
    entry[BYTE_COUNT..BYTE_COUNT + 4].copy_from_slice(&what.len.to_be_bytes());
    entry
}
