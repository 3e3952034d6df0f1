// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The responder: request packets of a connected peer.
//!
//! A packet is taken when it is the expected one; what has been seen before is answered again, what comes too early is
//! refused once (IBTA 9.7.4). What a packet asks for is carried out in [`super::requests`]. Answers are queued and sent by [`super::replies`], in the order of the requests.

use std::collections::VecDeque;

use super::context::{ReceiveKind, Service};
use super::env::{Env, QpEvent};
use super::error;
use super::receive::{ReceiveError, ReceiveWqe};
use super::replies::{self, Reply};
use super::requests::{check_depth, check_read, owner, read_packets, take, Refusal};
use super::state::State;
use super::Qp;
use crate::faults;
use crate::wire::{
    psn_add, psn_diff, AckSyndrome, NakCode, Packet, Request, RequestKind, Reth, Transport,
};

/// A message of several packets that has begun.
#[derive(Debug)]
pub enum Incoming {
    Send { wqe: ReceiveWqe, received: u64 },
    Write { to: Reth, received: u64 },
}

/// Result of an atomic, kept for the case that the answer is lost.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    pub psn: u32,
    pub old: u64,
}

/// Responder state of a queue pair.
#[derive(Debug, Default)]
pub struct Responder {
    /// Sequence number of the next packet.
    pub expected_psn: u32,
    /// Messages carried out, 24 bits.
    pub msn: u32,
    pub(super) incoming: Option<Incoming>,
    /// A receive whose message was cut off, on an unreliable connection: the next message takes it.
    pub(super) spare: Option<ReceiveWqe>,
    /// The expected packet was asked for; what comes too early is dropped until it arrives.
    asked: bool,
    /// A packet has come in, so the connection is up.
    established: bool,
    pub replies: VecDeque<Reply>,
    pub(super) executed: VecDeque<Executed>,
}

impl Responder {
    /// Starts with the first sequence number of the connection.
    pub fn start(&mut self, psn: u32) {
        self.expected_psn = psn;
    }

    /// The receive of a message that will not be completed.
    pub fn take_incoming(&mut self) -> Option<ReceiveWqe> {
        match self.incoming.take() {
            Some(Incoming::Send { wqe, .. }) => Some(wqe),
            _ => self.spare.take(),
        }
    }

    /// Gives up the message that has begun; its receive stays for the next one.
    fn cut_off(&mut self) {
        if let Some(wqe) = self.take_incoming() {
            self.spare = Some(wqe);
        }
    }
}

/// The receive queue cannot be used; the queue pair is in error.
pub struct Broken;

/// Takes a receive WQE, from the queue pair's own queue or a shared one.
///
/// # Errors
///
/// [`Broken`].
pub fn take_receive(qp: &mut Qp, env: &mut Env<'_>) -> Result<Option<ReceiveWqe>, Broken> {
    match qp.attributes.receive {
        ReceiveKind::None => Ok(None),
        ReceiveKind::Shared(number) => match env.srqs.table.get_mut(number) {
            Some(srq) => Ok(srq.pop(number, env.eqs, env.io)),
            None => Ok(None),
        },
        ReceiveKind::Own => {
            let Some(ring) = &mut qp.receive else {
                return Ok(None);
            };
            ring.pop(env.io, &qp.buffer, qp.attributes.record)
                .map_err(|error| receive_failed(qp, env, error))
        }
    }
}

fn receive_failed(qp: &mut Qp, env: &mut Env<'_>, error: ReceiveError) -> Broken {
    log::warn!("QP {:#x}: receive queue failed: {error:?}", qp.number);
    qp.receive_failed = true;
    env.event(qp.number, QpEvent::Catastrophic);
    error::enter(qp, env);
    Broken
}

/// A request packet for this queue pair.
pub fn receive(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, request: Request) {
    if qp.state == State::ReadyToReceive && !qp.responder.established {
        qp.responder.established = true;
        env.event(qp.number, QpEvent::Established);
    }
    let ahead = psn_diff(packet.bth.psn, qp.responder.expected_psn);
    if !qp.attributes.service.is_reliable() {
        return unreliable(qp, env, packet, request, ahead);
    }
    match ahead {
        0 => expected(qp, env, packet, request),
        1.. => early(qp, env),
        _ => duplicate(qp, env, packet, request),
    }
}

/// A packet before this one is missing.
fn early(qp: &mut Qp, env: &mut Env<'_>) {
    env.count(qp.attributes.counter_set, |c| &mut c.out_of_sequence);
    if qp.responder.asked {
        return;
    }
    qp.responder.asked = true;
    replies::acknowledge(
        qp,
        qp.responder.expected_psn,
        AckSyndrome::Nak(NakCode::PsnSequence),
    );
}

