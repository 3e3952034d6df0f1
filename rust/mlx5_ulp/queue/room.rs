// SPDX-License-Identifier: GPL-2.0

//! Room: reserving it ahead, and telling who found none that there is some again.
//!
//! What is reserved is taken off the limits up to which posts find room ([`SendQueue::open_ways`]), so that no post
//! has to ask about reservations.
//!
//! Nobody who found the queue full waits for ever. The poster notes that, then looks for room once more; the
//! other side makes room, then looks for the note. A full barrier on each side between the two sees to it that
//! at least one of them sees what the other did.

use super::{
    credit::{
        Full,
        Way, //
    },
    poster::Poster,
    send::{
        SendQueue,
        State, //
    },
};
use core::sync::atomic::{
    fence,
    AtomicU32,
    Ordering::{
        Relaxed,
        SeqCst, //
    }, //
};
use kernel::{
    error::code::*,
    ffi::c_void,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Who hears of room.
pub(crate) struct Space {
    /// The consumer's function.
    tell: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Requests of the shortest post that has found the queue full since it was called last; 0 for none.
    wanted: AtomicU32,
}

impl Space {
    /// Has this function called, if there is one.
    pub(crate) fn new(tell: Option<unsafe extern "C" fn(*mut c_void)>) -> Self {
        Self {
            tell,
            wanted: AtomicU32::new(0),
        }
    }

    /// Whether somebody is to be told.
    pub(super) fn is_watched(&self) -> bool {
        self.tell.is_some()
    }
}

impl SendQueue {
    /// Reserves room for `count` more requests, all or none, and adds it to `left`.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_reserve()` in `<mlx5_ulp.h>`.
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue at the same time.
    pub(crate) unsafe fn reserve(&self, left: &mut u32, count: u32) -> Result {
        // SAFETY: Guaranteed by the caller.
        let mut poster = unsafe { self.poster.take(self.handle) };
        if let Err(Full) = self.credit.reserve(self.handle, Way::Any, count) {
            return Err(self.refused(self.handle, count));
        }
        let reserved = poster.reserved.wrapping_add(count);
        self.set_reserved(&mut poster, reserved);
        *left = left.saturating_add(count);
        Ok(())
    }

    /// Has this much room kept for who has reserved it. Others report their success so often that they do not fill
    /// what is left with silent requests, of which nobody would hear before the reservation is used.
    fn set_reserved(&self, poster: &mut Poster, reserved: u32) {
        poster.reserved = reserved;
        poster.most_silent = self.shape.depth.saturating_sub(reserved) / 2;
        self.open_ways(poster);
    }

    /// Posts a chain of any kind from the reservation of which `left` is left.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_post_reserved()` in `<mlx5_ulp.h>`. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_works`]; nobody posts to an exclusive queue at the same time.
    pub(crate) unsafe fn post_reserved(
        &self,
        left: &mut u32,
        works: &[bindings::mlx5_ulp_work],
    ) -> Result {
        let count = works.len() as u32;
        if count > *left {
            return Err(EINVAL);
        }
        // SAFETY: Guaranteed by the caller.
        let mut poster = unsafe { self.poster.take(self.handle) };
        // The limits say nothing here. Under the lock, so that whoever closes the queue waits for the rest.
        if self.state() != State::Connected {
            return Err(self.refused(self.handle, count));
        }
        // There is room: with what is reserved, no more than that is in flight.
        let first = self.credit.reserve_below(self.shape.depth, count);
        let first = first.map_err(|_| EAGAIN)?;
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_works_at(self.handle, &mut poster, first, works)? };
        let reserved = poster.reserved.saturating_sub(count);
        self.set_reserved(&mut poster, reserved);
        *left = left.wrapping_sub(count);
        Ok(())
    }

    /// Gives back the `left` of a reservation.
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue at the same time.
    pub(crate) unsafe fn release(&self, left: &mut u32) {
        {
            // SAFETY: Guaranteed by the caller.
            let mut poster = unsafe { self.poster.take(self.handle) };
            let reserved = poster.reserved.saturating_sub(*left);
            self.set_reserved(&mut poster, reserved);
            *left = 0;
        }
        // Pairs with that of `note_full`.
        fence(SeqCst);
        if self.space_is_wanted() {
            // The caller may hold locks that the consumer takes when told.
            self.work.queue();
        }
    }

    /// A post of `count` requests has found the queue full. By whoever has the poster.
    pub(super) fn note_full(&self, count: u32) {
        self.post_counters.full.add(1);
        if !self.space.is_watched() {
            return;
        }
        // Others only take it away, which may be undone here: the consumer is told once too often then.
        let wanted = match self.space.wanted.load(Relaxed) {
            0 => count.max(1),
            before => before.min(count.max(1)),
        };
        self.space.wanted.store(wanted, Relaxed);
        // Before the look at what has completed since: pairs with that of `tell_space`.
        fence(SeqCst);
        if self.space_can_be_told(wanted) {
            // Just completed, or failed: whoever did that may not have seen the note.
            self.work.queue();
        }
    }

    /// Whether `wanted` requests find room, or learn that they never will.
    fn space_can_be_told(&self, wanted: u32) -> bool {
        self.credit.has_room(self.handle, wanted) || self.state() != State::Connected
    }

    /// Whether somebody waits to be told.
    pub(crate) fn space_is_wanted(&self) -> bool {
        self.space.wanted.load(Relaxed) != 0
    }

    /// Tells who found the queue full that there is room again, if there is: for the shortest of their posts, or
    /// they would be told again at once, and so on. Softirqs are off, and the caller has the turn.
    pub(crate) fn tell_space(&self) {
        let Some(tell) = self.space.tell else {
            return;
        };
        // Behind the credits that came back: pairs with that of `note_full`.
        fence(SeqCst);
        let wanted = self.space.wanted.load(Relaxed);
        if wanted == 0 || !self.space_can_be_told(wanted) {
            return;
        }
        if self.space.wanted.swap(0, Relaxed) != 0 {
            // SAFETY: The consumer's function for its context, both good until the queue is destroyed, which
            // waits for the turn.
            unsafe { tell(self.context()) };
        }
    }
}
