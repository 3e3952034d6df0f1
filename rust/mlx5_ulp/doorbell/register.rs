// SPDX-License-Identifier: GPL-2.0

//! Ringing: the doorbell record, then the doorbell register.

use crate::{
    hw::{
        barrier,
        qp::QueuePair,
        record::DoorbellRecord, //
    },
    queue::ring::hardware,
};
use core::ptr::NonNull;

/// The doorbell of one send queue.
///
/// Ringing is, in this order and with these barriers:
///
/// 1. the WQEs are in memory (`dma_wmb()`): the HCA fetches whatever the record covers;
/// 2. the record: the producer counter, which the HCA takes as the truth;
/// 3. the record is in memory before the register is written (`wmb()`): on that write the HCA reads the
///    record;
/// 4. the register: the first 8 bytes of the last WQE, in one store;
/// 5. where the register is write-combining, the store leaves the CPU's buffer (`wmb()`) before the
///    other half of the register is used or the lock of the queue is given up: two stores that were
///    combined, or overtook one another, would be lost doorbells.
///
/// The register has two halves used in turn, so that a store never meets one that is still under way.
///
/// # Invariants
///
/// While the owner may ring, `record` is the send word of a queue's doorbell record and `register` with
/// the `half` bytes behind it a mapped doorbell register. `half` is a power of two or 0.
pub(crate) struct Doorbell {
    record: NonNull<u32>,
    register: NonNull<u64>,
    half: usize,
    offset: usize,
}

// SAFETY: Record and register belong to whoever owns the `Doorbell`, from whatever CPU.
unsafe impl Send for Doorbell {}

impl Doorbell {
    /// The doorbell of a queue that does not take posts yet.
    pub(crate) fn none() -> Self {
        // INVARIANT: The owner may not ring.
        Self {
            record: NonNull::dangling(),
            register: NonNull::dangling(),
            half: 0,
            offset: 0,
        }
    }

    /// The doorbell of `qp`; `None` if it has no register.
    ///
    /// # Safety
    ///
    /// The owner must not ring after `qp` is dropped, and there must be only one owner.
    pub(crate) unsafe fn new(qp: &QueuePair) -> Option<Self> {
        let record = qp.record().as_ptr().wrapping_add(DoorbellRecord::SEND);
        let register = qp.register();
        let half = register.half_bytes();
        // INVARIANT: Record and register live as long as `qp`. A register that other queues use, too,
        // is written in its first half only, as its other users do.
        Some(Self {
            record: NonNull::new(record)?,
            register: NonNull::new(register.as_ptr())?,
            half: if register.is_shared() || !half.is_power_of_two() {
                0
            } else {
                half
            },
            offset: 0,
        })
    }

    /// Shows the HCA everything before block `producer`. `head` is the beginning of the last WQE.
    #[inline(always)]
    pub(crate) fn ring(&mut self, producer: u32, head: [u8; 8]) {
        barrier::dma_wmb();
        // SAFETY: By the type invariant the record is valid, and only its owner writes it.
        unsafe {
            self.record
                .as_ptr()
                .write_volatile(u32::from(hardware(producer)).to_be())
        };
        barrier::wmb();
        // SAFETY: By the type invariant the register has two halves of `half` bytes; `offset` is 0 or
        // `half`.
        unsafe {
            let register = self.register.as_ptr().byte_add(self.offset);
            barrier::write64(register, u64::from_ne_bytes(head));
        }
        // A no-op for a register that is not write-combining; to ask would cost as much.
        barrier::wmb();
        self.offset ^= self.half;
    }
}
