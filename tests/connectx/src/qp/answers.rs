// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The requester's other half: acknowledgments, READ and atomic responses, and completions of send WQEs.

use super::access;
use super::context::RNR_RETRY_INFINITE;
use super::env::{Env, QpEvent};
use super::error;
use super::requester::{LocalFailure, Slot};
use super::work::Task;
use super::Qp;
use crate::cqfmt::cqe::{self, Failure, Success, Tail};
use crate::cqfmt::syndrome::Syndrome;
use crate::wire::{psn_add, psn_diff, AckSyndrome, NakCode, Op, Packet};

/// Times that a responder names when it is not ready, by code, in units of 10 us (IBTA table 45).
const RNR_TIMES: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Vendor syndromes of what goes wrong with answers.
const VENDOR_TIMEOUT: u8 = 0x81;
const VENDOR_SEQUENCE: u8 = 0x82;
const VENDOR_NOT_READY: u8 = 0x83;
const VENDOR_NAK: u8 = 0x84;
const VENDOR_RESPONSE: u8 = 0x85;

/// Nanoseconds to wait for a receiver that is not ready.
fn rnr_time(code: u8) -> u64 {
    u64::from(RNR_TIMES.get(usize::from(code & 31)).copied().unwrap_or(1)) * 10_000
}

/// A response packet for this queue pair.
pub fn receive(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>) {
    // Stale answers, and answers to what was never asked, are dropped silently (IBTA 9.7.5.1.1).
    let psn = packet.bth.psn;
    if !qp.state.sends()
        || psn_diff(psn, qp.requester.unacked) < 0
        || psn_diff(psn, qp.requester.sent) >= 0
    {
        return;
    }
    match packet.bth.opcode.op {
        Op::Acknowledge => {
            if let Some(aeth) = packet.ext.aeth {
                acknowledge(qp, env, psn, aeth.syndrome);
            }
        }
        Op::AtomicAcknowledge
        | Op::ReadResponseFirst
        | Op::ReadResponseMiddle
        | Op::ReadResponseLast
        | Op::ReadResponseOnly => data(qp, env, packet),
        _ => {}
    }
    retire(qp, env);
}

fn acknowledge(qp: &mut Qp, env: &mut Env<'_>, psn: u32, syndrome: AckSyndrome) {
    match syndrome {
        AckSyndrome::Ack => {
            confirm(qp, env, psn_add(psn, 1));
        }
        AckSyndrome::RnrNak(timer) => {
            if !confirm(qp, env, psn) {
                return;
            }
            not_ready(qp, env, psn, timer);
        }
        AckSyndrome::Nak(NakCode::PsnSequence) => {
            if !confirm(qp, env, psn) {
                return;
            }
            env.count(qp.attributes.counter_set, |c| &mut c.packet_seq_err);
            env.io.event(qp.number, "Sequence NAK", psn.into());
            send_again(qp, env, VENDOR_SEQUENCE);
        }
        AckSyndrome::Nak(code) => {
            if !confirm(qp, env, psn) {
                return;
            }
            let syndrome = match code {
                NakCode::InvalidRequest => Syndrome::REMOTE_INVALID_REQUEST,
                NakCode::RemoteAccess => {
                    env.count(qp.attributes.counter_set, |c| {
                        &mut c.req_remote_access_errors
                    });
                    Syndrome::REMOTE_ACCESS
                }
                _ => Syndrome::REMOTE_OPERATION,
            };
            fail_at(qp, env, psn, syndrome, VENDOR_NAK);
        }
    }
}

/// Takes everything before `end` as acknowledged.
///
/// False if that cannot be, because an answer with data before `end` is missing: it was lost, and is asked for again.
fn confirm(qp: &mut Qp, env: &mut Env<'_>, end: u32) -> bool {
    let requester = &mut qp.requester;
    let before = requester.unacked;
    let mut missing = None;
    for message in &mut requester.messages {
        if message.packets == 0 && message.done {
            // A local operation, which stands between messages of the wire.
            continue;
        }
        if message.packets == 0 || psn_diff(end, message.first_psn) <= 0 {
            break;
        }
        if message.awaits_data() {
            let expected = psn_add(message.first_psn, message.answered);
            if psn_diff(expected, end) < 0 {
                missing = Some(expected);
            }
            break;
        }
        if psn_diff(end, message.end_psn()) >= 0 {
            message.done = true;
        }
    }
    requester.unacked = missing.unwrap_or(end);
    if psn_diff(requester.unacked, before) > 0 {
        progress(qp, env);
    }
    if missing.is_some() && !qp.requester.asked_again {
        qp.requester.asked_again = true;
        env.count(qp.attributes.counter_set, |c| &mut c.implied_nak_seq_err);
        send_again(qp, env, VENDOR_SEQUENCE);
    }
    missing.is_none()
}