/// A packet that was taken before.
fn duplicate(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, request: Request) {
    env.count(qp.attributes.counter_set, |c| &mut c.duplicate_request);
    let psn = packet.bth.psn;
    match request.kind {
        RequestKind::Send | RequestKind::Write => {
            let last = psn_add(qp.responder.expected_psn, u32::MAX);
            replies::acknowledge(qp, last, AckSyndrome::Ack);
        }
        RequestKind::Read => {
            // The requester has gone back to here: it will ask anew for what comes behind.
            replies::forget_from(qp, psn);
            let Some(reth) = packet.ext.reth else {
                return;
            };
            let count = read_packets(&reth, qp.attributes.mtu);
            let end = psn_add(psn, count);
            let Ok(owner) = owner(qp, env, packet) else {
                return;
            };
            // As many answers with data wait as the queue pair has resources for, whoever asks how often.
            if psn_diff(end, qp.responder.expected_psn) <= 0
                && check_depth(qp).is_ok()
                && check_read(qp, env, &owner, &reth).is_ok()
            {
                replies::read(qp, psn, reth, owner);
            }
        }
        RequestKind::Atomic => {
            // From the latest on: one of a round of sequence numbers before may have the same.
            let mut saved = qp.responder.executed.iter().rev();
            let saved = saved.find(|e| e.psn == psn).copied();
            if let Some(Executed { old, .. }) = saved {
                replies::forget_from(qp, psn);
                if check_depth(qp).is_ok() {
                    replies::atomic(qp, psn, old);
                }
            }
        }
    }
}

/// The packet that is next.
fn expected(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, request: Request) {
    qp.responder.asked = false;
    let psn = packet.bth.psn;
    if let Some(refusal) = env.io.faults.request(qp.number) {
        return refuse_by_fault(qp, env, psn, refusal);
    }
    match take(qp, env, packet, request) {
        Ok(consumed) => {
            qp.responder.expected_psn = psn_add(psn, consumed);
            if packet.bth.ack_req && matches!(request.kind, RequestKind::Send | RequestKind::Write)
            {
                replies::acknowledge(qp, psn, AckSyndrome::Ack);
            }
        }
        Err(Refusal::NotReady) => {
            env.count(qp.attributes.counter_set, |c| &mut c.out_of_buffer);
            env.io.event(qp.number, "Receiver Not Ready", psn.into());
            qp.responder.asked = true;
            let timer = qp.attributes.min_rnr_timer;
            replies::acknowledge(qp, psn, AckSyndrome::RnrNak(timer));
        }
        Err(Refusal::Nak(code)) => refuse(qp, env, psn, code),
        Err(Refusal::Receive(code, wqe, syndrome, vendor)) => {
            error::fail_receive(qp, env, &wqe, syndrome, vendor);
            refuse(qp, env, psn, code);
        }
        Err(Refusal::Broken) => {}
    }
}

/// Refuses a request that nothing is wrong with.
fn refuse_by_fault(qp: &mut Qp, env: &mut Env<'_>, psn: u32, refusal: faults::Refusal) {
    match refusal.nak() {
        None => {
            qp.responder.asked = true;
            let timer = qp.attributes.min_rnr_timer;
            replies::acknowledge(qp, psn, AckSyndrome::RnrNak(timer));
        }
        Some(NakCode::PsnSequence) => early(qp, env),
        Some(code) => refuse(qp, env, psn, code),
    }
}

/// Answers with a fatal code; the queue pair fails.
pub fn refuse(qp: &mut Qp, env: &mut Env<'_>, psn: u32, code: NakCode) {
    env.io.event(qp.number, "NAK", psn.into());
    replies::acknowledge(qp, psn, AckSyndrome::Nak(code));
    match code {
        NakCode::RemoteAccess => {
            env.count(qp.attributes.counter_set, |c| {
                &mut c.resp_remote_access_errors
            });
            env.event(qp.number, QpEvent::AccessError);
        }
        NakCode::InvalidRequest => env.event(qp.number, QpEvent::InvalidRequest),
        NakCode::PsnSequence | NakCode::RemoteOperation => {}
    }
    error::enter(qp, env);
}

/// A packet of an unreliable connection: a gap ends the message, and nothing is answered.
fn unreliable(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, request: Request, ahead: i32) {
    if ahead != 0 {
        qp.responder.cut_off();
    }
    qp.responder.expected_psn = psn_add(packet.bth.psn, 1);
    if !request.first && qp.responder.incoming.is_none() {
        return;
    }
    match take(qp, env, packet, request) {
        Ok(_) | Err(Refusal::Broken) => {}
        Err(Refusal::NotReady | Refusal::Nak(_)) => qp.responder.cut_off(),
        Err(Refusal::Receive(_, wqe, syndrome, vendor)) => {
            error::fail_receive(qp, env, &wqe, syndrome, vendor);
            error::enter(qp, env);
        }
    }
}

/// Does the packet belong to the service of the queue pair?
pub fn speaks(service: Service, transport: Transport) -> bool {
    service.is_connected() && service.transport() == transport
}
