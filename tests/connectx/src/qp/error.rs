// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs in error: every work request completes as flushed, those posted later too.

use super::answers;
use super::context::{ReceiveKind, Service};
use super::env::{Env, QpEvent};
use super::receive::ReceiveWqe;
use super::requester::{Slot, Step};
use super::responder;
use super::state::State;
use super::Qp;
use crate::cqfmt::cqe::{Failure, Opcode, Tail};
use crate::cqfmt::syndrome::Syndrome;

/// How often the doorbell records of a queue pair in error are read: receives are posted without a doorbell.
pub const POLL_INTERVAL: u64 = 10_000_000;

/// Moves a queue pair to the error state.
pub fn enter(qp: &mut Qp, env: &mut Env<'_>) {
    if qp.state == State::Error {
        return;
    }
    stop(qp, env, State::Error, "Error State");
    // An XRC queue pair has no shared receive queue that it could have the last receive of.
    let shared = matches!(qp.attributes.receive, ReceiveKind::Shared(_));
    if shared && qp.attributes.service != Service::Xrc {
        env.event(qp.number, QpEvent::LastWqe);
    }
}

/// Moves a queue pair to the error state of a failed send: the unreliable services go on receiving.
pub fn enter_from_send(qp: &mut Qp, env: &mut Env<'_>) {
    match qp.attributes.service {
        Service::Uc | Service::Ud | Service::Gsi => {
            stop(qp, env, State::SendError, "Send Error State");
        }
        Service::Rc | Service::Xrc | Service::RegUmr => enter(qp, env),
    }
}

/// Sends nothing any more; from now on, the queue is flushed.
fn stop(qp: &mut Qp, env: &mut Env<'_>, state: State, what: &'static str) {
    qp.state = state;
    env.io.event(qp.number, what, 0);
    qp.requester.ack_deadline = None;
    qp.requester.rnr_until = None;
    qp.requester.busy_until = None;
    qp.error_poll = Some(env.io.now);
    if let Some(ring) = &mut qp.send {
        ring.look();
    }
}

/// Flushes one work request.
pub fn step(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    let progress = match qp.state {
        State::Error => flush_send(qp, env) || flush_receive(qp, env),
        State::SendError => flush_send(qp, env),
        _ => return Step::Idle,
    };
    if progress {
        Step::Progress
    } else {
        Step::Idle
    }
}

fn flush_send(qp: &mut Qp, env: &mut Env<'_>) -> bool {
    if let Some(message) = qp.requester.messages.pop_front() {
        flushed_send(qp, env, message.slot);
        return true;
    }
    qp.requester.position = Default::default();
    let Some(ring) = &mut qp.send else {
        return false;
    };
    if qp.send_failed {
        return false;
    }
    let fetched = ring
        .poll(env.io, qp.attributes.record)
        .and_then(|()| ring.fetch(env.io, &qp.buffer));
    match fetched {
        Ok(None) => false,
        Ok(Some(fetched)) => {
            let slot = Slot {
                index: fetched.index,
                blocks: fetched.blocks,
                opcode: fetched.head.opcode.0,
            };
            flushed_send(qp, env, slot);
            true
        }
        Err(error) => {
            log::warn!("QP {:#x}: send queue failed: {error:?}", qp.number);
            qp.send_failed = true;
            false
        }
    }
}

fn flushed_send(qp: &mut Qp, env: &mut Env<'_>, slot: Slot) {
    if let Some(ring) = &mut qp.send {
        ring.complete(slot.index.wrapping_add(slot.blocks));
    }
    let failure = Failure {
        tail: answers::tail(qp, slot, Opcode::REQ_ERR, false),
        srqn: qp.completion_number(),
        syndrome: Syndrome::FLUSHED,
        vendor_syndrome: Syndrome::FLUSHED.0,
    };
    // A completion queue that has failed takes no more; the flush goes on without it.
    let _ = env.fail(qp.attributes.send_cq, &failure);
}

fn flush_receive(qp: &mut Qp, env: &mut Env<'_>) -> bool {
    if let Some(wqe) = qp.responder.take_incoming() {
        fail_receive(qp, env, &wqe, Syndrome::FLUSHED, Syndrome::FLUSHED.0);
        return true;
    }
    if qp.attributes.receive != ReceiveKind::Own || qp.receive_failed {
        return false;
    }
    match responder::take_receive(qp, env) {
        Ok(Some(wqe)) => {
            fail_receive(qp, env, &wqe, Syndrome::FLUSHED, Syndrome::FLUSHED.0);
            true
        }
        Ok(None) | Err(_) => false,
    }
}

/// Writes the completion of a receive that failed.
pub fn fail_receive(
    qp: &Qp,
    env: &mut Env<'_>,
    wqe: &ReceiveWqe,
    syndrome: Syndrome,
    vendor_syndrome: u8,
) {
    let report = qp.report(wqe);
    let failure = Failure {
        tail: Tail {
            wqe_opcode: 0,
            qpn: qp.number,
            wqe_counter: wqe.index,
            signature: 0,
            op_own: Tail::op_own(Opcode::RESP_ERR, false, 0, 0),
        },
        srqn: report.number,
        syndrome,
        vendor_syndrome,
    };
    // As above.
    let _ = env.fail(report.cqn, &failure);
}
