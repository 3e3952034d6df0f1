// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs.
//!
//! A queue pair has a send side, the requester, and a receive side, the responder; they share nothing but the queue
//! pair's attributes. Two queue pairs meet through packets alone, also within one function.
//!
//! * [`context`], [`state`]: attributes and the commands that change them.
//! * [`ring`], [`work`]: the send queue and its WQEs; [`receive`]: receive WQEs.
//! * [`requester`], [`send`], [`local`], [`answers`]: sending, acknowledgments, completions, sending again.
//! * [`responder`], [`requests`], [`atomics`], [`replies`]: requests of the peer and what is answered.
//! * [`delivery`]: from a frame to a queue pair. [`datagram`], [`multicast`]: the unconnected services.
//! * [`error`]: the error states.
//! * [`access`]: memory under keys; [`env`]: the rest of the function.
//!
//! Work is done in [`turns`], in turn for all queue pairs that have some.

pub mod access;
pub mod answers;
pub mod atomics;
pub mod context;
pub mod datagram;
pub mod delivery;
pub mod env;
pub mod error;
pub mod local;
pub mod multicast;
pub mod receive;
pub mod replies;
pub mod requester;
pub mod requests;
pub mod responder;
pub mod ring;
pub mod send;
pub mod state;
pub mod turns;
pub mod work;

use serde::Serialize;

use crate::buffer::QueueBuffer;
use crate::field;
use crate::hca::Hca;
use crate::ifc;
use crate::uar::{Doorbell, HALVES};

pub use turns::{next_deadline, run, Qps};

use access::Owner;
use context::{Attributes, Context, ReceiveKind};
use env::Env;
use receive::{ReceiveRing, ReceiveWqe, Report};
use requester::{Requester, Step};
use responder::Responder;
use ring::SendRing;
use state::State;

/// What a queue pair did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stats {
    /// Send doorbells.
    pub doorbells: u64,
    /// Of these and of those that were lost, by half of a doorbell register of the page.
    pub halves: [u64; HALVES],
    /// WQEs taken from the send queue.
    pub wqes: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    /// Times that the requester went back: time-outs and sequence errors, and receivers that were not ready.
    pub retries: u64,
    pub rnr_retries: u64,
}

/// Objects that a queue pair uses; they cannot be destroyed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    pub uar: Option<u32>,
    pub pd: Option<u32>,
    pub send_cq: Option<u32>,
    pub receive_cq: Option<u32>,
    pub srq: Option<u32>,
    pub xrcd: Option<u32>,
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    pub number: u32,
    /// The UAR page that its doorbells come through.
    pub uar: u32,
    pub state: State,
    /// As the firmware keeps it; and as it was created, to which a reset returns.
    pub context: Context,
    created: Context,
    pub attributes: Attributes,
    pub uses: Uses,
    pub buffer: QueueBuffer,
    pub send: Option<SendRing>,
    pub receive: Option<ReceiveRing>,
    /// The rings cannot be read any more.
    send_failed: bool,
    receive_failed: bool,
    pub requester: Requester,
    pub responder: Responder,
    /// In error: when to look at the doorbell records again.
    error_poll: Option<u64>,
    pub stats: Stats,
    /// Stands in the run queue.
    queued: bool,
}

impl Qp {
    /// A queue pair in reset. The number is set when it enters the table.
    pub fn new(
        context: Context,
        attributes: Attributes,
        buffer: QueueBuffer,
        send: Option<SendRing>,
        receive: Option<ReceiveRing>,
    ) -> Self {
        Qp {
            number: 0,
            uar: ifc::get(&context, field!(mlx5_ifc_qpc_bits, uar_page)),
            state: State::Reset,
            context,
            created: context,
            attributes,
            uses: Uses::default(),
            buffer,
            send,
            receive,
            send_failed: false,
            receive_failed: false,
            requester: Requester::default(),
            responder: Responder::default(),
            error_poll: None,
            stats: Stats::default(),
            queued: false,
        }
    }

    /// The queue pair as one who accesses memory.
    pub fn owner(&self) -> Owner {
        Owner::new(&self.attributes, self.number)
    }

    /// Word 0x20 of its completions: the user's index, or the number of the shared receive queue.
    pub fn completion_number(&self) -> u32 {
        match (self.attributes.user_index, self.attributes.receive) {
            (Some(index), _) => index,
            (None, ReceiveKind::Shared(number)) => number,
            (None, _) => 0,
        }
    }

    /// Where the completion of a receive goes.
    pub fn report(&self, wqe: &ReceiveWqe) -> Report {
        wqe.report.unwrap_or(Report {
            cqn: self.attributes.receive_cq,
            number: self.completion_number(),
        })
    }

