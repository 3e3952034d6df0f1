// SPDX-License-Identifier: GPL-2.0

//! Posting.
//!
//! Nearly all requests look alike: one range of memory, nothing special, one basic block. For these
//! there are short ways, straight through and inlined into the exported functions: one request without
//! any flag ([`SendQueue::post_write`]), and chains ([`SendQueue::post_writes`]). Whatever is out of the ordinary, in the
//! requests or in what the queue has to do with them, is for [`SendQueue::post_any`].

use super::{
    credit::{
        Handle,
        Room,
        Way, //
    },
    encode::{
        data,
        remote,
        Cursor, //
    },
    poster::Poster,
    request::flags,
    ring::hardware,
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
    errno::enotconn,
    observe::{
        latency,
        trace, //
    },
    wqe::ctrl::{
        Ctrl,
        Fence,
        Flags, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Flags that a plain request may have. The hints say nothing about the WQE itself.
const PLAIN: u32 = flags::UNSIGNALED | HINTS;

/// What a poster says of what follows.
const HINTS: u32 = flags::LAST | flags::MORE;

/// The one range of a plain request; `None` for any other.
///
/// # Safety
///
/// `write` must have `num_sge` ranges.
#[inline(always)]
pub(super) unsafe fn plain(write: &bindings::mlx5_ulp_write) -> Option<&bindings::mlx5_ulp_sge> {
    if write.flags & !PLAIN != 0 || write.num_sge != 1 {
        return None;
    }
    // SAFETY: The caller guarantees one range.
    let range = unsafe { &*write.sge };
    // Neither empty nor longer than a data segment can say.
    (range.length as i32 > 0).then_some(range)
}

/// Whether `write` has one range and no flag. Both are looked at in one load.
#[inline(always)]
fn is_plainest(write: &bindings::mlx5_ulp_write) -> bool {
    (u64::from(write.flags) << 32 | u64::from(write.num_sge)) == 1
}

/// Whether somebody wants to know of each post.
#[inline(always)]
fn is_watched() -> bool {
    trace::posting() || latency::is_on()
}

impl SendQueue {
    /// Posts one WRITE, and rings as the policy says.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    pub(crate) unsafe fn post_write(
        &self,
        handle: Handle,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        if is_plainest(write) && !is_watched() {
            // SAFETY: The caller guarantees one range.
            let range = unsafe { &*write.sge };
            if range.length as i32 > 0 {
                // SAFETY: Guaranteed by the caller. What else uses the poster takes the lock, and leaves
                // an exclusive queue alone while it is open.
                let mut guard = unsafe { self.poster.take(handle) };
                let room = self.credit.room(handle, Way::One, 1);
                if let Ok(room) = room {
                    // Not before the handle has been found to be the right one.
                    self.post_plainest(handle, &mut guard, room, write, range);
                }
                drop(guard);
                if room.is_ok() {
                    return Ok(());
                }
            }
        }
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_plain(handle, core::slice::from_ref(write)) }
    }

    /// Posts a WRITE of one range and without flags, for which there is room.
    #[inline(always)]
    fn post_plainest(
        &self,
        handle: Handle,
        poster: &mut Poster,
        room: Room,
        write: &bindings::mlx5_ulp_write,
        range: &bindings::mlx5_ulp_sge,
    ) {
        let mut at = Cursor::new(poster, room.first);
        poster.prefetch();
        self.put(poster, &mut at, write, range, 0);
        at.wqes = 1;
        self.commit(poster, &at, 1);
        if handle == Handle::Exclusive {
            return self.ring_now(poster, &at, Cause::Last);
        }
        // Retired as it was seen when room was found, with the lock held: a completion that came later
        // finds this request waiting, once it gets the lock.
        let signaled_rung = poster.signaled_rung;
        let busy = || signaled_rung.wrapping_sub(room.retired) as i32 > 0;
        match poster.policy.posted(1, busy, Hint::None) {
            Some(cause) => self.ring_now(poster, &at, cause),
            None => self.wait(poster, at.head, 1),
        }
    }

    /// As [`SendQueue::post_writes`], not inlined.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(never)]
    unsafe fn post_plain(&self, handle: Handle, writes: &[bindings::mlx5_ulp_write]) -> Result {
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_writes(handle, writes) }
    }

    /// Posts a chain of WRITEs, all or none, and rings as the policy says.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_post_write()` in `<mlx5_ulp.h>`. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// For each of `writes`: `sge` must point to `num_sge` ranges; with the flag `INLINE` each range must
    /// be readable kernel memory; `request` must be null or stay valid until it is told.
    ///
    /// With [`Handle::Exclusive`] there must be no other call with it at the same time.
    #[inline(always)]
    pub(crate) unsafe fn post_writes(
        &self,
        handle: Handle,
        writes: &[bindings::mlx5_ulp_write],
    ) -> Result {
        let count = writes.len() as u32;
        if is_watched() {
            // SAFETY: Guaranteed by the caller.
            return unsafe { self.post_any(handle, writes) };
        }
        // SAFETY: As in `post_write`.
        let mut guard = unsafe { self.poster.take(handle) };
        let posted = match self.credit.reserve(handle, Way::Chain, count) {
            // SAFETY: Guaranteed by the caller.
            Ok(first) => unsafe { self.post_chain(handle, &mut guard, first, writes) },
            Err(_) => false,
        };
        drop(guard);
        if posted {
            return Ok(());
        }
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_any(handle, writes) }
    }

    /// Posts a chain of plain WRITEs, for which there is room, from request number `first` on. `false` if
    /// one of them is not plain; nothing was posted then.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    unsafe fn post_chain(
        &self,
        handle: Handle,
        poster: &mut Poster,
        first: u32,
        writes: &[bindings::mlx5_ulp_write],
    ) -> bool {
        // Everything is written behind the producer counter, where the HCA does not look, and becomes
        // part of the queue only when the whole chain is there.
        let mut at = Cursor::new(poster, first);
        let mut last_flags = 0;
        poster.prefetch();
        for write in writes {
            // SAFETY: Guaranteed by the caller.
            let Some(range) = (unsafe { plain(write) }) else {
                return false;
            };
            self.put(poster, &mut at, write, range, write.flags);
            last_flags = write.flags;
        }
        let count = writes.len() as u32;
        at.wqes = count;
        self.commit(poster, &at, count);
        self.show(handle, poster, &at, last_flags);
        true
    }

    /// Writes a plain WRITE with these flags at the cursor and moves it on, but for its count of WQEs.
    #[inline(always)]
    fn put(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
        range: &bindings::mlx5_ulp_sge,
        flags: u32,
    ) {
        let signal = at.signal(flags, poster.most_silent);
        at.head = poster.plain_head.at(hardware(at.block));
        let ctrl = Ctrl::with_head(at.head, Flags::new(Fence::None, signal, false));
        poster.slots.put(
            at.block,
            [
                ctrl,
                remote(write.remote_addr, write.rkey).encode(),
                data(range).encode(),
            ],
            at.request,
            write.request as usize,
        );
        at.request = at.request.wrapping_add(1);
        at.block = at.block.wrapping_add(1);
    }

    /// The chain up to the cursor, of `count` requests, is part of the queue from here on.
    #[inline(always)]
    pub(super) fn commit(&self, poster: &mut Poster, at: &Cursor, count: u32) {
        poster.producer = at.block;
        poster.unsignaled = at.unsignaled;
        self.credit.commit(at.request);
        self.post_counters.posted.add(count.into());
    }

    /// Rings for what was posted up to the cursor, or has it wait, as the policy says. `last_flags` are
    /// those of the last request.
    #[inline(always)]
    fn show(&self, handle: Handle, poster: &mut Poster, at: &Cursor, last_flags: u32) {
        match self.cause(handle, poster, at, last_flags) {
            Some(cause) => self.ring_now(poster, at, cause),
            None => self.wait(poster, at.head, at.wqes),
        }
    }

    /// Whether and why to ring now for what was posted up to the cursor.
    #[inline(always)]
    fn cause(
        &self,
        handle: Handle,
        poster: &mut Poster,
        at: &Cursor,
        last_flags: u32,
    ) -> Option<Cause> {
        if handle == Handle::Exclusive {
            // Nothing waits.
            return Some(Cause::Last);
        }
        let hint = match last_flags & HINTS {
            0 => Hint::None,
            flags::MORE => Hint::More,
            _ => Hint::Last,
        };
        let signaled_rung = poster.signaled_rung;
        let busy = || self.expects_completion(signaled_rung);
        poster.policy.posted(at.wqes, busy, hint)
    }

    /// Posts a chain of requests of any kind; as [`SendQueue::post_writes`].
    ///
    /// # Errors
    ///
    /// As [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[cold]
    #[inline(never)]
    unsafe fn post_any(&self, handle: Handle, writes: &[bindings::mlx5_ulp_write]) -> Result {
        let count = writes.len() as u32;
        // SAFETY: As in `post_write`.
        let mut guard = unsafe { self.poster.take(handle) };
        let Ok(first) = self.credit.reserve(handle, Way::Any, count) else {
            return Err(self.refused(handle, count));
        };
        let poster = &mut *guard;
        let mut at = Cursor::new(poster, first);
        poster.prefetch();
        match poster.merge {
            // SAFETY: Guaranteed by the caller.
            Some(limits) if count > 1 && !poster.registered => unsafe {
                self.encode_merged(poster, &mut at, writes, &limits)?
            },
            _ => {
                for write in writes {
                    // SAFETY: Guaranteed by the caller.
                    unsafe { self.encode_write(poster, &mut at, write)? };
                }
            }
        }
        let last_flags = writes.last().map_or(0, |write| write.flags);
        self.finish_any(handle, poster, &at, first, last_flags);
        Ok(())
    }

    /// The chain of any kind from request number `first` up to the cursor is part of the queue from here
    /// on: counts it, and rings or has it wait, as the policy says.
    pub(super) fn finish_any(
        &self,
        handle: Handle,
        poster: &mut Poster,
        at: &Cursor,
        first: u32,
        last_flags: u32,
    ) {
        let count = at.request.wrapping_sub(first);
        self.commit(poster, at, count);
        if poster.registered != at.registered {
            poster.registered = at.registered;
            self.open_ways(poster);
        }
        if latency::is_on() {
            self.note_filled(first, count);
        }
        self.post_counters
            .merged
            .add(count.wrapping_sub(at.wqes).into());
        self.post_counters.more_blocks.add(at.more_blocks.into());
        match self.cause(handle, poster, at, last_flags) {
            Some(cause) => self.ring_with(poster, at, cause, Some(at.last)),
            None => self.wait(poster, at.head, at.wqes),
        }
    }

    /// Why a post of `count` requests was refused.
    #[cold]
    #[inline(never)]
    pub(super) fn refused(&self, handle: Handle, count: u32) -> Error {
        match self.state() {
            State::Unconnected => enotconn(),
            State::Connected if handle != self.handle => EINVAL,
            // Never fits, so `EAGAIN` would have the caller wait for ever.
            State::Connected if count > self.shape.depth => EMSGSIZE,
            State::Connected => {
                self.note_full();
                EAGAIN
            }
            State::Failed => EPIPE,
            State::Gone => ENODEV,
        }
    }
}