/// The peer is alive: counters and the timer start anew. What is acknowledged is not sent again.
fn progress(qp: &mut Qp, env: &Env<'_>) {
    let requester = &mut qp.requester;
    requester.retries = 0;
    requester.rnr_retries = 0;
    requester.asked_again = false;
    requester.ack_deadline = match qp.attributes.ack_timeout {
        Some(timeout) if requester.outstanding() => Some(env.io.now.saturating_add(timeout)),
        _ => None,
    };
    let position = requester.position;
    if let Some(message) = requester.messages.get(position.message) {
        let at = psn_add(message.first_psn, position.packet);
        if message.packets != 0 && psn_diff(requester.unacked, at) > 0 {
            let unacked = requester.unacked;
            requester.rewind(unacked);
        }
    }
}

/// Goes back to the first packet that is not acknowledged, unless that was tried too often.
fn send_again(qp: &mut Qp, env: &mut Env<'_>, vendor: u8) {
    let psn = qp.requester.unacked;
    if qp.requester.retries >= qp.attributes.retry_count {
        fail_at(qp, env, psn, Syndrome::TRANSPORT_RETRY_EXCEEDED, vendor);
        return;
    }
    qp.requester.retries += 1;
    qp.stats.retries += 1;
    qp.requester.rewind(psn);
    qp.requester.ack_deadline = qp
        .attributes
        .ack_timeout
        .map(|timeout| env.io.now.saturating_add(timeout));
}

fn not_ready(qp: &mut Qp, env: &mut Env<'_>, psn: u32, timer: u8) {
    env.io.event(qp.number, "RNR NAK", psn.into());
    let limit = qp.attributes.rnr_retry;
    if limit != RNR_RETRY_INFINITE && qp.requester.rnr_retries >= limit {
        env.count(qp.attributes.counter_set, |c| &mut c.rnr_nak_retry_err);
        fail_at(qp, env, psn, Syndrome::RNR_RETRY_EXCEEDED, VENDOR_NOT_READY);
        return;
    }
    qp.requester.rnr_retries = qp.requester.rnr_retries.saturating_add(1);
    qp.stats.rnr_retries += 1;
    qp.requester.rewind(psn);
    qp.requester.ack_deadline = None;
    qp.requester.rnr_until = Some(env.io.now.saturating_add(rnr_time(timer)));
}

/// The acknowledge timer has run out.
pub fn timeout(qp: &mut Qp, env: &mut Env<'_>) {
    qp.requester.ack_deadline = None;
    if !qp.requester.outstanding() {
        return;
    }
    env.count(qp.attributes.counter_set, |c| &mut c.local_ack_timeout_err);
    env.io
        .event(qp.number, "Ack Timeout", qp.requester.unacked.into());
    send_again(qp, env, VENDOR_TIMEOUT);
    retire(qp, env);
}

/// A packet of the answer to a READ or an atomic.
fn data(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>) {
    let psn = packet.bth.psn;
    if !confirm(qp, env, psn) {
        return;
    }
    let owner = qp.owner();
    let mtu = u64::from(qp.attributes.mtu);
    let Some(message) = qp
        .requester
        .messages
        .iter_mut()
        .find(|message| message.awaits_data())
    else {
        return;
    };
    if psn != psn_add(message.first_psn, message.answered) {
        return;
    }
    let Ok(work) = &message.work else {
        return;
    };
    let last = message.answered + 1 == message.packets;
    let written = match (&work.task, packet.ext.atomic_ack) {
        (Task::Atomic { data, .. }, Some(old)) => {
            let bytes = if env.host_order_atomics {
                old.to_le_bytes()
            } else {
                old.to_be_bytes()
            };
            access::scatter(env.mkeys, env.io, &owner, data, 0, &bytes)
        }
        (Task::Read { data, .. }, None) => {
            let offset = u64::from(message.answered) * mtu;
            let expected = data.len.saturating_sub(offset).min(mtu);
            let ends = matches!(
                packet.bth.opcode.op,
                Op::ReadResponseLast | Op::ReadResponseOnly
            );
            if packet.payload.len() as u64 != expected || ends != last {
                fail_at(qp, env, psn, Syndrome::BAD_RESPONSE, VENDOR_RESPONSE);
                return;
            }
            if expected != 0 {
                env.io.event(qp.number, "DMA Write", expected);
            }
            access::scatter(env.mkeys, env.io, &owner, data, offset, packet.payload)
        }
        _ => {
            fail_at(qp, env, psn, Syndrome::BAD_RESPONSE, VENDOR_RESPONSE);
            return;
        }
    };
    match written {
        Ok(()) => {
            message.answered += 1;
            message.done = last;
            qp.requester.unacked = psn_add(psn, 1);
            progress(qp, env);
        }
        Err(fault) => message.work = Err(LocalFailure::from(fault)),
    }
}

