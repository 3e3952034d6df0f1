// SPDX-License-Identifier: GPL-2.0

//! Taking completion entries, retiring requests, telling consumers.
//!
//! The device is not trusted: an entry retires requests only if it names a WQE that is in flight on
//! this queue. Everything else is counted, reported once and dropped.

use super::{
    cqe::{
        self,
        Opcode,
        Tail, //
    },
    syndrome::Syndrome, //
};
use crate::{
    hw::{
        barrier,
        cq::CqCore, //
    },
    observe::{
        totals::CompletionCounters,
        trace, //
    },
    queue::{
        in_flight::Range,
        request::{
            deliver,
            Outcome, //
        },
        send::SendQueue, //
    },
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU32,
    Ordering::{
        Acquire,
        Relaxed,
        Release, //
    }, //
};
use kernel::prelude::*;

/// Byte of an error entry with the vendor's syndrome; the syndrome follows
/// (`struct mlx5_err_cqe`).
const VENDOR_SYNDROME: usize = 0x36;

/// What only one who completes touches: guarded by `taken`.
#[repr(align(64))]
pub(crate) struct Completing {
    /// Whether somebody is at it. Not a lock: nobody waits for it with interrupts off, and callbacks
    /// run while it is set.
    taken: AtomicBool,
    /// Whether an entry that made no sense has been reported.
    reported: AtomicBool,
    /// Whether an error entry was taken.
    failed: AtomicBool,
    /// The QP that entries must name.
    qpn: AtomicU32,
    /// Entries taken, free running.
    consumer: AtomicU32,
    counters: CompletionCounters,
}

impl Completing {
    /// Nothing taken yet.
    pub(crate) fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            qpn: AtomicU32::new(0),
            consumer: AtomicU32::new(0),
            counters: CompletionCounters::default(),
        }
    }

    /// From here on entries must name this QP.
    pub(crate) fn expect(&self, qpn: u32) {
        self.qpn.store(qpn, Relaxed);
    }

    /// What has completed.
    pub(crate) fn counters(&self) -> &CompletionCounters {
        &self.counters
    }
}

/// The right to complete requests of a queue: one at a time. Given back when dropped.
pub(crate) struct Turn<'a>(&'a SendQueue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.completing.taken.store(false, Release);
    }
}

/// One entry, as far as completing needs it.
struct Entry {
    tail: Tail,
    /// Only read if the entry is an error.
    syndrome: Syndrome,
    vendor_syndrome: u8,
}

/// Takes a look at entry `consumer`; `None` when the device has not written it.
#[inline(always)]
fn look(ring: &CqCore, consumer: u32) -> Option<Entry> {
    let bytes = ring.cqe(consumer);
    // SAFETY: An entry has 64 bytes, the ring lives as long as `ring`, and a byte is read in one piece.
    let op_own = unsafe { bytes.add(cqe::SIZE - 1).read_volatile() };
    if !cqe::ready(op_own, consumer, ring.log_entries()) {
        return None;
    }
    // The device wrote the last byte last; nothing of the entry may be read before it.
    barrier::dma_rmb();
    // SAFETY: As above; entries are aligned to 64 bytes, so the last 8 are aligned.
    let tail = unsafe { bytes.add(cqe::TAIL).cast::<u64>().read_volatile() };
    let tail = Tail::decode(&tail.to_ne_bytes());
    let (mut syndrome, mut vendor_syndrome) = (Syndrome(0), 0);
    if tail.opcode().is_error() {
        // SAFETY: As above.
        unsafe {
            vendor_syndrome = bytes.add(VENDOR_SYNDROME).read_volatile();
            syndrome = Syndrome(bytes.add(VENDOR_SYNDROME + 1).read_volatile());
        }
    }
    Some(Entry {
        tail,
        syndrome,
        vendor_syndrome,
    })
}

