// SPDX-License-Identifier: GPL-2.0

//! Having silent requests reported.

use super::{
    credit::Way,
    encode::Cursor,
    send::{
        SendQueue,
        State, //
    },
};
use crate::{
    doorbell::policy::{
        Cause,
        Hint, //
    },
    wqe::opcode::Opcode, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

impl SendQueue {
    /// Makes sure that everything posted so far will be reported: if the last request is not signaled,
    /// posts a signaled WQE that does nothing. Rings. Of an exclusive queue, for its poster only.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for that WQE, those of [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue at the same time.
    pub(crate) unsafe fn report_all(&self) -> Result {
        // SAFETY: Guaranteed by the caller.
        let mut poster = unsafe { self.poster.take(self.handle) };
        let poster = &mut *poster;
        if poster.unsignaled == 0 {
            let cause = poster.policy.flush();
            self.ring_if(poster, cause);
            return Ok(());
        }
        let mut at = Cursor::new(poster, self.room_to_report()?);
        self.encode_nop(poster, &mut at);
        self.post_counters.opcode(Opcode::NOP);
        self.commit(poster, &at, 1);
        let cause = poster.policy.posted(1, || true, Hint::Last);
        self.ring_with(poster, &at, cause.unwrap_or(Cause::Last), None);
        Ok(())
    }

    /// As [`SendQueue::report_all`], of a shared queue that has failed; if it is full, as soon as something has
    /// completed. Sleeps.
    pub(crate) fn report_all_later(&self) {
        // SAFETY: Not an exclusive queue.
        if unsafe { self.report_all() } != Err(EAGAIN) {
            return;
        }
        {
            let poster = self.poster.lock();
            self.owes_report.store(true, Relaxed);
            self.expect(&poster);
        }
        // Every CPU passes a full barrier meanwhile: who completes sees the above behind it, and what was completed
        // before it is seen here.
        // SAFETY: Process context.
        unsafe { bindings::synchronize_rcu() };
        self.report_owed();
    }

    /// Reports what is owed, if there is room for that: if not, something is still to complete, since silent
    /// requests never fill a queue.
    #[cold]
    pub(super) fn report_owed(&self) {
        // SAFETY: Not an exclusive queue, which owes no report.
        if unsafe { self.report_all() } != Err(EAGAIN) {
            self.owes_report.store(false, Relaxed);
        }
    }

    /// Finds room for the WQE of [`SendQueue::report_all`].
    ///
    /// A queue that has failed takes no posts, but this one: the device flushes it, which is the only
    /// way to hear of silent requests that were carried out when an event, and no completion entry,
    /// told of the failure.
    fn room_to_report(&self) -> Result<u32> {
        if let Ok(first) = self.credit.reserve(self.handle, Way::Any, 1) {
            return Ok(first);
        }
        match self.state() {
            // Nothing would be reported.
            State::Failed if self.is_dead() => Err(ENODEV),
            State::Failed => self
                .credit
                .reserve_below(self.shape.depth, 1)
                .map_err(|_| EAGAIN),
            // Full, of which nobody is to hear: it was no post of the consumer's.
            State::Connected => Err(EAGAIN),
            _ => Err(self.refused(self.handle, 1)),
        }
    }
}
