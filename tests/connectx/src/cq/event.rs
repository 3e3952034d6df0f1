// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events of completion queues.

use super::{Arm, Cq};
use crate::eq::{AsyncEvent, EventQueues};
use crate::io::Io;

impl Cq {
    /// Puts the queue in error.
    pub(super) fn fail(&mut self, cqn: u32, syndrome: u8, eqs: &mut EventQueues, io: &mut Io) {
        self.failure = Some(syndrome);
        log::warn!("CQ {cqn:#x} failed, syndrome {syndrome}");
        eqs.asynchronous(io, AsyncEvent::CqError(cqn, syndrome));
    }

    /// Raises a completion event and disarms.
    pub(super) fn fire(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        self.arm = Arm::Disarmed;
        self.urgent = false;
        self.event_sn = (self.event_sn + 1) & 3;
        self.unreported = 0;
        self.last_notified = self.producer();
        self.last_solicited = None;
        eqs.completion(io, self.config.eqn, cqn);
    }

    /// Counts completions that were written just now.
    pub(super) fn written(&mut self, count: u32, urgent: bool, now: u64) {
        if self.unreported == 0 || self.config.moderation.restarts() {
            self.unreported_since = now;
        }
        self.unreported = self.unreported.saturating_add(count);
        if urgent {
            self.last_solicited = Some(self.producer());
            self.urgent = self.arm != Arm::Disarmed;
        }
    }

    /// Raises the event that is due by now, if one is; returns when to look again.
    pub(super) fn report(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) -> Option<u64> {
        if self.urgent {
            self.fire(cqn, eqs, io);
        }
        if self.arm != Arm::Next || self.unreported == 0 {
            return None;
        }
        match self
            .config
            .moderation
            .due(self.unreported, self.unreported_since)
        {
            Some(time) if time > io.now => Some(time),
            _ => {
                self.fire(cqn, eqs, io);
                None
            }
        }
    }
}
