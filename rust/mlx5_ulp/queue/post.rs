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
        Way, //
    },
    encode::{
        length_and_key,
        plain_data,
        remote,
        silent,
        Cursor, //
    },
    in_flight::Mark,
    poster::{
        Poster,
        PosterGuard,
        PosterLock, //
    },
    request::flags,
    ring::hardware,
    send::{
        SendQueue,
        State, //
    },
};
use crate::{
    codegen::{
        opaque,
        unusual, //
    },
    doorbell::policy::{
        Cause,
        Hint, //
    },
    errno::enotconn,
    observe::{
        latency,
        probes,
        trace, //
    },
    wqe::ctrl::{
        Ctrl,
        Fence,
        Flags,
        HeadTemplate,
        Signal, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Flags that a plain request may have. The hints say nothing about the WQE itself.
pub(super) const PLAIN: u32 = flags::UNSIGNALED | HINTS;

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

/// Of a signaled WQE without anything special.
const SIGNALED: Flags = Flags::new(Fence::None, Signal::Always, false);

/// What the flags of a chain's last request say of what follows.
#[inline(always)]
pub(super) fn hint(flags: u32) -> Hint {
    match flags & HINTS {
        0 => Hint::None,
        flags::MORE => Hint::More,
        _ => Hint::Last,
    }
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
        if is_plainest(write) && !trace::posting() {
            // SAFETY: The caller guarantees one range.
            if unsafe { (*write.sge).length } as i32 > 0 {
                // SAFETY: Guaranteed by the caller. What else uses the poster takes the lock, and leaves
                // an exclusive queue alone while it is open.
                if let Some(guard) = unsafe { self.poster.try_take(handle) } {
                    if let Ok(first) = self.credit.reserve(handle, Way::One, 1) {
                        // Not before the handle has been found to be the right one.
                        // SAFETY: Guaranteed by the caller.
                        return unsafe { self.post_plainest(handle, guard, first, write) };
                    }
                    if let Some(lock) = guard.into_lock() {
                        // SAFETY: Guaranteed by the caller; the lock is that of `poster`.
                        return unsafe { self.post_plain_unlocked(write, lock) };
                    }
                }
            }
        }
        // Also when somebody else has the lock. Called last and with what is in registers already: the
        // usual case needs no stack frame.
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_plain(write, handle) }
    }

    /// Posts a WRITE of one range and without flags, for which there is room: it has request number `first`.
    ///
    /// # Safety
    ///
    /// `write` must have one range.
    #[inline(always)]
    unsafe fn post_plainest(
        &self,
        handle: Handle,
        mut guard: PosterGuard<'_>,
        first: u32,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        let poster = &mut *guard;
        let (block, request) = (poster.producer, first);
        // One after the other: so everything fits into registers that need not be saved.
        poster.slots.record(request, write.request as usize);
        let mut place = poster.slots.next(block, Mark::word(block, request, 1));
        let head = poster.plain_head.at(hardware(block));
        place.store::<0>(Ctrl::with_head(head, SIGNALED));
        // As `RemoteAddr::encode` and `plain_data`, word by word.
        place.word::<2>(write.remote_addr.to_be());
        let rkey = u64::from(write.rkey.to_be());
        place.word::<3>(if cfg!(target_endian = "little") {
            rkey
        } else {
            rkey << 32
        });
        // Read again, in place of a register for it.
        // SAFETY: The caller has found one range.
        let range = unsafe { &*core::ptr::from_ref(&write.sge).read_volatile() };
        place.word::<4>(length_and_key(range).to_be());
        place.word::<5>(range.addr.to_be());
        let (block, request) = (block.wrapping_add(1), request.wrapping_add(1));
        poster.producer = block;
        poster.unsignaled = 0;
        self.credit.commit(request);
        self.post_counters.posted.add(1);
        let signaled_rung = poster.signaled_rung;
        let cause = match handle {
            // Nothing waits.
            Handle::Exclusive => Some(Cause::Last),
            Handle::Shared if poster.policy.rings_each() => Some(Cause::Limit),
            // Read anew, so that the usual case needs the policy in no register. Who lets a WQE wait looks again.
            Handle::Shared => {
                opaque(&poster.policy).idle_alone(|| self.expects_completion(signaled_rung))
            }
        };
        let Some(cause) = cause else {
            return match guard.into_lock() {
                Some(lock) => self.show_with_others(write, lock, head),
                None => Ok(()),
            };
        };
        poster.signaled_rung = request;
        self.post_counters.rung(cause as usize, 1);
        poster.doorbell.ring(block, head);
        guard.release_well()
    }

    /// Rings or has it wait, as the policy says, for one signaled WQE that was posted and begins with
    /// `head`. It never fails: whoever posts says what this says. The parameters are in the order in which the
    /// caller has them in registers.
    #[inline(never)]
    fn show_with_others(
        &self,
        write: &bindings::mlx5_ulp_write,
        lock: PosterLock,
        head: [u8; 8],
    ) -> Result {
        // SAFETY: The only caller has it from this cell.
        let mut guard = unsafe { self.poster.locked(lock) };
        let mut at = Cursor::new(&guard, self.credit.posted());
        at.head = head;
        at.wqes = 1;
        self.show(Handle::Shared, &mut guard, &at, write.flags);
        guard.release();
        // The compiler is not to know: who calls this last returns what it returns.
        core::hint::black_box(Ok(()))
    }

    /// As [`SendQueue::post_write`], whatever it looks like. The parameters are in the order in which the caller
    /// has them in registers.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(never)]
    unsafe fn post_plain(&self, write: &bindings::mlx5_ulp_write, handle: Handle) -> Result {
        // SAFETY: Guaranteed by the caller.
        if unsafe { self.post_one(handle, write) } {
            return Ok(());
        }
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_any(handle, core::slice::from_ref(write)) }
    }

    /// As [`SendQueue::post_plain`], after the lock has been given back.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`], and `lock` is that of the poster of this queue.
    #[cold]
    #[inline(never)]
    unsafe fn post_plain_unlocked(
        &self,
        write: &bindings::mlx5_ulp_write,
        lock: PosterLock,
    ) -> Result {
        // SAFETY: Guaranteed by the caller.
        unsafe { self.poster.locked(lock) }.release();
        // SAFETY: Guaranteed by the caller.
        unsafe { self.post_plain(write, Handle::Shared) }
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
        if trace::posting() {
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
        guard.release();
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
        poster.prefetch();
        let count = writes.len() as u32;
        let mut done = 0;
        while done != count {
            // SAFETY: There are more than `done`. The rest is guaranteed by the caller.
            let put = unsafe {
                let rest = writes.as_ptr().add(done as usize);
                self.put_run(poster, &mut at, rest, count.wrapping_sub(done))
            };
            let Some(put) = put else {
                return false;
            };
            done = done.wrapping_add(put);
        }
        at.wqes = count;
        self.commit(poster, &at, count);
        let last_flags = writes.last().map_or(0, |write| write.flags);
        self.show(handle, poster, &at, last_flags);
        true
    }

    /// Writes the first of `count` WRITEs at `writes`, as many as go to places one behind the other, at the
    /// cursor and moves it on, but for its count of WQEs. Returns how many; `None` if one of them is not
    /// plain.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    unsafe fn put_run(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        writes: *const bindings::mlx5_ulp_write,
        count: u32,
    ) -> Option<u32> {
        let most_silent = poster.most_silent;
        let mut head = poster.plain_head.number(hardware(at.block));
        let mut mark = Mark::word(at.block, at.request, 1);
        let (mut unsignaled, mut last) = (at.unsignaled, head);
        let mut run = poster.slots.run(at.block, at.request, count);
        let count = run.left();
        for i in 0..count {
            // SAFETY: There are `count`. The rest is guaranteed by the caller.
            let (write, range) = unsafe {
                let write = &*writes.add(i as usize);
                (write, plain(write)?)
            };
            let mut flags = SIGNALED;
            if write.flags & flags::UNSIGNALED == 0 {
                unsignaled = 0;
            } else {
                unusual();
                flags = Flags::new(Fence::None, silent(&mut unsignaled, most_silent), false);
            }
            last = head;
            // SAFETY: At most as often as there were places left.
            let mut place = unsafe { run.next(mark, write.request as usize) };
            place.store::<0>(Ctrl::with_head(head.to_be_bytes(), flags));
            place.store::<1>(remote(write.remote_addr, write.rkey).encode());
            place.store::<2>(plain_data(range));
            // The counter in both wraps with the ring only.
            head = HeadTemplate::next(head);
            mark = Mark::next(mark);
        }
        at.unsignaled = unsignaled;
        at.head = last.to_be_bytes();
        at.request = at.request.wrapping_add(count);
        at.block = at.block.wrapping_add(count);
        Some(count)
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
            Some(cause) if poster.policy.waiting() == 0 => self.ring_now(poster, at, cause),
            cause => self.wait(poster, at.head, at.wqes, last_flags, cause),
        }
    }

    /// Whether and why to ring now for what was posted up to the cursor.
    #[inline(always)]
    pub(super) fn cause(
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
        let signaled_rung = poster.signaled_rung;
        let busy = || self.expects_completion(signaled_rung);
        poster.policy.posted(at.wqes, busy, hint(last_flags))
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
            None => self.wait(poster, at.head, at.wqes, last_flags, None),
        }
    }

    /// Why a post of `count` requests was refused.
    #[cold]
    #[inline(never)]
    pub(super) fn refused(&self, handle: Handle, count: u32) -> Error {
        let error = match self.state() {
            State::Unconnected => enotconn(),
            State::Connected if handle != self.handle => EINVAL,
            // Never fits, so `EAGAIN` would have the caller wait for ever.
            State::Connected if count > self.shape.depth => EMSGSIZE,
            State::Connected => {
                self.note_full(count);
                EAGAIN
            }
            State::Failed => EPIPE,
            State::Gone => ENODEV,
        };
        probes::refused(self.pci, self.completing.qpn(), count, error.to_errno());
        error
    }
}
