// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receive queues of the netdev.

use super::cqe::{self, Received};
use super::frame::{self, Headers};
use super::rss::Hash;
use super::sq::State;
use super::wq::WorkQueue;
use crate::cqfmt::cqe::Opcode as CqeOpcode;
use crate::cqfmt::syndrome::Syndrome;
use crate::dma::Kind;
use crate::field;
use crate::hca::Hca;
use crate::ifc;
use crate::io::Io;
use crate::mkey::{Access, Fault, Mkeys, Right, Span, RESERVED_LKEY};
use crate::qp::error::POLL_INTERVAL;
use crate::wqe::data::{Data, SIZE as SEGMENT};

/// Word of the doorbell record with the producer counter of a receive queue.
const RECV_COUNTER: u64 = 0;

/// A receive queue.
#[derive(Debug)]
pub struct Rq {
    /// The ring.
    pub wq: WorkQueue,
    /// CQ for completions.
    pub cqn: u32,
    /// Context as the driver gave or changed it.
    pub context: [u8; 0x30],
    /// Whether the reserved key may be used.
    pub reserved_lkey: bool,
    /// Whether WQEs complete as flushed once the queue is in error (`flush_in_error_en`).
    flushes: bool,
    /// State.
    pub state: State,
    /// Next WQE to use.
    consumer: u16,
}

impl Rq {
    /// A queue in reset.
    pub fn new(wq: WorkQueue, cqn: u32, context: [u8; 0x30]) -> Self {
        Self {
            wq,
            cqn,
            context,
            reserved_lkey: ifc::flag(&context, field!(mlx5_ifc_rqc_bits, rlky)),
            flushes: ifc::flag(&context, field!(mlx5_ifc_rqc_bits, flush_in_error_en)),
            state: State::Reset,
            consumer: 0,
        }
    }

    /// Changes the state; reset starts from index 0.
    pub fn set_state(&mut self, state: State) {
        self.state = state;
        if state == State::Reset {
            self.consumer = 0;
        }
    }

    /// Whether VLAN tags are taken off (`rqc.vsd` is "VLAN stripping disabled").
    fn strips_vlan(&self) -> bool {
        !ifc::flag(&self.context, field!(mlx5_ifc_rqc_bits, vsd))
    }

    /// WQEs that are posted.
    fn posted(&self, io: &mut Io) -> Result<u16, Unusable> {
        let posted = self.wq.posted(io, RECV_COUNTER, self.consumer);
        let posted = posted.map_err(|_| Unusable("doorbell record is no memory"))?;
        if u32::from(posted) > self.wq.size() {
            return Err(Unusable("more is posted than fits"));
        }
        Ok(posted)
    }
}

/// Why no WQE of a queue can be used any more.
struct Unusable(&'static str);

/// A frame without its VLAN tag, and the tag.
fn strip(frame: &[u8]) -> Option<(Vec<u8>, u16)> {
    let (addresses, rest) = frame.split_at_checked(12)?;
    match *rest {
        [0x81, 0x00, hi, lo, ref rest @ ..] => {
            Some(([addresses, rest].concat(), u16::from_be_bytes([hi, lo])))
        }
        _ => None,
    }
}

/// Pieces of guest memory and what goes there; `None` if the WQE has no room for the frame.
type Pieces<'a> = Option<Vec<(u64, &'a [u8])>>;

/// Where the parts of a frame go by a WQE.
fn scatter<'a>(
    rq: &Rq,
    rqn: u32,
    mkeys: &Mkeys,
    wqe: &[u8],
    frame: &'a [u8],
) -> Result<Pieces<'a>, Fault> {
    let mut rest = frame;
    let mut pieces = Vec::new();
    for segment in wqe
        .chunks_exact(SEGMENT)
        .filter_map(|segment| segment.first_chunk())
    {
        let data = Data::decode(segment);
        if rest.is_empty() || (data.lkey == RESERVED_LKEY && data.byte_count == 0) {
            break;
        }
        let (mut part, later) = rest.split_at(rest.len().min(data.byte_count as usize));
        let access = Access {
            key: data.lkey,
            va: data.addr,
            len: part.len() as u64,
            right: Right::LocalWrite,
            pd: rq.wq.pd,
            qpn: rqn,
            reserved_lkey: rq.reserved_lkey,
        };
        let mut spans = Vec::new();
        mkeys.translate(&access, &mut spans)?;
        for span in spans {
            let (Span::Memory { len, .. } | Span::Null { len }) = span;
            let (now, then) = part.split_at(len.min(part.len()));
            if let Span::Memory { addr, .. } = span {
                pieces.push((addr, now));
            }
            part = then;
        }
        rest = later;
    }
    Ok(rest.is_empty().then_some(pieces))
}

