// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The requester: takes WQEs from the send queue and turns them into packets.
//!
//! Messages between "taken from the queue" and "completed" stand in [`Requester::messages`], in the order of the
//! queue. `position` is the next packet to send; going back to an earlier packet (sequence error, time-out, receiver
//! not ready) moves it back. What a packet carries is read from memory when it is sent, each time anew. The answers
//! are handled in [`super::answers`].

use std::collections::VecDeque;

use super::access::{self, Owner};
use super::context::{Attributes, Service};
use super::env::{Env, QpEvent};
use super::ring::{Fetched, RingError};
use super::work::{Malformed, Pieces, Task, Work};
use super::Qp;
use crate::cqfmt::syndrome::Syndrome;
use crate::dma::Kind;
use crate::mkey::umr as mkey_umr;
use crate::wire::{
    psn_add, psn_diff, AtomicEth, Bth, Extensions, Op, Opcode, PacketBuilder, Path, Reth, Tail,
    Transport,
};
use crate::wqe::ctrl::Fence;

/// Messages of one queue that are in execution at a time.
const MAX_MESSAGES: usize = 64;

/// Packets of one queue that wait for an acknowledgment at a time.
const WINDOW: i32 = 32;

/// Every so many packets of a long message ask for an acknowledgment, so that the window moves.
const ACK_EVERY: u32 = 8;

/// Sequence numbers may not be further apart than this, or "before" and "after" lose their meaning.
const MAX_PSN_SPAN: u32 = 0x7f_ffff;

/// Default partition: full member.
pub const PKEY: u16 = 0xffff;

/// Why a message failed on this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalFailure {
    pub syndrome: Syndrome,
    pub vendor: u8,
}

impl From<crate::mkey::Fault> for LocalFailure {
    fn from(fault: crate::mkey::Fault) -> Self {
        LocalFailure {
            syndrome: Syndrome::LOCAL_PROTECTION,
            vendor: fault as u8,
        }
    }
}

impl From<Malformed> for LocalFailure {
    fn from(malformed: Malformed) -> Self {
        LocalFailure {
            syndrome: Syndrome::LOCAL_QP_OPERATION,
            vendor: malformed as u8,
        }
    }
}

impl From<mkey_umr::UmrFault> for LocalFailure {
    fn from(fault: mkey_umr::UmrFault) -> Self {
        LocalFailure {
            syndrome: Syndrome::LOCAL_QP_OPERATION,
            vendor: fault as u8,
        }
    }
}

/// Vendor syndrome of a message that is longer than the queue pair may send.
const VENDOR_TOO_LONG: u8 = 0x41;

/// Where a WQE stands and what its completion needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub index: u16,
    pub blocks: u16,
    pub opcode: u8,
}

/// A WQE in execution.
#[derive(Debug)]
pub struct Message {
    pub slot: Slot,
    /// What to do; a failure is reported when all earlier messages have completed.
    pub work: Result<Work, LocalFailure>,
    /// First sequence number; meaningful once `packets` is not zero.
    pub first_psn: u32,
    /// Sequence numbers that it takes; zero until it is sent for the first time.
    pub packets: u32,
    /// Packets of the answer that have come in (READ and atomics).
    pub answered: u32,
    /// Carried out: completes when all earlier messages have.
    pub done: bool,
}

impl Message {
    /// Is an answer with data outstanding?
    pub fn awaits_data(&self) -> bool {
        !self.done
            && self.packets != 0
            && self
                .work
                .as_ref()
                .is_ok_and(|work| work.task.is_read_or_atomic())
    }

    /// The sequence number after its last.
    pub fn end_psn(&self) -> u32 {
        psn_add(self.first_psn, self.packets)
    }
}

/// The next packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Index of the message.
    pub message: usize,
    /// Packet of the message.
    pub packet: u32,
}