impl SendQueue {
    /// Takes the right to complete, if nobody has it.
    #[inline(always)]
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        if self.completing.taken.swap(true, Acquire) {
            return None;
        }
        Some(Turn(self))
    }

    /// Whether somebody is completing, callbacks included. Who has seen a request retired, and then sees
    /// this false, knows that its callback has returned.
    pub(crate) fn is_completing(&self) -> bool {
        self.completing.taken.load(Acquire)
    }

    /// Entries taken so far, the consumer counter to arm with. For the holder of the turn.
    #[inline]
    pub(crate) fn consumer(&self, _turn: &Turn<'_>) -> u32 {
        self.completing.consumer.load(Relaxed)
    }

    /// Takes up to `budget` entries and completes what they say. Returns how many it took.
    ///
    /// Softirqs must be off: consumers are called.
    pub(crate) fn poll(&self, _turn: &Turn<'_>, ring: &CqCore, budget: u32) -> u32 {
        let mut consumer = self.completing.consumer.load(Relaxed);
        let before = self.credit.retired();
        let mut taken = 0u32;
        while taken < budget {
            let Some(entry) = look(ring, consumer) else {
                break;
            };
            consumer = consumer.wrapping_add(1);
            taken = taken.wrapping_add(1);
            // Before any callback: what it posts may complete at once, into the entry just taken.
            self.completing.consumer.store(consumer, Relaxed);
            ring.set_consumer(consumer);
            self.take(&entry);
        }
        if taken != 0 {
            self.completing.counters.entries.add(taken.into());
            self.completed(self.credit.retired().wrapping_sub(before));
        }
        taken
    }

    /// Completes what one entry says.
    #[inline(always)]
    fn take(&self, entry: &Entry) {
        let tail = &entry.tail;
        trace::completion(
            self.pci,
            tail.qpn,
            tail.wqe_counter,
            tail.opcode().0,
            entry.syndrome.0,
        );
        let range = self.requests.at(
            tail.wqe_counter,
            self.credit.retired(),
            self.credit.posted(),
        );
        let (Some(range), true) = (range, tail.qpn == self.completing.qpn.load(Relaxed)) else {
            return self.nonsense(tail);
        };
        match tail.opcode() {
            Opcode::REQ => self.complete(range.end, Outcome::Done),
            Opcode::REQ_ERR => self.take_error(entry, range),
            _ => self.nonsense(tail),
        }
    }

    /// Completes all requests before number `end`.
    #[inline(always)]
    fn complete(&self, end: u32, outcome: Outcome) {
        let completion = outcome.completion(self.context());
        let mut count = 0u64;
        loop {
            let request = self.credit.retired();
            if request == end {
                break;
            }
            let cookie = self.requests.cookie(request);
            // The credit comes back first, so that the callback can post.
            self.credit.retire();
            count = count.wrapping_add(1);
            // SAFETY: `InFlight::at` or the caller have it that the request is in flight; it has just
            // been retired, and what is retired is never delivered again.
            unsafe { deliver(cookie, &completion) };
        }
        self.completing.counters.completed.add(count);
        if outcome != Outcome::Done {
            self.count_failures(outcome, count);
        }
    }

    #[cold]
    fn count_failures(&self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Flushed { .. } => self.completing.counters.flushed.add(count),
            _ => self.completing.counters.errors.add(count),
        }
    }

    /// An error entry: the requests of its WQE have failed.
    ///
    /// Those before it that nothing reported were carried out if this is the first error entry: the device
    /// works in order, and once it has failed it reports every WQE.
    #[cold]
    #[inline(never)]
    fn take_error(&self, entry: &Entry, range: Range) {
        let (syndrome, vendor_syndrome) = (entry.syndrome, entry.vendor_syndrome);
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
        // No more posts before the first consumer hears of it.
        self.fail();
        if !self.completing.failed.swap(true, Relaxed) {
            if !syndrome.is_flush() {
                pr_warn!(
                    "queue {:#x}: WQE {} failed: {} (syndrome {:#x}, vendor {:#x})\n",
                    entry.tail.qpn,
                    entry.tail.wqe_counter,
                    syndrome.text(),
                    syndrome.0,
                    vendor_syndrome
                );
            }
            self.complete(range.begin, Outcome::Done);
        }
        self.complete(range.end, outcome);
        // What waits for the doorbell is to be flushed by the device, too.
        self.flush();
    }

    /// An entry that cannot be.
    #[cold]
    #[inline(never)]
    fn nonsense(&self, tail: &Tail) {
        self.completing.counters.invalid.add(1);
        if !self.completing.reported.swap(true, Relaxed) {
            pr_warn!(
                "completion entry names nothing in flight: queue {:#x}, WQE {}, opcode {}; dropped\n",
                tail.qpn,
                tail.wqe_counter,
                tail.opcode().0
            );
        }
    }

    /// Completes everything in flight without the device.
    ///
    /// The queue must be closed, and the device must not complete anything of it any more. Softirqs must
    /// be off.
    pub(crate) fn flush_in_software(&self, _turn: &Turn<'_>) {
        self.complete(self.credit.posted(), Outcome::SOFTWARE_FLUSH);
    }
}
