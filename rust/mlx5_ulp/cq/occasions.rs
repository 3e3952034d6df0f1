// SPDX-License-Identifier: GPL-2.0

//! Who completes beside the interrupt: a consumer who looks, the work item, whoever ends a queue.

use super::{
    run::Run,
    turn::Turn, //
};
use crate::{
    irq::softirqs_are_off,
    queue::send::SendQueue, //
};
use core::{
    ptr::null_mut,
    sync::atomic::Ordering::{
        Acquire,
        Relaxed,
        Release, //
    }, //
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mlx5_ulp_bindings as bindings;

/// The context in which consumers are called: with softirqs off on this CPU while it exists, from wherever
/// that happens, unless they are called in process context.
struct Context {
    softirqs_off: bool,
}

impl Context {
    fn of(queue: &SendQueue) -> Self {
        let softirqs_off = !queue.in_work;
        if softirqs_off {
            // SAFETY: Nests, and is undone by `drop` in the same task.
            unsafe { bindings::mlx5_ulp_shim_bh_disable() };
        }
        Self { softirqs_off }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.softirqs_off {
            // SAFETY: Undoes `of`.
            unsafe { bindings::mlx5_ulp_shim_bh_enable() };
        }
    }
}

impl SendQueue {
    /// Completes everything in flight without the device, waiting for the turn: see [`SendQueue::end`].
    /// Sleeps.
    pub(crate) fn complete_all(&self) {
        loop {
            {
                let _context = Context::of(self);
                if let Some(mut turn) = self.turn() {
                    return self.end(&mut turn);
                }
            }
            fsleep(Delta::from_micros(20));
        }
    }

    /// Looks for completions and calls consumers, from the work item; then as the mode says. See
    /// [`Interrupt`](super::interrupt::Interrupt), which has queued it.
    pub(crate) fn complete_in_work(&self) {
        let mut pause = 20;
        // Whoever has the turn may have it for long, since callbacks may sleep here.
        while self.is_completing() && !self.completing.is_over() {
            fsleep(Delta::from_micros(pause));
            pause = pause.saturating_mul(2).min(1000);
        }
        // SAFETY: By the contract of `SendQueue::attach` the queue lives until the work item is disabled.
        if let Some(cq) = unsafe { self.completing.cq.load(Acquire).as_ref() } {
            self.look(cq, || self.work.queue());
        }
    }

    /// As [`SendQueue::tell_space`], once the turn is free. Sleeps.
    pub(crate) fn tell_space_later(&self) {
        if !self.space_is_wanted() {
            return;
        }
        loop {
            {
                let _context = Context::of(self);
                if let Some(_turn) = self.turn() {
                    return self.tell_space();
                }
            }
            fsleep(Delta::from_micros(20));
        }
    }

    /// Takes up to `budget` entries, at least 1, for a consumer who looks by himself. Interrupts are on.
    #[inline(always)]
    pub(crate) fn poll_now(&self, budget: u32) -> u32 {
        if !softirqs_are_off() {
            return self.poll_softirqs_off(budget);
        }
        match self.turn() {
            Some(mut turn) => self.poll(&mut turn, budget),
            None => 0,
        }
    }

    /// As [`SendQueue::poll_now`], from a task.
    #[inline(never)]
    fn poll_softirqs_off(&self, budget: u32) -> u32 {
        let _context = Context::of(self);
        match self.turn() {
            Some(mut turn) => self.poll(&mut turn, budget),
            None => 0,
        }
    }

    /// Tells the device how to moderate its events. Sleeps; one at a time, from the work item or before
    /// it is queued.
    ///
    /// # Errors
    ///
    /// Those of the firmware.
    pub(crate) fn moderate_device(&self) -> Result {
        // SAFETY: By the contract of `SendQueue::attach` the queue lives until the work item is disabled.
        match unsafe { self.completing.cq.load(Acquire).as_ref() } {
            Some(cq) => self.moderator.program(cq),
            None => Ok(()),
        }
    }

    /// Completes everything in flight without the device, and for good: nobody looks at the ring any more
    /// when this returns.
    ///
    /// The queue must be closed to all posters, and the device must not carry out anything of it any more.
    /// Softirqs must be off. May be called again.
    pub(crate) fn end(&self, turn: &mut Turn<'_>) {
        // What is there was there already, so not more than fits: a device that goes on writing entries, against
        // the rules, does not keep us.
        let ring = self.completing.ring(turn);
        let mut left = ring.map_or(0, |ring| 1u32 << (ring.log_entries() & 31));
        while left != 0 {
            let taken = self.poll(turn, left);
            if taken == 0 {
                break;
            }
            left = left.saturating_sub(taken);
        }
        self.flush_in_software();
        self.tell_space();
        self.completing.over.store(true, Release);
        self.completing.ring.store(null_mut(), Relaxed);
        *self.completing.run(turn) = Run::none();
    }
}
