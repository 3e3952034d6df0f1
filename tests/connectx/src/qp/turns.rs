// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The queue pairs of a function, and whose turn it is.

use std::collections::VecDeque;

use super::context::Service;
use super::requester::Step;
use super::{env, multicast, Qp};
use crate::caps::LOG_MAX_QP;
use crate::hca::Hca;
use crate::table::Table;
use crate::timers::Timers;

/// First number of a queue pair; the driver knows 0 and 1 as the special ones of the wire.
const FIRST_QPN: u32 = 0x100;

/// Steps of one queue pair before the next one has its turn.
const QUANTUM: u32 = 16;

/// The queue pairs of a function.
#[derive(Debug)]
pub struct Qps {
    /// Queue pairs by number. SQs and RQs of the netdev have number ranges of their own.
    pub table: Table<Qp>,
    /// Those that may have something to do, in turn.
    runnable: VecDeque<u32>,
    timers: Timers,
    /// The one that owns number 1 on the wire.
    pub(super) gsi: Option<u32>,
    /// Those that are attached to groups are busy until they are detached.
    pub groups: multicast::Groups,
}

impl Default for Qps {
    fn default() -> Self {
        Qps {
            table: Table::new("qp", FIRST_QPN, 1 << LOG_MAX_QP),
            runnable: VecDeque::new(),
            timers: Timers::default(),
            gsi: None,
            groups: multicast::Groups::default(),
        }
    }
}

impl Qps {
    /// Adds a queue pair and returns its number.
    ///
    /// # Errors
    ///
    /// `EXCEED_LIM` when there are too many, `RES_BUSY` when it is a second one for connection management.
    pub fn insert(&mut self, qp: Qp) -> crate::cmd::CmdResult<u32> {
        use crate::cmd::{CmdError, Status};
        let gsi = qp.attributes.service == Service::Gsi;
        if gsi && self.gsi.is_some() {
            return Err(CmdError::new(
                Status::ResBusy,
                "a queue pair of this special service exists",
            ));
        }
        let number = self.table.insert(qp)?;
        if let Some(qp) = self.table.get_mut(number) {
            qp.number = number;
        }
        if gsi {
            self.gsi = Some(number);
        }
        Ok(number)
    }

    /// Removes a queue pair; nothing of it is done any more.
    ///
    /// # Errors
    ///
    /// As [`Table::remove`].
    pub fn remove(&mut self, number: u32) -> crate::cmd::CmdResult<Qp> {
        let qp = self.table.remove(number)?;
        self.timers.set(number, None);
        if self.gsi == Some(number) {
            self.gsi = None;
        }
        Ok(qp)
    }

    /// Gives a queue pair a turn.
    pub fn schedule(&mut self, number: u32) {
        if let Some(qp) = self.table.get_mut(number) {
            if !qp.queued {
                qp.queued = true;
                self.runnable.push_back(number);
            }
        }
    }
}

/// Executes about `budget` steps (WQEs or packets) of queue pairs that have work; true if work is left that could be
/// done at once.
pub fn run(hca: &mut Hca, budget: u32) -> bool {
    let (qps, mut env) = env::split(hca);
    while let Some(number) = qps.timers.pop_due(env.io.now) {
        if let Some(qp) = qps.table.get_mut(number) {
            qp.on_time(&mut env);
        }
        qps.schedule(number);
    }
    let mut left = budget;
    while left > 0 {
        let Some(number) = qps.runnable.pop_front() else {
            break;
        };
        let Some(qp) = qps.table.get_mut(number) else {
            continue;
        };
        qp.queued = false;
        let mut more = true;
        for _ in 0..QUANTUM.min(left) {
            left -= 1;
            if qp.step(&mut env) == Step::Idle {
                more = false;
                break;
            }
        }
        let deadline = qp.deadline();
        qps.timers.set(number, deadline);
        if more {
            qps.schedule(number);
        }
    }
    !qps.runnable.is_empty()
}

/// When [`run`] must be called next: retry and RNR timers, polling of queue pairs in error.
pub fn next_deadline(hca: &Hca) -> Option<u64> {
    hca.qps.timers.next()
}
