// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Carrying out what a packet of the peer asks for.

use super::access::{self, Owner};
use super::atomics;
use super::env::{Env, QpEvent};
use super::error;
use super::receive::ReceiveWqe;
use super::replies;
use super::responder::{take_receive, Broken, Incoming};
use super::Qp;
use crate::cqfmt::cqe::{self, Success};
use crate::cqfmt::syndrome::Syndrome;
use crate::dma::Kind;
use crate::mkey::{Fault, Right};
use crate::wire::{psn_add, NakCode, Packet, Request, RequestKind, Reth, Tail};

/// Vendor syndrome of a message that is longer than its receive.
const VENDOR_RECEIVE_TOO_SHORT: u8 = 0x42;

/// Why a request is not carried out.
pub enum Refusal {
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

/// Who accesses memory for a request: the queue pair, and on XRC in the protection domain of the shared receive queue
/// that the packet names. The queue must be of the queue pair's domain.
///
/// # Errors
///
/// `RemoteAccess`: no such queue, or one of another domain (both are access errors of the queue pair to
/// `drivers/infiniband/hw/qedr/main.c`; what mlx5 hardware answers stands nowhere).
pub fn owner(qp: &Qp, env: &Env<'_>, packet: &Packet<'_>) -> Result<Owner, Refusal> {
    let Some(number) = packet.ext.xrc_srq else {
        return Ok(qp.owner());
    };
    env.srqs
        .table
        .get(number)
        .filter(|srq| {
            let extended = srq.config.extended;
            extended.is_some_and(|extended| extended.xrcd == qp.attributes.xrcd)
        })
        .map(|srq| Owner {
            pd: srq.config.pd,
            ..qp.owner()
        })
        .ok_or(Refusal::Nak(NakCode::RemoteAccess))
}

/// Carries out a packet; returns how many sequence numbers it takes.
pub fn take(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    request: Request,
) -> Result<u32, Refusal> {
    check_place(qp, packet, request)?;
    let owner = owner(qp, env, packet)?;
    match request.kind {
        RequestKind::Send => take_send(qp, env, packet, &owner, request),
        RequestKind::Write => take_write(qp, env, packet, &owner, request),
        RequestKind::Read => take_read(qp, env, packet, owner),
        RequestKind::Atomic => atomics::take(qp, env, packet, &owner),
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

fn next_receive(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
) -> Result<ReceiveWqe, Refusal> {
    if let Some(number) = packet.ext.xrc_srq {
        let srq = env.srqs.table.get_mut(number);
        return srq
            .and_then(|srq| srq.pop(number, env.eqs, env.io))
            .ok_or(Refusal::NotReady);
    }
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
    owner: &Owner,
    request: Request,
) -> Result<u32, Refusal> {
    let (wqe, received) = match qp.responder.incoming.take() {
        Some(Incoming::Send { wqe, received }) => (wqe, received),
        _ => (next_receive(qp, env, packet)?, 0),
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
    let scatterer = Owner {
        pd: wqe.pd.unwrap_or(owner.pd),
        ..*owner
    };
    if !packet.payload.is_empty() {
        env.io
            .event(qp.number, "DMA Write", packet.payload.len() as u64);
    }
    let written = access::scatter(
        env.mkeys,
        env.io,
        &scatterer,
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
        if env.mkeys.invalidate(key, owner.pd, owner.qpn).is_err() {
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
    owner: &Owner,
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
            check_write(qp, env, owner, &reth)?;
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
        Tail::Immediate => Some(next_receive(qp, env, packet)?),
        _ => None,
    };
    let access = owner.access(to.rkey, to.va.wrapping_add(received), 0, Right::RemoteWrite);
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
fn check_write(qp: &Qp, env: &Env<'_>, owner: &Owner, to: &Reth) -> Result<(), Refusal> {
    check_range(
        env,
        owner,
        to,
        qp.attributes.remote_write,
        Right::RemoteWrite,
    )
}

/// May the peer read there?
pub fn check_read(qp: &Qp, env: &Env<'_>, owner: &Owner, from: &Reth) -> Result<(), Refusal> {
    check_range(
        env,
        owner,
        from,
        qp.attributes.remote_read,
        Right::RemoteRead,
    )
}

/// Longest message in bytes by the standard. With the smallest packets, it takes half of all sequence numbers.
const MAX_MESSAGE: u32 = 1 << 31;

/// Does the key give this right to the range, on a queue pair that allows it?
fn check_range(
    env: &Env<'_>,
    owner: &Owner,
    range: &Reth,
    allowed: bool,
    right: Right,
) -> Result<(), Refusal> {
    if range.length > MAX_MESSAGE {
        return Err(Refusal::Nak(NakCode::InvalidRequest));
    }
    if !allowed {
        return Err(Refusal::Nak(NakCode::RemoteAccess));
    }
    let access = owner.access(range.rkey, range.va, range.length.into(), right);
    Ok(env.mkeys.check(&access)?)
}

/// Sequence numbers that a READ takes: one per packet of the answer.
pub fn read_packets(reth: &Reth, mtu: u32) -> u32 {
    reth.length.div_ceil(mtu).max(1)
}

fn take_read(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    owner: Owner,
) -> Result<u32, Refusal> {
    let reth = packet
        .ext
        .reth
        .ok_or(Refusal::Nak(NakCode::InvalidRequest))?;
    env.count(qp.attributes.counter_set, |c| &mut c.rx_read_requests);
    check_depth(qp)?;
    check_read(qp, env, &owner, &reth)?;
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    replies::read(qp, packet.bth.psn, reth, owner);
    Ok(read_packets(&reth, qp.attributes.mtu))
}

/// More READs and atomics at a time than agreed are an invalid request.
pub fn check_depth(qp: &Qp) -> Result<(), Refusal> {
    let pending = replies::with_data(qp);
    (pending < qp.attributes.max_reads_in as usize)
        .then_some(())
        .ok_or(Refusal::Nak(NakCode::InvalidRequest))
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
    let report = qp.report(wqe);
    let success = Success {
        tail: cqe::Tail {
            wqe_opcode: 0,
            qpn: qp.number,
            wqe_counter: wqe.index,
            signature: 0,
            op_own: cqe::Tail::op_own(opcode, packet.bth.solicited, 0, 0),
        },
        srqn: report.number,
        imm,
        byte_cnt: byte_cnt as u32,
        timestamp: 0,
        flags_rqpn: 0,
        slid: 0,
        ml_path: 0,
    };
    env.succeed(report.cqn, &success).map_err(|_| {
        env.event(qp.number, QpEvent::Catastrophic);
        error::enter(qp, env);
        Refusal::Broken
    })
}
