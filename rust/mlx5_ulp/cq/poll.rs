// SPDX-License-Identifier: GPL-2.0

//! Taking completion entries, retiring requests, telling consumers.
//!
//! The device is not trusted: an entry retires requests only if it names a WQE that is in flight on
//! this queue. Everything else is counted, reported once and dropped.
//!
//! # Room
//!
//! The consumer counter goes to the doorbell record once in a poll, behind its last entry, while callbacks
//! post anew into the credits that came back. So a completion queue has entries for all requests in flight
//! *and* for those that one poll takes: [`Completing::room`](super::turn::Completing) is what is left for the latter.

use super::{
    cqe::{
        self,
        Opcode,
        Tail, //
    },
    run::Run,
    turn::Turn,
    unusual::Took, //
};
use crate::{
    hw::{
        barrier,
        cq::CqCore, //
    },
    observe::{
        latency,
        trace, //
    },
    queue::{
        in_flight::View,
        request::deliver,
        send::SendQueue, //
    },
    wqe,
};
use core::mem::MaybeUninit;
use mlx5_ulp_bindings as bindings;

/// How far a poll has come.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// Entries taken, free running.
    pub(super) consumer: u32,
    /// Requests retired, free running.
    pub(super) retired: u32,
}

/// Entries that are looked at before their consumers are told.
const CHUNK: usize = 16;

impl SendQueue {
    /// Takes up to `budget` entries, at least 1, and the rest of a compressed block, but not more than there is room
    /// for, and completes what they say. Returns how many it took: 0 when there was none, or the queue is over.
    ///
    /// What is taken as expected needs no look at the room: a [`Run`] ends with the table of cookies, of which
    /// there are the next power of two of the queue's depth, and the completion queue has twice the next power
    /// of two of all that is in flight, which leaves room for no less.
    ///
    /// Softirqs must be off: consumers are called. But for queues that call in process context.
    #[inline(always)]
    pub(crate) fn poll(&self, turn: &mut Turn<'_>, budget: u32) -> u32 {
        // Acquire: the marks and cookies of these are there. And no more than that, whatever the device says.
        let in_flight = self.credit.in_flight();
        if in_flight == 0 || trace::completing() {
            return self.poll_more(turn, budget, 0, in_flight);
        }
        // Mostly there is one, and it is as expected.
        let Some(cookie) = self.completing.run(turn).take_one() else {
            return self.poll_more(turn, budget, 0, in_flight);
        };
        self.retire_one(cookie);
        if budget != 1 {
            return self.poll_run(turn, budget, in_flight);
        }
        self.took(turn, 1, 1, in_flight);
        1
    }

    /// The rest of [`SendQueue::poll`], when the first entry was as expected: the next ones mostly are, too.
    #[inline(never)]
    fn poll_run(&self, turn: &mut Turn<'_>, budget: u32, in_flight: u32) -> u32 {
        let run = self.completing.run(turn);
        let taken = self.take_run(run, budget.wrapping_sub(1)).wrapping_add(1);
        if taken != budget {
            return self.poll_more(turn, budget, taken, in_flight);
        }
        self.took(turn, taken, taken, in_flight);
        taken
    }

    /// The rest of [`SendQueue::poll`], when `taken` entries were taken and as many requests retired, of those
    /// `in_flight` when it began.
    #[inline(never)]
    fn poll_more(&self, turn: &mut Turn<'_>, budget: u32, taken: u32, in_flight: u32) -> u32 {
        let Some((ring, run)) = self.completing.ring_and_run(turn) else {
            return 0;
        };
        let (first, retired) = (self.completing.consumer(), self.credit.retired());
        let mut now = Progress {
            consumer: first.wrapping_add(taken),
            retired,
        };
        self.take_rest(ring, run, &mut now, budget, taken);
        let entries = now.consumer.wrapping_sub(first);
        if entries != 0 {
            let retired = now.retired.wrapping_sub(retired).wrapping_add(taken);
            self.took(turn, entries, retired, in_flight);
        }
        entries
    }

    /// A poll has taken so many entries and retired so many requests; so many were in flight when it began.
    #[inline(always)]
    fn took(&self, turn: &mut Turn<'_>, entries: u32, retired: u32, in_flight: u32) {
        let counters = &self.completing.counters;
        counters.entries.add(entries.into());
        counters.completed.add(retired.into());
        if let Some(ring) = self.completing.ring(turn) {
            ring.set_consumer(self.completing.consumer());
        }
        self.completed(in_flight);
    }

    /// Retires the oldest request, and tells its consumer, whose cookie this is.
    #[inline(always)]
    fn retire_one(&self, cookie: usize) {
        // The credit comes back first, so that the callback can post. The cookie has been read before that.
        self.credit.retire();
        // SAFETY: The request was in flight, as `Run` says; it has just been retired, and what is retired is
        // never delivered again.
        unsafe { deliver(cookie, &self.success) };
    }

