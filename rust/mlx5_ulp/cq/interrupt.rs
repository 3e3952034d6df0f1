// SPDX-License-Identifier: GPL-2.0

//! Completions when the device says so.

use crate::{
    hw::cq::{
        CompletionHandler,
        CqCore, //
    },
    queue::send::SendQueue,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Entries taken before others on this CPU get a turn.
const BUDGET: u32 = 256;

/// Serves the completion queue of one send queue, in the tasklet of its vector.
pub(crate) struct Interrupt(pub(crate) Arc<SendQueue>);

impl CompletionHandler for Interrupt {
    /// Polls and arms again.
    ///
    /// No completion is lost between the last look and the arming: the arm command carries the consumer
    /// counter, and the device raises the event at once when it has written entries beyond that. For the
    /// same reason a poll that ran out of budget just arms: the event brings it back.
    fn completion(&self, cq: &CqCore) {
        let queue = &self.0;
        queue.completing.counters().events.add(1);
        // Refused: the queue is being shut down, and who has the turn takes what is there.
        let Some(turn) = queue.turn() else {
            return;
        };
        queue.poll(&turn, cq, BUDGET);
        cq.arm(queue.consumer(&turn), false);
    }

    fn failed(&self, cq: &CqCore) {
        pr_err!("completion queue {:#x} is broken\n", cq.number());
        self.0.break_down();
    }
}
