// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receive queues of the netdev.

use super::cqe::{self, Received};
use super::frame::{self, Headers};
use super::rss::Hash;
use super::sq::State;
use super::wq::WorkQueue;
use crate::dma::Kind;
use crate::hca::Hca;
use crate::mkey::{Access, Right, Span, RESERVED_LKEY};
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
    /// Context as the driver gave it.
    pub context: [u8; 0x30],
    /// Whether the reserved key may be used.
    pub reserved_lkey: bool,
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
            reserved_lkey: crate::ifc::flag(&context, crate::field!(mlx5_ifc_rqc_bits, rlky)),
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
    let Ok(producer) = rq.wq.producer(io, RECV_COUNTER) else {
        log::error!("RQ {rqn:#x}: doorbell record is no memory");
        rq.set_state(State::Error);
        return false;
    };
    let posted = u32::from(producer.wrapping_sub(rq.consumer));
    if posted == 0 || posted > rq.wq.size() {
        return false;
    }
    let index = rq.consumer;
    let mut wqe = vec![0; rq.wq.stride()];
    if rq.wq.read(io, Kind::RecvWqeFetch, index, &mut wqe).is_err() {
        log::error!("RQ {rqn:#x}: ring is no memory");
        rq.set_state(State::Error);
        return false;
    }
    let mut rest = frame;
    let mut pieces: Vec<(u64, &[u8])> = Vec::new();
    for segment in wqe
        .chunks_exact(SEGMENT)
        .filter_map(|segment| segment.first_chunk())
    {
        let data = Data::decode(segment);
        if rest.is_empty() || (data.lkey == RESERVED_LKEY && data.byte_count == 0) {
            break;
        }
        let (part, later) = rest.split_at(rest.len().min(data.byte_count as usize));
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
        if let Err(fault) = mkeys.translate(&access, &mut spans) {
            log::error!("RQ {rqn:#x}: WQE {index}: {fault:?}");
            rq.set_state(State::Error);
            return false;
        }
        let mut part = part;
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
    // A frame that is too long for the WQE is dropped; the WQE stays.
    if !rest.is_empty() {
        return false;
    }
    for (addr, bytes) in pieces {
        if io.memory.write(Kind::Payload, addr, bytes).is_err() {
            log::error!("RQ {rqn:#x}: WQE {index} points to no memory");
            rq.set_state(State::Error);
            return false;
        }
    }
    io.counters.recv_wqes += 1;
    rq.consumer = index.wrapping_add(1);
    let ip = Headers::parse(frame).and_then(|headers| headers.ip);
    let what = Received {
        len: frame.len() as u32,
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
