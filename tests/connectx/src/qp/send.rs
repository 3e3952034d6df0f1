// SPDX-License-Identifier: GPL-2.0 OR MIT

//! From a message to its packets.

use super::access::{self, Owner};
use super::context::Attributes;
use super::env::Env;
use super::requester::{next_message, LocalFailure, Position, Step, PKEY};
use super::work::{Malformed, Pieces, Task, Work};
use super::Qp;
use crate::dma::Kind;
use crate::wire::{
    psn_add, psn_diff, AtomicEth, Bth, Extensions, Op, Opcode, PacketBuilder, Path, Reth, Tail,
};

/// Packets of one queue that wait for an acknowledgment at a time.
const WINDOW: i32 = 32;

/// Every so many packets of a long message ask for an acknowledgment, so that the window moves.
const ACK_EVERY: u32 = 8;

/// Sequence numbers may not be further apart than this, or "before" and "after" lose their meaning.
const MAX_PSN_SPAN: u32 = 0x7f_ffff;

/// Sends the next packet of the message at the present position.
pub fn next(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    let mtu = qp.attributes.mtu;
    let position = qp.requester.position;
    let reads_out = qp.requester.reads_out();
    let (next_psn, unacked) = (qp.requester.next_psn, qp.requester.unacked);
    let Some(message) = qp.requester.messages.get_mut(position.message) else {
        return Step::Idle;
    };
    let Ok(work) = &message.work else {
        return Step::Idle;
    };
    if work.task.is_read_or_atomic() && reads_out >= qp.attributes.max_reads_out as usize {
        return Step::Idle;
    }
    let reliable = qp.attributes.service.is_reliable();
    if message.packets == 0 {
        let packets = packets(&work.task, mtu);
        let span = next_psn.wrapping_sub(unacked) & crate::wire::MASK_24;
        if reliable && span + packets > MAX_PSN_SPAN {
            return Step::Idle;
        }
        message.first_psn = next_psn;
        message.packets = packets;
        qp.requester.next_psn = psn_add(next_psn, packets);
    }
    let psn = psn_add(message.first_psn, position.packet);
    if reliable && !work.task.is_read_or_atomic() && psn_diff(psn, unacked) >= WINDOW {
        return Step::Idle;
    }
    let path = match &work.task {
        Task::Datagram { to, .. } => env.datagram_path(to),
        _ => env.path(&qp.attributes),
    };
    let Some(path) = path else {
        // The source address is not in the table (any more): nothing can leave. A connection times out; for the
        // others there is nobody to miss the packet.
        return sent(qp, env, psn);
    };
    let place = Place {
        packet: position.packet,
        psn,
        path: &path,
    };
    match build(
        work,
        message.packets,
        &place,
        &qp.attributes,
        qp.number,
        env,
    ) {
        Ok(frame) => {
            qp.stats.packets_sent += 1;
            let has_payload = work.task.data().is_some_and(|data| data.len != 0);
            let reads = has_payload && !work.task.is_read_or_atomic();
            let payload = if reads { env.io.timing.payload } else { 0 };
            env.io.send_after(payload, frame);
            sent(qp, env, psn)
        }
        Err(failure) => {
            message.work = Err(failure);
            Step::Progress
        }
    }
}

/// Sequence numbers that a task takes.
fn packets(task: &Task, mtu: u32) -> u32 {
    match task {
        Task::Atomic { .. } => 1,
        _ => {
            let len = task.data().map_or(0, |data| data.len);
            // At most 2^31 bytes in packets of at least 256.
            (len.div_ceil(mtu.into()) as u32).max(1)
        }
    }
}

/// Notes that the packet at the position was sent, and moves on.
fn sent(qp: &mut Qp, env: &Env<'_>, psn: u32) -> Step {
    let requester = &mut qp.requester;
    let position = requester.position;
    let Some(message) = requester.messages.get_mut(position.message) else {
        return Step::Idle;
    };
    let reads = message.awaits_data();
    let after = if reads {
        message.end_psn()
    } else {
        psn_add(psn, 1)
    };
    let last = reads || after == message.end_psn();
    if psn_diff(after, requester.sent) > 0 {
        requester.sent = after;
    }
    requester.position = if last {
        next_message(position)
    } else {
        Position {
            packet: position.packet + 1,
            ..position
        }
    };
    if qp.attributes.service.is_reliable() {
        if requester.ack_deadline.is_none() {
            requester.ack_deadline = qp
                .attributes
                .ack_timeout
                .map(|timeout| env.io.now.saturating_add(timeout));
        }
    } else if last {
        // Nothing is acknowledged: sent is done.
        message.done = true;
        requester.unacked = requester.sent;
    }
    Step::Progress
}