    /// Takes entries as long as they are as expected, up to `budget`, and completes what they say. Returns how
    /// many.
    #[inline(always)]
    fn take_run(&self, run: &mut Run, budget: u32) -> u32 {
        let retired = self.credit.retired();
        let mut cookies = [const { MaybeUninit::uninit() }; CHUNK];
        let most = self.credit.in_flight().min(budget);
        let taken = run.take(most, &mut cookies);
        // As in `retire_one`, for all of them.
        self.credit.set_retired(retired.wrapping_add(taken));
        for i in 0..taken as usize {
            // SAFETY: `take` has filled in so many. The rest as in `retire_one`.
            unsafe { deliver(cookies.get_unchecked(i).assume_init(), &self.success) };
        }
        taken
    }

    /// Takes more entries, those that are not as expected too: `budget` in all, of which `taken` are taken.
    /// `now` says how far the poll has come; returns how far it came.
    #[inline(always)]
    fn take_rest(&self, ring: &CqCore, run: &mut Run, now: &mut Progress, budget: u32, taken: u32) {
        let completing = &self.completing;
        let (qpn, log_entries) = (completing.qpn(), ring.log_entries());
        let requests = self.requests.view();
        let last = now
            .consumer
            .wrapping_add(budget.min(completing.room()).saturating_sub(taken));
        // Behind this one there may be no room.
        let end = now
            .consumer
            .wrapping_sub(taken)
            .wrapping_add(completing.room());
        // The block where the next WQE starts if it goes on as it did.
        let mut steady = None;
        loop {
            let left = last.wrapping_sub(now.consumer);
            if left as i32 <= 0 {
                break;
            }
            if run.left() != 0 && !trace::completing() {
                let taken = self.take_run(run, left);
                now.consumer = now.consumer.wrapping_add(taken);
                now.retired = now.retired.wrapping_add(taken);
                if taken != 0 {
                    steady = None;
                    continue;
                }
            }
            let word = ring.tail(now.consumer);
            let tail = Tail::decode(&word.to_ne_bytes());
            if !cqe::ready(tail.op_own, now.consumer, log_entries) {
                break;
            }
            // Nothing else of the entry, nor what the device did before, may be read before that.
            barrier::dma_rmb();
            if cqe::is_receive(tail.op_own) {
                *run = Run::none();
                self.take_receive(ring, now.consumer);
                now.consumer = now.consumer.wrapping_add(1);
                continue;
            }
            let range = if tail.qpn == qpn && cqe::is_plain(tail.op_own) {
                requests.at(tail.wqe_counter, now.retired, self.credit.posted())
            } else {
                None
            };
            *run = Run::none();
            let Some(range) = range else {
                // A block may be of more than the caller wanted, as long as there is room: what is left over of
                // entries that an event has told of would be told of by no other. There were no more of these than
                // there is room for.
                let limit = end.wrapping_sub(now.consumer);
                match self.take_unusual(ring, now, word, limit) {
                    Took::Entries => continue,
                    Took::Nothing => break,
                }
            };
            let single = range.end.wrapping_sub(now.retired) == 1;
            if trace::completing() {
                now.retired = self.retire_watched(ring, *now, word, range.end);
            } else {
                self.retire(&requests, &mut now.retired, range.end, &self.success);
            }
            now.consumer = now.consumer.wrapping_add(1);
            let next = tail.wqe_counter.wrapping_add(1);
            if single && steady.is_none_or(|block| block == tail.wqe_counter) {
                *run = Run::new(ring, &requests, qpn, now.consumer, next, now.retired);
            }
            steady = Some(next);
        }
    }

    /// [`SendQueue::retire`] for the plain entry with tail `word`, while somebody watches. Returns how many
    /// requests are retired then.
    #[cold]
    #[inline(never)]
    fn retire_watched(&self, ring: &CqCore, now: Progress, word: u64, end: u32) -> u32 {
        let tail = Tail::decode(&word.to_ne_bytes());
        trace::completion(self.pci, tail.qpn, tail.wqe_counter, Opcode::REQ.0, 0);
        let mut retired = now.retired;
        let retire = || self.retire(&self.requests.view(), &mut retired, end, &self.success);
        self.retire_measured(
            ring,
            ring.timestamp(now.consumer),
            tail.wqe_opcode,
            end,
            retire,
        );
        retired
    }

    /// Has `retire` complete the requests before number `end`, and measures the last of them if that is
    /// on: the entry about it came with this time stamp and the opcode of its WQE.
    pub(super) fn retire_measured(
        &self,
        ring: &CqCore,
        stamp: u64,
        wqe_opcode: u8,
        end: u32,
        mut retire: impl FnMut(),
    ) {
        // What is measured is counted by CPU, and callbacks that sleep change theirs.
        if latency::is_on() && !self.in_work {
            self.measure(ring, stamp, wqe::opcode::Opcode(wqe_opcode), end, retire);
        } else {
            retire();
        }
    }

    /// Completes all requests before number `end`, those from `retired` on, which are in flight.
    #[inline(always)]
    pub(super) fn retire(
        &self,
        requests: &View<'_>,
        retired: &mut u32,
        end: u32,
        completion: &bindings::mlx5_ulp_completion,
    ) {
        while *retired != end {
            let cookie = requests.cookie(*retired);
            *retired = retired.wrapping_add(1);
            // The credit comes back first, so that the callback can post.
            self.credit.set_retired(*retired);
            // SAFETY: The request was in flight, as `InFlight::at` or the credits say; it has just been
            // retired, and what is retired is never delivered again.
            unsafe { deliver(cookie, completion) };
        }
    }
}
