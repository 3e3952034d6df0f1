// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Datagrams: unreliable, one packet each, to whom each WQE says. Connection management uses them.

use super::access::{self, Owner};
use super::context::{Attributes, Service};
use super::env::{Env, QpEvent};
use super::error;
use super::responder::{self, Broken};
use super::Qp;
use crate::cqfmt::cqe::{Opcode, Success, Tail};
use crate::cqfmt::syndrome::Syndrome;
use crate::wire::icrc::Network;
use crate::wire::{net, Deth, Packet};

/// Number on the wire of the queue pair for connection management.
pub const GSI_QPN: u32 = 1;

/// Queue key of that queue pair (IBTA 3.5.3).
const GSI_QKEY: u32 = 0x8001_0000;

/// Bytes in front of each received payload: room for a global route header.
const HEADER_LEN: usize = 40;

/// Vendor syndrome of a datagram that is longer than its receive.
const VENDOR_RECEIVE_TOO_SHORT: u8 = 0x43;

/// The number that a queue pair's datagrams carry as their source.
pub fn source(attributes: &Attributes, qpn: u32) -> u32 {
    match (attributes.service, attributes.datagram_source) {
        (Service::Gsi, _) => GSI_QPN,
        (_, Some(number)) => number,
        _ => qpn,
    }
}

/// A datagram for this queue pair.
pub fn receive(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, deth: Deth) {
    let qkey = match qp.attributes.service {
        Service::Gsi => GSI_QKEY,
        _ => qp.attributes.qkey,
    };
    if deth.qkey != qkey {
        env.io.counters.frames_dropped += 1;
        return;
    }
    let wqe = match responder::take_receive(qp, env) {
        Ok(Some(wqe)) => wqe,
        Ok(None) => {
            // Unreliable: without a receive the datagram is lost.
            env.count(qp.attributes.counter_set, |c| &mut c.out_of_buffer);
            return;
        }
        Err(Broken) => return,
    };
    let len = HEADER_LEN + packet.payload.len();
    if len as u64 > wqe.segments.len {
        let vendor = VENDOR_RECEIVE_TOO_SHORT;
        error::fail_receive(qp, env, &wqe, Syndrome::LOCAL_LENGTH, vendor);
        error::enter(qp, env);
        return;
    }
    let owner = Owner {
        pd: wqe.pd.unwrap_or(qp.attributes.pd),
        ..qp.owner()
    };
    let header = net::receive_header(packet.network, packet.network_header);
    env.io.event(qp.number, "DMA Write", len as u64);
    let mut put = |offset: usize, bytes: &[u8]| {
        let at = offset as u64;
        access::scatter(env.mkeys, env.io, &owner, &wqe.segments, at, bytes)
    };
    if let Err(fault) = put(0, &header).and_then(|()| put(HEADER_LEN, packet.payload)) {
        error::fail_receive(qp, env, &wqe, Syndrome::LOCAL_PROTECTION, fault as u8);
        error::enter(qp, env);
        return;
    }
    let immediate = packet.ext.immediate;
    let opcode = if immediate.is_some() {
        Opcode::RESP_SEND_IMM
    } else {
        Opcode::RESP_SEND
    };
    let success = Success {
        tail: Tail {
            wqe_opcode: 0,
            qpn: qp.number,
            wqe_counter: wqe.index,
            signature: 0,
            op_own: Tail::op_own(opcode, packet.bth.solicited, 0, 0),
        },
        srqn: qp.completion_number(),
        // Without immediate data, the field holds the partition key.
        imm: immediate.map_or(packet.bth.pkey.into(), u32::from_be_bytes),
        byte_cnt: len as u32,
        timestamp: 0,
        flags_rqpn: route_flags(packet.network) | deth.src_qp,
        slid: 0,
        ml_path: 0,
    };
    if env.succeed(qp.attributes.receive_cq, &success).is_err() {
        env.event(qp.number, QpEvent::Catastrophic);
        error::enter(qp, env);
    }
}

/// Bits 31:24 of `flags_rqpn`: a header is in the buffer, and its kind (`MLX5_CQE_ROCE_L3_HEADER_TYPE_*`).
fn route_flags(network: Network) -> u32 {
    let kind = match network {
        Network::Grh => 0,
        Network::Ipv6 => 1,
        Network::Ipv4 => 2,
    };
    (1 << 28) | (kind << 24)
}