/// Place of a packet in its message and on the wire.
struct Place<'a> {
    packet: u32,
    psn: u32,
    path: &'a Path,
}

/// Builds a request packet; reads its payload.
fn build(
    work: &Work,
    packets: u32,
    place: &Place<'_>,
    attributes: &Attributes,
    qpn: u32,
    env: &mut Env<'_>,
) -> Result<Vec<u8>, LocalFailure> {
    let first = place.packet == 0;
    let last = place.packet + 1 == packets;
    let offset = u64::from(place.packet) * u64::from(attributes.mtu);
    let mut ext = Extensions {
        xrc_srq: work.xrc_srq,
        ..Extensions::default()
    };
    let mut dest_qp = attributes.remote_qpn;
    let mut data: Option<&Pieces> = None;
    let op = match &work.task {
        Task::Nop | Task::Umr { .. } => return Err(Malformed::Opcode.into()),
        Task::Send {
            tail,
            immediate,
            data: pieces,
        } => {
            data = Some(pieces);
            ext.immediate = Some(immediate.to_be_bytes());
            ext.invalidate = Some(*immediate);
            Op::send(first, last, *tail)
        }
        Task::Datagram {
            to,
            immediate,
            data: pieces,
        } => {
            data = Some(pieces);
            dest_qp = to.dqpn;
            ext.deth = Some(crate::wire::Deth {
                qkey: datagram_qkey(to.qkey, attributes),
                src_qp: super::datagram::source(attributes, qpn),
            });
            ext.immediate = immediate.map(u32::to_be_bytes);
            let tail = if immediate.is_some() {
                Tail::Immediate
            } else {
                Tail::None
            };
            Op::send(true, true, tail)
        }
        Task::Write {
            to,
            immediate,
            data: pieces,
        } => {
            data = Some(pieces);
            ext.reth = Some(Reth {
                va: to.addr,
                rkey: to.rkey,
                length: pieces.len as u32,
            });
            ext.immediate = immediate.map(u32::to_be_bytes);
            Op::write(first, last, immediate.is_some())
        }
        Task::Read { from, data } => {
            ext.reth = Some(Reth {
                va: from.addr.wrapping_add(offset),
                rkey: from.rkey,
                length: data.len.saturating_sub(offset) as u32,
            });
            Op::ReadRequest
        }
        Task::Atomic { at, operands, .. } => {
            ext.atomic = Some(AtomicEth {
                va: at.addr,
                rkey: at.rkey,
                swap_add: operands.swap_add,
                compare: operands.compare,
                swap_add_mask: operands.swap_add_mask,
                compare_mask: operands.compare_mask,
            });
            operands.op
        }
    };
    let answered = matches!(work.task, Task::Read { .. } | Task::Atomic { .. });
    let bth = Bth {
        opcode: Opcode {
            transport: attributes.service.transport(),
            op,
        },
        solicited: work.solicited && last,
        pad: 0,
        pkey: PKEY,
        dest_qp,
        ack_req: attributes.service.is_reliable()
            && (last || answered || (place.packet + 1) % ACK_EVERY == 0),
        psn: place.psn,
    };
    let len = data.map_or(0, |data| {
        data.len
            .saturating_sub(offset)
            .min(u64::from(attributes.mtu)) as usize
    });
    let mut builder = PacketBuilder::new(place.path, bth, &ext, len);
    if let Some(data) = data {
        if len != 0 {
            env.io.event(qpn, "DMA Read Issued", len as u64);
        }
        access::gather(
            env.mkeys,
            env.io,
            Kind::Payload,
            &Owner::new(attributes, qpn),
            (&work.bytes, data),
            offset,
            builder.payload_mut(),
        )?;
    }
    Ok(builder.finish())
}

/// A queue key with the top bit set stands for the sender's own (IBTA 10.2.5: privileged keys).
fn datagram_qkey(qkey: u32, attributes: &Attributes) -> u32 {
    if qkey >> 31 != 0 {
        attributes.qkey
    } else {
        qkey
    }
}