/// Requester state of a queue pair.
#[derive(Debug, Default)]
pub struct Requester {
    pub messages: VecDeque<Message>,
    pub position: Position,
    /// First sequence number that no message has.
    pub next_psn: u32,
    /// First sequence number that is not acknowledged.
    pub unacked: u32,
    /// Sequence number after the last that was ever sent.
    pub sent: u32,
    /// An answer was missed and has been asked for again; what else is missing behind it says nothing new.
    pub asked_again: bool,
    /// Times that were sent again in vain.
    pub retries: u32,
    pub rnr_retries: u32,
    /// When to send again if nothing comes in.
    pub ack_deadline: Option<u64>,
    /// When to send again after the peer was not ready.
    pub rnr_until: Option<u64>,
}

/// What a step of a queue pair came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something was done; there may be more to do.
    Progress,
    /// Nothing to do until a doorbell, an answer or a timer.
    Idle,
}

impl Requester {
    /// Starts with the first sequence number of the connection.
    pub fn start(&mut self, psn: u32) {
        self.next_psn = psn;
        self.unacked = psn;
        self.sent = psn;
    }

    /// Does a packet wait for an acknowledgment?
    pub fn outstanding(&self) -> bool {
        psn_diff(self.sent, self.unacked) > 0
    }

    /// READs and atomics that wait for their answer.
    fn reads_out(&self) -> usize {
        self.messages
            .iter()
            .take(self.position.message)
            .filter(|message| message.awaits_data())
            .count()
    }

    /// Moves back to the packet with this sequence number.
    pub fn rewind(&mut self, psn: u32) {
        for (i, message) in self.messages.iter().enumerate() {
            if message.packets == 0 {
                continue;
            }
            let offset = psn_diff(psn, message.first_psn);
            if offset < 0 {
                // The sequence number lies before this message, so it is the first to send.
                self.position = Position {
                    message: i,
                    packet: 0,
                };
                return;
            }
            if (offset as u32) < message.packets && !message.done {
                self.position = Position {
                    message: i,
                    packet: offset as u32,
                };
                return;
            }
        }
    }
}

/// Does one thing on the send side: takes a WQE, sends a packet, or executes a local operation.
pub fn step(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    if !qp.state.sends() {
        return Step::Idle;
    }
    if let Some(until) = qp.requester.rnr_until {
        if until > env.io.now {
            return Step::Idle;
        }
        qp.requester.rnr_until = None;
    }
    if qp.requester.position.message >= qp.requester.messages.len() {
        return fetch(qp, env);
    }
    let result = advance(qp, env);
    super::answers::retire(qp, env);
    result
}

/// Takes the next WQE from the ring.
fn fetch(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    if qp.requester.messages.len() >= MAX_MESSAGES {
        return Step::Idle;
    }
    let Some(ring) = &mut qp.send else {
        return Step::Idle;
    };
    let before = ring.fetched();
    let fetched = ring
        .poll(env.io, qp.attributes.record)
        .and_then(|()| ring.fetch(env.io, &qp.buffer));
    match fetched {
        Ok(None) => Step::Idle,
        Ok(Some(fetched)) => {
            env.io.event(qp.number, "WQE Fetch Start", before.into());
            env.io.counters.wqes += 1;
            qp.stats.wqes += 1;
            let mut message = message(fetched, qp.number, &qp.attributes);
            if let Some((syndrome, vendor)) = env.io.faults.send(qp.number) {
                message.work = Err(LocalFailure {
                    syndrome: Syndrome(syndrome),
                    vendor,
                });
            }
            qp.requester.messages.push_back(message);
            Step::Progress
        }
        Err(error) => {
            ring_failed(qp, env, error);
            Step::Idle
        }
    }
}

fn message(fetched: Fetched, qpn: u32, attributes: &Attributes) -> Message {
    let slot = Slot {
        index: fetched.index,
        blocks: fetched.blocks,
        opcode: fetched.head.opcode.0,
    };
    let work = fetched
        .bytes
        .ok_or(Malformed::Segments)
        .and_then(|bytes| Work::decode(bytes, fetched.index, qpn, attributes))
        .map_err(LocalFailure::from)
        .and_then(|work| check_length(work, attributes));
    Message {
        slot,
        work,
        first_psn: 0,
        packets: 0,
        answered: 0,
        done: false,
    }
}