    /// Takes a new context after a transition to `to`.
    pub fn enter(&mut self, env: &mut Env<'_>, to: State, context: Context, new: Attributes) {
        let from = self.state;
        self.context = context;
        self.attributes = new;
        match to {
            State::Error => {
                // Nothing is answered any more once the driver has said so.
                self.responder.replies.clear();
                error::enter(self, env);
            }
            State::Reset => self.reset(),
            State::ReadyToReceive => {
                self.state = to;
                self.responder.start(self.attributes.next_receive_psn);
            }
            State::ReadyToSend => {
                self.state = to;
                self.error_poll = None;
                if from == State::ReadyToReceive {
                    self.requester.start(self.attributes.next_send_psn);
                }
            }
            _ => self.state = to,
        }
    }

    fn reset(&mut self) {
        self.state = State::Reset;
        self.context = self.created;
        if let Some(attributes) = Attributes::decode(&self.context) {
            self.attributes = attributes;
        }
        self.requester = Requester::default();
        self.responder = Responder::default();
        self.send_failed = false;
        self.receive_failed = false;
        self.error_poll = None;
        if let Some(ring) = &mut self.send {
            ring.reset();
        }
        if let Some(ring) = &mut self.receive {
            ring.reset();
        }
    }

    /// When the queue pair must be looked at next.
    fn deadline(&self) -> Option<u64> {
        let timers = [
            self.requester.ack_deadline,
            self.requester.rnr_until,
            self.requester.busy_until,
            self.error_poll,
        ];
        timers.into_iter().flatten().min()
    }

    /// Does one thing: answers the peer first, then goes on sending; in error, flushes.
    fn step(&mut self, env: &mut Env<'_>) -> Step {
        for side in [replies::step, requester::step, error::step] {
            if side(self, env) == Step::Progress {
                return Step::Progress;
            }
        }
        Step::Idle
    }

    /// A deadline has come.
    fn on_time(&mut self, env: &mut Env<'_>) {
        let now = env.io.now;
        if self.requester.ack_deadline.is_some_and(|time| time <= now) {
            answers::timeout(self, env);
        }
        if self.error_poll.is_some_and(|time| time <= now) {
            self.error_poll = Some(now.saturating_add(error::POLL_INTERVAL));
        }
    }
}

/// A send doorbell. Only noted here: the work is done in [`run`].
///
/// Before RTS the send queue does not take part (IBTA: posting a send there is an error at once), so a
/// doorbell then is lost, and is not made up for when the queue pair gets there.
pub fn doorbell(hca: &mut Hca, doorbell: Doorbell) {
    let number = doorbell.qpn;
    let Some(qp) = hca.qps.table.get_mut(number) else {
        return;
    };
    hca.io
        .event(number, "Doorbell Write", doorbell.wqe_index.into());
    qp.stats.doorbells += 1;
    if matches!(qp.state, State::Reset | State::Init | State::ReadyToReceive) {
        hca.io
            .event(number, "Doorbell Ignored", doorbell.wqe_index.into());
        return;
    }
    if qp.requester.messages.is_empty() && qp.requester.busy_until.is_none() {
        let timing = hca.io.timing;
        let until_fetch = timing.doorbell.saturating_add(timing.fetch);
        qp.requester.busy(hca.io.now, until_fetch);
    }
    if let Some(ring) = &mut qp.send {
        if doorbell.alone {
            ring.ring_alone();
        } else {
            ring.ring(doorbell.wqe_index, doorbell.blueflame);
        }
    }
    hca.qps.schedule(number);
}

/// The first bytes of a send doorbell through UAR page `page` arrive; [`doorbell`] follows, now or later.
pub fn doorbell_arrives(hca: &mut Hca, number: u32, page: u32) {
    let qp = hca.qps.table.get_mut(number).filter(|qp| qp.uar == page);
    if let Some(Qp {
        send: Some(ring),
        attributes,
        ..
    }) = qp
    {
        ring.see(&hca.io, attributes.record);
    }
}

/// Counters per queue pair for the control socket.
pub fn counters(hca: &Hca) -> serde_json::Value {
    let all = hca.qps.table.iter().map(|(number, qp)| {
        let value = serde_json::json!({
            "state": format!("{:?}", qp.state),
            "service": format!("{:?}", qp.attributes.service),
            "send_cq": qp.attributes.send_cq,
            "receive_cq": qp.attributes.receive_cq,
            "uar": qp.uar,
            "stats": qp.stats,
        });
        (number.to_string(), value)
    });
    serde_json::Value::Object(all.collect())
}
