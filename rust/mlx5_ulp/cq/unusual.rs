// SPDX-License-Identifier: GPL-2.0

//! Completion entries that are not a plain success: errors, compressed blocks, nonsense.

use super::{
    compressed::{
        self,
        Block, //
    },
    cqe::{
        self,
        Opcode,
        Tail, //
    },
    poll::Progress,
    syndrome::Syndrome, //
};
use crate::{
    hw::{
        barrier,
        cq::CqCore, //
    },
    observe::{
        probes,
        trace, //
    },
    queue::{
        in_flight::Range,
        request::Outcome,
        send::SendQueue, //
    },
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::prelude::*;

/// Byte of an error entry with the vendor's syndrome; the syndrome follows
/// (`struct mlx5_err_cqe`).
const VENDOR_SYNDROME: usize = 0x36;

/// What became of an entry.
pub(super) enum Took {
    /// It was taken, or a whole block of them.
    Entries,
    /// Nothing was taken: there is not enough room left in this poll, or the ring cannot be followed.
    Nothing,
}

/// Copies the place at a counter.
pub(super) fn read(ring: &CqCore, at: u32) -> [u8; cqe::SIZE] {
    let place = ring.cqe(at).cast::<u64>();
    let mut bytes = [0; cqe::SIZE];
    for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
        // SAFETY: A place has eight aligned words, the ring lives as long as `ring`.
        let value = unsafe { place.add(i & 7).read_volatile() };
        word.copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

impl SendQueue {
    /// Takes the entry at the consumer counter, which the device has written and which is not a plain
    /// success of this queue. `word` is its tail as it stands in memory, `left` how many entries may be
    /// taken.
    #[cold]
    #[inline(never)]
    pub(super) fn take_unusual(
        &self,
        ring: &CqCore,
        now: &mut Progress,
        word: u64,
        left: u32,
    ) -> Took {
        let tail = &Tail::decode(&word.to_ne_bytes());
        if compressed::is_title(tail.op_own) {
            return self.take_block(ring, now, left);
        }
        let (mut vendor_syndrome, mut syndrome) = (0, Syndrome(0));
        if tail.opcode().is_error() {
            let place = read(ring, now.consumer);
            if let [vendor, code] = place[VENDOR_SYNDROME..VENDOR_SYNDROME + 2] {
                (vendor_syndrome, syndrome) = (vendor, Syndrome(code));
            }
        }
        now.consumer = now.consumer.wrapping_add(1);
        trace::completion(
            self.pci,
            tail.qpn,
            tail.wqe_counter,
            tail.opcode().0,
            syndrome.0,
        );
        probes::bad_cqe(
            self.pci,
            tail.qpn,
            tail.wqe_counter,
            tail.opcode().0,
            syndrome.0,
        );
        let posted = self.credit.posted();
        let range = self
            .requests
            .view()
            .at(tail.wqe_counter, now.retired, posted);
        let outcome = if syndrome.is_flush() {
            Outcome::Flushed {
                syndrome,
                vendor_syndrome,
            }
        } else {
            Outcome::Failed {
                syndrome,
                vendor_syndrome,
            }
        };
        match (tail.opcode(), range) {
            (Opcode::REQ_ERR, Some(range)) if tail.qpn == self.completing.qpn() => {
                self.take_error(now, tail, range, outcome);
            }
            (Opcode::RESP_ERR, _) => self.take_receive_error(tail, outcome),
            _ => self.nonsense(tail),
        }
        Took::Entries
    }

    /// Takes a compressed block, all of it: its requests are completed one by one.
    fn take_block(&self, ring: &CqCore, now: &mut Progress, left: u32) -> Took {
        let log_entries = ring.log_entries();
        let title = read(ring, now.consumer);
        let opened = Block::open(
            &title,
            now.consumer,
            log_entries,
            // Not more than can be in flight.
            self.completing.room(),
        );
        let mut block = match opened {
            Ok(block) => block,
            Err(reason) => {
                // Nobody knows where the next entry is.
                self.completing.counters().invalid.add(1);
                if !self.completing.reported.swap(true, Relaxed) {
                    let (what, value) = reason.reason();
                    pr_err!(
                        "queue {:#x}: impossible {what}: {value}\n",
                        self.completing.qpn()
                    );
                }
                self.break_down();
                return Took::Nothing;
            }
        };
        if block.left() > left {
            return Took::Nothing;
        }
        self.completing.counters().blocks.add(1);
        while let Some(success) = block.next(|at| read(ring, at)) {
            let at = now.consumer;
            now.consumer = at.wrapping_add(1);
            let tail = &success.tail;
            trace::completion(self.pci, tail.qpn, tail.wqe_counter, tail.opcode().0, 0);
            let posted = self.credit.posted();
            let range = self
                .requests
                .view()
                .at(tail.wqe_counter, now.retired, posted);
            // Before any callback, and before the device may write there again.
            ring.release(at, compressed::released_op_own(at, log_entries));
            match range {
                Some(range)
                    if tail.qpn == self.completing.qpn() && tail.opcode() == Opcode::REQ =>
                {
                    let mut retired = now.retired;
                    let view = self.requests.view();
                    self.retire_measured(
                        ring,
                        success.timestamp,
                        tail.wqe_opcode,
                        range.end,
                        || self.retire(&view, &mut retired, range.end, &self.success),
                    );
                    now.retired = range.end;
                }
                _ => self.nonsense(tail),
            }
        }
        // The marks of the places before the counter in the record that gives them back.
        barrier::dma_wmb();
        Took::Entries
    }

    /// Completes all requests before number `end`, those from `retired` on, not with success.
    fn retire_failed(&self, retired: &mut u32, end: u32, outcome: Outcome) {
        let count = u64::from(end.wrapping_sub(*retired));
        let completion = outcome.completion(self.context());
        self.retire(&self.requests.view(), retired, end, &completion);
        match outcome {
            Outcome::Flushed { .. } => self.completing.counters().flushed.add(count),
            _ => self.completing.counters().errors.add(count),
        }
    }

    /// An error entry: the requests of its WQE have failed.
    ///
    /// Those before it that nothing reported were carried out if this is the first error entry: the device
    /// works in order, and once it has failed it reports every WQE.
    fn take_error(&self, now: &mut Progress, tail: &Tail, range: Range, outcome: Outcome) {
        // No more posts before the first consumer hears of it.
        self.fail();
        if !self.completing.failed.swap(true, Relaxed) {
            if let Outcome::Failed {
                syndrome,
                vendor_syndrome,
            } = outcome
            {
                pr_warn!(
                    "queue {:#x}: WQE {} failed: {} (syndrome {:#x}, vendor {:#x})\n",
                    tail.qpn,
                    tail.wqe_counter,
                    syndrome.text(),
                    syndrome.0,
                    vendor_syndrome
                );
            }
            let view = self.requests.view();
            self.retire(&view, &mut now.retired, range.begin, &self.success);
        }
        self.retire_failed(&mut now.retired, range.end, outcome);
        // What waits for the doorbell is to be flushed by the device, too.
        self.flush();
    }

    /// An entry that cannot be.
    pub(super) fn nonsense(&self, tail: &Tail) {
        self.completing.counters().invalid.add(1);
        if self.completing.reported.swap(true, Relaxed) {
            return;
        }
        pr_warn!(
            "completion entry names nothing in flight: queue {:#x}, WQE {}, opcode {}; dropped\n",
            tail.qpn,
            tail.wqe_counter,
            tail.opcode().0
        );
    }

    /// Completes everything in flight without the device; see [`SendQueue::end`].
    pub(super) fn flush_in_software(&self) {
        let before = self.credit.retired();
        let mut retired = before;
        self.retire_failed(&mut retired, self.credit.posted(), Outcome::SOFTWARE_FLUSH);
        let count = retired.wrapping_sub(before);
        self.completing.counters().completed.add(count.into());
        if let Some(receives) = &self.receives {
            receives.flush(self.context());
        }
    }
}