/// Refuses what is longer than the queue pair may send; datagrams fit one packet.
fn check_length(work: Work, attributes: &Attributes) -> Result<Work, LocalFailure> {
    let limit = match &work.task {
        Task::Nop | Task::Umr { .. } => return Ok(work),
        Task::Datagram { .. } => attributes.mtu.into(),
        _ => attributes.max_message,
    };
    if work.task.data().is_some_and(|data| data.len > limit) {
        return Err(LocalFailure {
            syndrome: Syndrome::LOCAL_LENGTH,
            vendor: VENDOR_TOO_LONG,
        });
    }
    Ok(work)
}

/// The queue's memory is gone, or the driver overran it: no completion can say so.
pub fn ring_failed(qp: &mut Qp, env: &mut Env<'_>, error: RingError) {
    log::warn!("QP {:#x}: send queue failed: {error:?}", qp.number);
    env.event(qp.number, QpEvent::Catastrophic);
    super::error::enter(qp, env);
}

/// Executes the message at the present position, or sends its next packet.
fn advance(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    let position = qp.requester.position;
    let Some(message) = qp.requester.messages.get(position.message) else {
        return Step::Idle;
    };
    let Ok(work) = &message.work else {
        // Waits for the completion of the earlier ones.
        return Step::Idle;
    };
    if message.done {
        qp.requester.position = next_message(position);
        return Step::Progress;
    }
    if blocked_by_fence(&qp.requester, work.fence) {
        return Step::Idle;
    }
    if work.task.is_local() {
        let result = execute_local(work, qp.owner(), qp.attributes.service, env);
        env.io
            .event(qp.number, "Local Operation", work.index.into());
        if let Some(message) = qp.requester.messages.get_mut(position.message) {
            match result {
                Ok(()) => {
                    message.done = true;
                    qp.requester.position = next_message(position);
                }
                Err(failure) => message.work = Err(failure),
            }
        }
        return Step::Progress;
    }
    send(qp, env)
}

fn next_message(position: Position) -> Position {
    Position {
        message: position.message + 1,
        packet: 0,
    }
}

/// Must the message at the position wait for earlier ones?
fn blocked_by_fence(requester: &Requester, fence: Fence) -> bool {
    let mut earlier = requester.messages.iter().take(requester.position.message);
    match fence {
        // Local operations are carried out in order, so nothing of them is ever outstanding here.
        Fence::None | Fence::InitiatorSmall => false,
        Fence::Fence | Fence::SmallAndFence => earlier.any(Message::awaits_data),
        Fence::StrongOrdering => earlier.any(|message| !message.done),
    }
}

/// NOP and UMR.
fn execute_local(
    work: &Work,
    owner: Owner,
    service: Service,
    env: &mut Env<'_>,
) -> Result<(), LocalFailure> {
    let Task::Umr {
        key,
        ctrl,
        segment,
        entries,
    } = &work.task
    else {
        return Ok(());
    };
    let mut list = vec![0; usize::from(ctrl.xlt_octowords) * crate::wqe::DS];
    access::gather(
        env.mkeys,
        env.io,
        Kind::Translation,
        &owner,
        (&work.bytes, entries),
        0,
        &mut list,
    )?;
    let mkey = env
        .mkeys
        .table
        .get_mut(key >> 8)
        .ok_or(mkey_umr::UmrFault::UnknownKey)?;
    // The driver's own queue pair works for all protection domains.
    if service != Service::RegUmr && mkey.pd() != owner.pd {
        return Err(mkey_umr::UmrFault::Pd.into());
    }
    Ok(mkey_umr::apply(mkey, *key as u8, ctrl, segment, &list)?)
}

/// Sends the next packet of the message at the present position.
fn send(qp: &mut Qp, env: &mut Env<'_>) -> Step {
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
    let reliable = qp.attributes.service == Service::Rc;
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
            env.io.send(frame);
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
    if qp.attributes.service == Service::Rc {
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
    let mut ext = Extensions::default();
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
            transport: match attributes.service {
                Service::Rc | Service::RegUmr => Transport::Rc,
                Service::Uc => Transport::Uc,
                Service::Ud | Service::Gsi => Transport::Ud,
            },
            op,
        },
        solicited: work.solicited && last,
        pad: 0,
        pkey: PKEY,
        dest_qp,
        ack_req: attributes.service == Service::Rc
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
