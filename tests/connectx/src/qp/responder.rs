// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The responder: request packets of a connected peer.
//!
//! A packet is taken when it is the expected one; what has been seen before is answered again, what comes too early is
//! refused once (IBTA 9.7.4). Answers are queued and sent by [`super::replies`], in the order of the requests.

use std::collections::VecDeque;

use super::access::{self, Owner};
use super::context::{ReceiveKind, Service};
use super::env::{Env, QpEvent};
use super::error;
use super::receive::{ReceiveError, ReceiveWqe};
use super::replies::{self, Reply};
use super::state::State;
use super::Qp;
use crate::cqfmt::cqe::{self, Success};
use crate::cqfmt::syndrome::Syndrome;
use crate::dma::Kind;
use crate::faults;
use crate::mkey::{Fault, Right};
use crate::wire::{
    psn_add, psn_diff, AckSyndrome, AtomicEth, NakCode, Op, Packet, Request, RequestKind, Reth,
    Tail, Transport,
};

/// Vendor syndrome of a message that is longer than its receive.
const VENDOR_RECEIVE_TOO_SHORT: u8 = 0x42;

/// A message of several packets that has begun.
#[derive(Debug)]
pub enum Incoming {
    Send { wqe: ReceiveWqe, received: u64 },
    Write { to: Reth, received: u64 },
}

/// Result of an atomic, kept for the case that the answer is lost.
#[derive(Clone, Copy, Debug)]
struct Executed {
    psn: u32,
    old: u64,
}