/// The message with this sequence number has failed; everything before it is acknowledged.
fn fail_at(qp: &mut Qp, env: &mut Env<'_>, psn: u32, syndrome: Syndrome, vendor: u8) {
    // Local operations behind the last packet have been carried out before.
    retire(qp, env);
    let failed = qp.requester.messages.iter_mut().find(|message| {
        !message.done && message.packets != 0 && psn_diff(psn, message.end_psn()) < 0
    });
    if let Some(message) = failed {
        message.work = Err(LocalFailure { syndrome, vendor });
    }
    retire(qp, env);
}

/// Completes messages from the front, as far as they are done; a failed one at the front puts the queue in error.
pub fn retire(qp: &mut Qp, env: &mut Env<'_>) {
    while qp.state.sends() {
        let Some(front) = qp.requester.messages.front() else {
            return;
        };
        let slot = front.slot;
        match &front.work {
            Err(failure) => {
                let failure = *failure;
                pop(qp, slot);
                fail_send(qp, env, slot, failure);
                return;
            }
            Ok(_) if !front.done => return,
            Ok(work) => {
                let byte_cnt = work.task.data().map_or(0, |data| data.len as u32);
                let signaled = work.signaled;
                let event = work.local_event;
                pop(qp, slot);
                if signaled && !succeed(qp, env, slot, event, byte_cnt) {
                    return;
                }
            }
        }
    }
}

/// Takes the front message off the queue.
fn pop(qp: &mut Qp, slot: Slot) {
    qp.requester.messages.pop_front();
    let position = &mut qp.requester.position;
    match position.message.checked_sub(1) {
        Some(message) => position.message = message,
        None => *position = Default::default(),
    }
    if let Some(ring) = &mut qp.send {
        ring.complete(slot.index.wrapping_add(slot.blocks));
    }
}

/// Writes the completion of a send WQE; false if its queue has failed.
fn succeed(qp: &mut Qp, env: &mut Env<'_>, slot: Slot, event: bool, byte_cnt: u32) -> bool {
    let success = Success {
        tail: tail(qp, slot, cqe::Opcode::REQ, event),
        srqn: qp.completion_number(),
        imm: 0,
        byte_cnt,
        timestamp: 0,
        flags_rqpn: 0,
        slid: 0,
        ml_path: 0,
    };
    let written = env.succeed(qp.attributes.send_cq, &success);
    if written.is_err() {
        env.event(qp.number, QpEvent::Catastrophic);
        error::enter(qp, env);
    }
    written.is_ok()
}

/// Reports a failed send WQE and stops the send queue.
pub fn fail_send(qp: &mut Qp, env: &mut Env<'_>, slot: Slot, failure: LocalFailure) {
    let entry = Failure {
        tail: tail(qp, slot, cqe::Opcode::REQ_ERR, false),
        srqn: qp.completion_number(),
        syndrome: failure.syndrome,
        vendor_syndrome: failure.vendor,
    };
    let _ = env.fail(qp.attributes.send_cq, &entry);
    error::enter_from_send(qp, env);
}

/// The last bytes of a completion; the owner bit is set when it is written.
pub fn tail(qp: &Qp, slot: Slot, opcode: cqe::Opcode, solicited: bool) -> Tail {
    Tail {
        wqe_opcode: slot.opcode,
        qpn: qp.number,
        wqe_counter: slot.index,
        signature: 0,
        op_own: Tail::op_own(opcode, solicited, 0, 0),
    }
}
