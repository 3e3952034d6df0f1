// SPDX-License-Identifier: GPL-2.0

//! Completions when the device says so, and for a while after.

use super::{
    moderation::BUDGET,
    moderator::After, //
};
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

/// Serves the completion queue of one send queue, in the tasklet of its vector.
///
/// A stretch of looking begins with an event of the device and ends with the arming. In between, the
/// tasklet puts the queue back on its own list, so that the other queues of the vector, and with
/// `ksoftirqd` the other tasks of the CPU, get their turns. Of a queue whose consumer is called in process
/// context, the work item of the queue does the same in place of the tasklet.
pub(crate) struct Interrupt(pub(crate) Arc<SendQueue>);

impl SendQueue {
    /// Polls, then has `again` bring us back here, or arms `cq`, as the mode says.
    #[inline]
    pub(super) fn look(&self, cq: &CqCore, again: impl FnOnce()) {
        let Some(mut turn) = self.turn() else {
            // Somebody else completes, and does not arm: this event is still to be answered. Once the
            // queue is over there is nothing to be told any more.
            if !self.completing.is_over() {
                again();
            }
            return;
        };
        let found = self.poll(&mut turn, BUDGET);
        match self.looked(&turn, found) {
            After::Again => {
                drop(turn);
                again();
            }
            After::Arm => {
                let consumer = self.consumer(&turn);
                // Before the arming: the event may come on another CPU, and find the turn taken.
                drop(turn);
                cq.arm(consumer, false);
            }
            After::Nothing => {}
        }
    }
}

impl CompletionHandler for Interrupt {
    /// Polls, and looks again or arms, as the mode says.
    ///
    /// No completion is lost between the last look and the arming: the arm command carries the consumer
    /// counter, and the device raises the event at once when it has written entries beyond that, unless its
    /// last event told of them; so nobody arms who has left entries over.
    fn completion(&self, cq: &CqCore) {
        if self.0.in_work {
            return self.0.work.queue();
        }
        self.0.look(cq, || cq.again());
    }

    fn failed(&self, cq: &CqCore) {
        pr_err!("completion queue {:#x} is broken\n", cq.number());
        self.0.break_down();
    }
}
