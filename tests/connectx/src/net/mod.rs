// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The netdev's side of a function: send and receive queues for Ethernet frames, and the flow
//! steering from the wire to a receive queue.
//!
//! A frame that a send queue posts gets its checksums and segmentation here and goes to the wire.
//! A frame from the wire is filtered by the virtual port, walks through the flow tables to a TIR,
//! and is written to the receive queue that the TIR, or the RQT behind it, names.

mod cqe;
pub mod flow;
pub mod frame;
mod loopback;
pub mod rq;
pub mod rss;
pub mod sq;
pub mod wq;

use std::collections::VecDeque;

use crate::caps::{LOG_MAX_SQ_RQ, LOG_MAX_TIR_TIS_RQT};
use crate::hca::Hca;
use crate::table::Table;
use crate::timers::Timers;
use crate::uar::Doorbell;

use flow::Steering;
use frame::Headers;
use rq::Rq;
use rss::{Rqt, Tir};
use sq::Sq;

/// First number of an SQ. QPs, SQs and RQs share one number space.
const FIRST_SQN: u32 = 0x4_0000;
/// First number of an RQ.
const FIRST_RQN: u32 = 0x8_0000;

/// A transport interface send: what an SQ sends under. Only its transport domain matters here.
#[derive(Debug)]
pub struct Tis {
    /// The transport domain.
    pub transport_domain: u32,
}

/// Objects of the netdev.
#[derive(Debug)]
pub struct Net {
    /// Send queues.
    pub sqs: Table<Sq>,
    /// Receive queues.
    pub rqs: Table<Rq>,
    /// Transport interface sends.
    pub tiss: Table<Tis>,
    /// Transport interface receives.
    pub tirs: Table<Tir>,
    /// Receive queue tables.
    pub rqts: Table<Rqt>,
    /// Flow tables.
    pub steering: Steering,
    /// SQs that may have something to do.
    ready: VecDeque<u32>,
    /// When to look for receives in RQs in error.
    flushing: Timers,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            sqs: Table::new("sq", FIRST_SQN, 1 << LOG_MAX_SQ_RQ),
            rqs: Table::new("rq", FIRST_RQN, 1 << LOG_MAX_SQ_RQ),
            tiss: Table::new("tis", 1, 1 << LOG_MAX_TIR_TIS_RQT),
            tirs: Table::new("tir", 1, 1 << LOG_MAX_TIR_TIS_RQT),
            rqts: Table::new("rqt", 1, 1 << LOG_MAX_TIR_TIS_RQT),
            steering: Steering::default(),
            ready: VecDeque::new(),
            flushing: Timers::default(),
        }
    }
}

impl Net {
    /// Live objects of each kind.
    pub fn objects(&self) -> Vec<(&'static str, usize)> {
        let mut objects = vec![
            (self.sqs.kind(), self.sqs.len()),
            (self.rqs.kind(), self.rqs.len()),
            (self.tiss.kind(), self.tiss.len()),
            (self.tirs.kind(), self.tirs.len()),
            (self.rqts.kind(), self.rqts.len()),
        ];
        objects.extend(self.steering.objects());
        objects
    }

    /// Gives an SQ a turn.
    pub fn schedule(&mut self, sqn: u32) {
        if let Some(sq) = self.sqs.get_mut(sqn).filter(|sq| !sq.queued) {
            sq.queued = true;
            self.ready.push_back(sqn);
        }
    }
}

/// A send doorbell; false if it names no SQ.
pub fn doorbell(hca: &mut Hca, doorbell: Doorbell) {
    let Some(sq) = hca.net.sqs.get_mut(doorbell.qpn) else {
        return;
    };
    hca.io
        .event(doorbell.qpn, "Doorbell Write", doorbell.wqe_index.into());
    if let Some(wqe) = doorbell.blueflame {
        sq.blueflame(doorbell.wqe_index, wqe);
    }
    hca.net.schedule(doorbell.qpn);
}

/// Flushes RQs, and serves SQs in turn, about `budget` WQEs in all; true if more could be done at once.
pub fn run(hca: &mut Hca, budget: u32) -> bool {
    rq::run(hca);
    let mut left = budget;
    while left > 0 {
        let Some(sqn) = hca.net.ready.pop_front() else {
            return false;
        };
        match sq::step(hca, sqn) {
            sq::Step::Executed => {
                left -= 1;
                hca.net.ready.push_back(sqn);
            }
            sq::Step::Idle => {
                if let Some(sq) = hca.net.sqs.get_mut(sqn) {
                    sq.queued = false;
                }
            }
        }
    }
    !hca.net.ready.is_empty()
}

/// When [`run`] must be called next.
pub fn next_deadline(hca: &Hca) -> Option<u64> {
    hca.net.flushing.next()
}

/// A frame from the wire that is not RoCE, or that comes to a virtual port without it.
pub fn receive(hca: &mut Hca, frame: &[u8]) {
    let headers = Headers::parse(frame).filter(|headers| hca.vport.accepts(headers.dmac));
    let delivered = headers.is_some_and(|headers| deliver(hca, &headers, frame, Origin::Wire));
    if !delivered {
        hca.io.counters.frames_dropped += 1;
    }
}

/// Where a frame comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Wire,
    /// A send queue of the function, with its transport domain; to a group, or to one.
    Own {
        transport_domain: Option<u32>,
        group: bool,
    },
}

impl Origin {
    /// Does a TIR take frames from there?
    fn reaches(self, tir: &Tir) -> bool {
        match self {
            Origin::Wire => true,
            Origin::Own {
                transport_domain,
                group,
            } => transport_domain != Some(tir.transport_domain()) || tir.takes_own(group),
        }
    }
}

/// Brings a frame through the flow tables to the receive queues; false if it does not get to any.
fn deliver(hca: &mut Hca, headers: &Headers, frame: &[u8], from: Origin) -> bool {
    let mut delivered = false;
    for number in hca.net.steering.steer(headers) {
        let Net { tirs, rqts, .. } = &hca.net;
        let tir = tirs.get(number).filter(|tir| from.reaches(tir));
        let rqn = tir.and_then(|tir| rss::select(tir, rqts, headers));
        delivered |= rqn.is_some_and(|(rqn, hash)| rq::receive(hca, rqn, hash, frame));
    }
    delivered
}
