// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The requester: takes WQEs from the send queue and turns them into packets.
//!
//! Messages between "taken from the queue" and "completed" stand in [`Requester::messages`], in the order of the
//! queue. `position` is the next packet to send; going back to an earlier packet (sequence error, time-out, receiver
//! not ready) moves it back. What a packet carries is read from memory when it is sent, each time anew. The answers
//! are handled in [`super::answers`].

use std::collections::VecDeque;

use super::context::Attributes;
use super::env::{Env, QpEvent};
use super::ring::{Fetched, RingError};
use super::work::{reserved, Malformed, Task, Work};
use super::Qp;
use super::{local, send};
use crate::cqfmt::syndrome::Syndrome;
use crate::mkey::umr as mkey_umr;
use crate::wire::{psn_add, psn_diff};
use crate::wqe::ctrl::Fence;

/// Messages of one queue that are in execution at a time.
const MAX_MESSAGES: usize = 64;

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
    /// A stage of a WQE lasts until then.
    pub busy_until: Option<u64>,
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

    /// Does nothing for so many nanoseconds, beyond those that it was to do nothing anyway.
    pub fn busy(&mut self, now: u64, nanoseconds: u64) {
        if nanoseconds != 0 {
            let from = self.busy_until.unwrap_or(now).max(now);
            self.busy_until = Some(from.saturating_add(nanoseconds));
        }
    }

    /// Does a packet wait for an acknowledgment?
    pub fn outstanding(&self) -> bool {
        psn_diff(self.sent, self.unacked) > 0
    }

    /// READs and atomics that wait for their answer.
    pub fn reads_out(&self) -> usize {
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
    if let Some(until) = qp.requester.busy_until {
        if until > env.io.now {
            return Step::Idle;
        }
        qp.requester.busy_until = None;
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
            if fetched.bytes.as_deref().is_some_and(reserved::is_set) {
                env.io.counters.wqes_with_reserved_bits += 1;
            }
            let mut message = message(fetched, qp.number, &qp.attributes);
            if let Some((syndrome, vendor)) = env.io.faults.send(qp.number) {
                message.work = Err(LocalFailure {
                    syndrome: Syndrome(syndrome),
                    vendor,
                });
            }
            qp.requester.messages.push_back(message);
            qp.requester.busy(env.io.now, env.io.timing.parse);
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
        let result = local::execute(work, qp.owner(), &qp.attributes, env);
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
    send::next(qp, env)
}

/// The first packet of the message behind a position.
pub fn next_message(position: Position) -> Position {
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