/// Responder state of a queue pair.
#[derive(Debug, Default)]
pub struct Responder {
    /// Sequence number of the next packet.
    pub expected_psn: u32,
    /// Messages carried out, 24 bits.
    pub msn: u32,
    incoming: Option<Incoming>,
    /// A receive whose message was cut off, on an unreliable connection: the next message takes it.
    spare: Option<ReceiveWqe>,
    /// The expected packet was asked for; what comes too early is dropped until it arrives.
    asked: bool,
    /// A packet has come in, so the connection is up.
    established: bool,
    pub replies: VecDeque<Reply>,
    executed: VecDeque<Executed>,
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

/// Why a request is not carried out.
enum Refusal {
    /// No receive is posted.
    NotReady,
    /// The answer is this code, and the queue pair fails.
    Nak(NakCode),
    /// As above, and the receive completes with this syndrome.
    Receive(NakCode, ReceiveWqe, Syndrome, u8),
    /// The receive queue cannot be used: nothing is answered.
    Broken,
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Self {
        Refusal::Nak(NakCode::RemoteAccess)
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
    if qp.attributes.service == Service::Uc {
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
            if psn_diff(end, qp.responder.expected_psn) <= 0 && check_read(qp, env, &reth).is_ok() {
                replies::read(qp, psn, reth);
            }
        }
        RequestKind::Atomic => {
            let saved = qp.responder.executed.iter().find(|e| e.psn == psn);
            if let Some(Executed { old, .. }) = saved.copied() {
                replies::forget_from(qp, psn);
                replies::atomic(qp, psn, old);
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

/// Carries out a packet; returns how many sequence numbers it takes.
fn take(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    request: Request,
) -> Result<u32, Refusal> {
    check_place(qp, packet, request)?;
    match request.kind {
        RequestKind::Send => take_send(qp, env, packet, request),
        RequestKind::Write => take_write(qp, env, packet, request),
        RequestKind::Read => take_read(qp, env, packet),
        RequestKind::Atomic => take_atomic(qp, env, packet),
    }
}

/// Does the packet continue what has begun, and is its payload as long as its place in the message demands?
fn check_place(qp: &Qp, packet: &Packet<'_>, request: Request) -> Result<(), Refusal> {
    let begun = match &qp.responder.incoming {
        None => None,
        Some(Incoming::Send { .. }) => Some(RequestKind::Send),
        Some(Incoming::Write { .. }) => Some(RequestKind::Write),
    };
    let fits = match begun {
        None => request.first,
        Some(kind) => !request.first && request.kind == kind,
    };
    let mtu = qp.attributes.mtu as usize;
    let len = packet.payload.len();
    let length = match (request.kind, request.first, request.last) {
        (RequestKind::Read | RequestKind::Atomic, ..) => len == 0,
        (_, _, false) => len == mtu,
        (_, false, true) => (1..=mtu).contains(&len),
        (_, true, true) => len <= mtu,
    };
    (fits && length)
        .then_some(())
        .ok_or(Refusal::Nak(NakCode::InvalidRequest))
}

fn next_receive(qp: &mut Qp, env: &mut Env<'_>) -> Result<ReceiveWqe, Refusal> {
    if let Some(wqe) = qp.responder.spare.take() {
        return Ok(wqe);
    }
    take_receive(qp, env)
        .map_err(|Broken| Refusal::Broken)?
        .ok_or(Refusal::NotReady)
}

fn take_send(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    request: Request,
) -> Result<u32, Refusal> {
    let (wqe, received) = match qp.responder.incoming.take() {
        Some(Incoming::Send { wqe, received }) => (wqe, received),
        _ => (next_receive(qp, env)?, 0),
    };
    let total = received.saturating_add(packet.payload.len() as u64);
    if total > wqe.segments.len {
        return Err(Refusal::Receive(
            NakCode::InvalidRequest,
            wqe,
            Syndrome::LOCAL_LENGTH,
            VENDOR_RECEIVE_TOO_SHORT,
        ));
    }
    if let Some((syndrome, vendor)) = env.io.faults.receive(qp.number) {
        return Err(Refusal::Receive(
            NakCode::RemoteOperation,
            wqe,
            Syndrome(syndrome),
            vendor,
        ));
    }
    let owner = Owner {
        pd: wqe.pd.unwrap_or(qp.attributes.pd),
        ..qp.owner()
    };
    if !packet.payload.is_empty() {
        env.io
            .event(qp.number, "DMA Write", packet.payload.len() as u64);
    }
    let written = access::scatter(
        env.mkeys,
        env.io,
        &owner,
        &wqe.segments,
        received,
        packet.payload,
    );
    if let Err(fault) = written {
        return Err(Refusal::Receive(
            NakCode::RemoteOperation,
            wqe,
            Syndrome::LOCAL_PROTECTION,
            fault as u8,
        ));
    }
    if !request.last {
        qp.responder.incoming = Some(Incoming::Send {
            wqe,
            received: total,
        });
        return Ok(1);
    }
    if let Some(key) = packet.ext.invalidate {
        if env.mkeys.invalidate(key, qp.attributes.pd).is_err() {
            return Err(Refusal::Receive(
                NakCode::RemoteAccess,
                wqe,
                Syndrome::LOCAL_ACCESS,
                NakCode::RemoteAccess as u8,
            ));
        }
    }
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    let (opcode, immediate) = match request.tail {
        Tail::None => (cqe::Opcode::RESP_SEND, 0),
        Tail::Immediate => (
            cqe::Opcode::RESP_SEND_IMM,
            packet.ext.immediate.map_or(0, u32::from_be_bytes),
        ),
        Tail::Invalidate => (
            cqe::Opcode::RESP_SEND_INV,
            packet.ext.invalidate.unwrap_or(0),
        ),
    };
    complete(qp, env, packet, &wqe, opcode, immediate, total)?;
    Ok(1)
}

fn take_write(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    request: Request,
) -> Result<u32, Refusal> {
    let (to, received) = match &qp.responder.incoming {
        Some(Incoming::Write { to, received }) => (*to, *received),
        _ => {
            let reth = packet
                .ext
                .reth
                .ok_or(Refusal::Nak(NakCode::InvalidRequest))?;
            env.count(qp.attributes.counter_set, |c| &mut c.rx_write_requests);
            check_write(qp, env, &reth)?;
            (reth, 0)
        }
    };
    let total = received.saturating_add(packet.payload.len() as u64);
    let length = u64::from(to.length);
    if total > length || (request.last && total != length) {
        return Err(Refusal::Nak(NakCode::InvalidRequest));
    }
    // Before the payload: a message that has to come again must not have been completed.
    let wqe = match request.tail {
        Tail::Immediate => Some(next_receive(qp, env)?),
        _ => None,
    };
    let access = qp
        .owner()
        .access(to.rkey, to.va.wrapping_add(received), 0, Right::RemoteWrite);
    if !packet.payload.is_empty() {
        env.io
            .event(qp.number, "DMA Write", packet.payload.len() as u64);
    }
    let written = access::write(env.mkeys, env.io, Kind::Payload, access, packet.payload);
    if let Err(fault) = written {
        return Err(match wqe {
            Some(wqe) => Refusal::Receive(
                NakCode::RemoteAccess,
                wqe,
                Syndrome::LOCAL_ACCESS,
                fault as u8,
            ),
            None => fault.into(),
        });
    }
    if !request.last {
        qp.responder.incoming = Some(Incoming::Write {
            to,
            received: total,
        });
        return Ok(1);
    }
    qp.responder.incoming = None;
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    if let Some(wqe) = wqe {
        let immediate = packet.ext.immediate.map_or(0, u32::from_be_bytes);
        complete(
            qp,
            env,
            packet,
            &wqe,
            cqe::Opcode::RESP_WRITE_IMM,
            immediate,
            total,
        )?;
    }
    Ok(1)
}

/// May the peer write there? A WRITE of no bytes needs no key.
fn check_write(qp: &Qp, env: &Env<'_>, to: &Reth) -> Result<(), Refusal> {
    if !qp.attributes.remote_write {
        return Err(Refusal::Nak(NakCode::RemoteAccess));
    }
    let access = qp
        .owner()
        .access(to.rkey, to.va, to.length.into(), Right::RemoteWrite);
    Ok(env.mkeys.check(&access)?)
}

fn check_read(qp: &Qp, env: &Env<'_>, from: &Reth) -> Result<(), Refusal> {
    if !qp.attributes.remote_read {
        return Err(Refusal::Nak(NakCode::RemoteAccess));
    }
    let access = qp
        .owner()
        .access(from.rkey, from.va, from.length.into(), Right::RemoteRead);
    Ok(env.mkeys.check(&access)?)
}

/// Sequence numbers that a READ takes: one per packet of the answer.
fn read_packets(reth: &Reth, mtu: u32) -> u32 {
    reth.length.div_ceil(mtu).max(1)
}

fn take_read(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>) -> Result<u32, Refusal> {
    let reth = packet
        .ext
        .reth
        .ok_or(Refusal::Nak(NakCode::InvalidRequest))?;
    env.count(qp.attributes.counter_set, |c| &mut c.rx_read_requests);
    check_depth(qp)?;
    check_read(qp, env, &reth)?;
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    replies::read(qp, packet.bth.psn, reth);
    Ok(read_packets(&reth, qp.attributes.mtu))
}

/// More READs and atomics at a time than agreed are an invalid request.
fn check_depth(qp: &Qp) -> Result<(), Refusal> {
    let pending = replies::with_data(qp);
    (pending < qp.attributes.max_reads_in as usize)
        .then_some(())
        .ok_or(Refusal::Nak(NakCode::InvalidRequest))
}

fn take_atomic(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>) -> Result<u32, Refusal> {
    let invalid = Refusal::Nak(NakCode::InvalidRequest);
    let Some(atomic) = packet.ext.atomic else {
        return Err(invalid);
    };
    env.count(qp.attributes.counter_set, |c| &mut c.rx_atomic_requests);
    check_depth(qp)?;
    if atomic.va % 8 != 0 {
        return Err(invalid);
    }
    if !qp.attributes.remote_atomic {
        return Err(Refusal::Nak(NakCode::RemoteAccess));
    }
    let access = qp.owner().access(atomic.rkey, atomic.va, 8, Right::Atomic);
    let op = packet.bth.opcode.op;
    let host_order = env.host_order_atomics;
    let raw = access::update(env.mkeys, env.io, access, |raw| {
        operand(host_order, execute(op, &atomic, operand(host_order, raw)))
    })?;
    let old = operand(host_order, raw);
    env.io.event(qp.number, "Atomic", atomic.va);
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    let psn = packet.bth.psn;
    qp.responder.executed.push_back(Executed { psn, old });
    if qp.responder.executed.len() > qp.attributes.max_reads_in as usize {
        qp.responder.executed.pop_front();
    }
    replies::atomic(qp, psn, old);
    Ok(1)
}

/// Between a word as the host's CPU loads it and the number that it stands for.
fn operand(host_order: bool, word: u64) -> u64 {
    if host_order {
        word
    } else {
        word.swap_bytes()
    }
}

/// The new value of an atomic's operand.
fn execute(op: Op, atomic: &AtomicEth, old: u64) -> u64 {
    match op {
        Op::CompareSwap | Op::MaskedCompareSwap => {
            if (old ^ atomic.compare) & atomic.compare_mask == 0 {
                (old & !atomic.swap_add_mask) | (atomic.swap_add & atomic.swap_add_mask)
            } else {
                old
            }
        }
        _ => add_in_fields(old, atomic.swap_add, atomic.swap_add_mask),
    }
}

/// Adds without a carry out of the bits set in `tops`, each the top bit of a field.
fn add_in_fields(a: u64, b: u64, tops: u64) -> u64 {
    (a & !tops).wrapping_add(b & !tops) ^ ((a ^ b) & tops)
}

fn complete(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    wqe: &ReceiveWqe,
    opcode: cqe::Opcode,
    imm: u32,
    byte_cnt: u64,
) -> Result<(), Refusal> {
    let success = Success {
        tail: cqe::Tail {
            wqe_opcode: 0,
            qpn: qp.number,
            wqe_counter: wqe.index,
            signature: 0,
            op_own: cqe::Tail::op_own(opcode, packet.bth.solicited, 0, 0),
        },
        srqn: qp.completion_number(),
        imm,
        byte_cnt: byte_cnt as u32,
        timestamp: 0,
        flags_rqpn: 0,
        slid: 0,
        ml_path: 0,
    };
    env.succeed(qp.attributes.receive_cq, &success)
        .map_err(|_| {
            env.event(qp.number, QpEvent::Catastrophic);
            error::enter(qp, env);
            Refusal::Broken
        })
}

/// Does the packet belong to the service of the queue pair?
pub fn speaks(service: Service, transport: Transport) -> bool {
    matches!(
        (service, transport),
        (Service::Rc, Transport::Rc) | (Service::Uc, Transport::Uc)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_keeps_to_its_fields() {
        assert_eq!(add_in_fields(u64::MAX, 1, 0), 0);
        // Two fields of 32 bits: the carry of the lower one is lost.
        let tops = 1 << 31;
        assert_eq!(add_in_fields(0xffff_ffff, 1, tops), 0);
        assert_eq!(
            add_in_fields(0x1_0000_0000, 0xffff_ffff, tops),
            0x1_ffff_ffff
        );
        assert_eq!(add_in_fields(0x8000_0000, 0x8000_0000, tops), 0);
        // A field per bit is an exclusive or.
        assert_eq!(add_in_fields(0b1100, 0b1010, u64::MAX), 0b0110);
    }

    #[test]
    fn compare_and_swap_looks_through_its_masks() {
        let a = AtomicEth {
            va: 0,
            rkey: 0,
            swap_add: 0xaaaa,
            compare: 0x12,
            swap_add_mask: 0xff00,
            compare_mask: 0x00ff,
        };
        assert_eq!(execute(Op::MaskedCompareSwap, &a, 0x5512), 0xaa12);
        assert_eq!(execute(Op::MaskedCompareSwap, &a, 0x5513), 0x5513);
    }
}