/// Writes a frame to the next WQE of a queue; false if the queue cannot take it.
pub(super) fn receive(hca: &mut Hca, rqn: u32, hash: Hash, frame: &[u8]) -> bool {
    let Hca {
        net,
        mkeys,
        io,
        cqs,
        eqs,
        ..
    } = hca;
    let Some(rq) = net.rqs.get_mut(rqn).filter(|rq| rq.state == State::Ready) else {
        return false;
    };
    match rq.posted(io) {
        Ok(0) => return false,
        Ok(_) => {}
        Err(Unusable(why)) => {
            log::error!("RQ {rqn:#x}: {why}");
            fail(hca, rqn);
            return false;
        }
    }
    let index = rq.consumer;
    let mut wqe = vec![0; rq.wq.stride()];
    if rq.wq.read(io, Kind::RecvWqeFetch, index, &mut wqe).is_err() {
        log::error!("RQ {rqn:#x}: ring is no memory");
        rq.consumer = index.wrapping_add(1);
        complete_failed(hca, rqn, index, Syndrome::LOCAL_QP_OPERATION);
        fail(hca, rqn);
        return false;
    }
    let stripped = rq.strips_vlan().then(|| strip(frame)).flatten();
    let vlan = stripped.as_ref().map(|(_, tag)| *tag);
    let frame = stripped.as_ref().map_or(frame, |(frame, _)| frame);
    let written = match scatter(rq, rqn, mkeys, &wqe, frame) {
        // A frame that is too long for the WQE is dropped; the WQE stays.
        Ok(None) => return false,
        Ok(Some(pieces)) => pieces.into_iter().all(|(addr, bytes)| {
            let written = io.memory.write(Kind::Payload, addr, bytes);
            written.is_ok()
        }),
        Err(fault) => {
            log::error!("RQ {rqn:#x}: WQE {index}: {fault:?}");
            false
        }
    };
    io.counters.recv_wqes += 1;
    rq.consumer = index.wrapping_add(1);
    if !written {
        complete_failed(hca, rqn, index, Syndrome::LOCAL_PROTECTION);
        fail(hca, rqn);
        return false;
    }
    let ip = Headers::parse(frame).and_then(|headers| headers.ip);
    let what = Received {
        len: frame.len() as u32,
        vlan,
        hash: (hash.value, hash.kind),
        check_sum: ip.map_or(0, |ip| {
            frame::sum(frame.get(ip.start..ip.end).unwrap_or(&[]), 0)
        }),
        checksums_ok: ip.map_or((false, false), |ip| frame::verify(frame, &ip)),
    };
    let entry = cqe::received(io, rqn, index, &what);
    io.event(rqn, "CQE Write", index.into());
    crate::cq::post(cqs, eqs, io, rq.cqn, entry).is_ok()
}

/// Writes the completion of a WQE that was not filled.
fn complete_failed(hca: &mut Hca, rqn: u32, index: u16, syndrome: Syndrome) {
    let Hca {
        net, io, cqs, eqs, ..
    } = hca;
    let Some(rq) = net.rqs.get(rqn) else {
        return;
    };
    let entry = cqe::failure(io, CqeOpcode::RESP_ERR, syndrome, rqn, index);
    io.event(rqn, "Error CQE Write", syndrome.0.into());
    // A failed CQ has raised its own event.
    let _ = crate::cq::post(cqs, eqs, io, rq.cqn, entry);
}

/// Puts a queue in error. What is posted completes as flushed, if the queue is to do that; so does what is posted later.
pub fn fail(hca: &mut Hca, rqn: u32) {
    if let Some(rq) = hca.net.rqs.get_mut(rqn) {
        rq.set_state(State::Error);
    }
    flush(hca, rqn);
}

/// Flushes again the queues in error whose time has come.
pub(super) fn run(hca: &mut Hca) {
    while let Some(rqn) = hca.net.flushing.pop_due(hca.io.now) {
        flush(hca, rqn);
    }
}

/// Completes what is posted to a queue in error as flushed. No doorbell tells of a receive: the device looks now and
/// then.
fn flush(hca: &mut Hca, rqn: u32) {
    let Hca { net, io, .. } = hca;
    let in_error = |rq: &&mut Rq| rq.flushes && rq.state == State::Error;
    let Some(rq) = net.rqs.get_mut(rqn).filter(in_error) else {
        return;
    };
    let again = io.now.saturating_add(POLL_INTERVAL);
    net.flushing.set(rqn, Some(again));
    let (first, posted) = (rq.consumer, rq.posted(io).unwrap_or(0));
    rq.consumer = first.wrapping_add(posted);
    for ahead in 0..posted {
        complete_failed(hca, rqn, first.wrapping_add(ahead), Syndrome::FLUSHED);
    }
}
