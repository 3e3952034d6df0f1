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
use crate::doorbell::policy::{
    Cause,
    Hint, //
};
use kernel::{
    error::code::*,
    prelude::*, //
};

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
        self.commit(poster, &at, 1);
        let cause = poster.policy.posted(1, || true, Hint::Last);
        self.ring_with(poster, &at, cause.unwrap_or(Cause::Last), None);
        Ok(())
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
            _ => Err(self.refused(self.handle, 1)),
        }
    }
}
