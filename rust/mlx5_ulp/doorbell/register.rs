// SPDX-License-Identifier: GPL-2.0

//! Ringing: the doorbell record, then the doorbell register.

use crate::{
    hw::{
        barrier,
        qp::QueuePair,
        record::DoorbellRecord, //
    },
    queue::ring::hardware,
    wqe::{
        BB,
        BLOCK_WORDS, //
    },
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
/// With BlueFlame, step 4 is the whole WQE, of one or more basic blocks, in stores of 8 bytes in the order
/// of their addresses. The device takes the copy instead of fetching the WQE, or fetches it nevertheless
/// if the copy does not arrive in one piece, so memory has to hold it, too.
///
/// The register has two halves used in turn, so that a store never meets one that is still under way.
///
/// # Invariants
///
/// While the owner may ring, `record` is the send word of a queue's doorbell record, and `register` the
/// first or the second half of a mapped doorbell register, which has `half` bytes. `half` is 0, when only
/// that half is used, or a power of two, to twice which the register is aligned. `room` blocks fit into a
/// half.
pub(crate) struct Doorbell {
    record: NonNull<u32>,
    register: NonNull<u64>,
    half: usize,
    room: u16,
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
            room: 0,
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
        let start = register.as_ptr();
        // A register that other queues use, too, is written in its first half only, as its other users
        // do, and takes no WQE: two at a time would mix.
        let own = !register.is_shared() && half.is_power_of_two();
        let halves = own && start.addr() & half == 0;
        // INVARIANT: Record and register live as long as `qp`. With that bit clear, the other half is
        // where the address with the bit set says.
        Some(Self {
            record: NonNull::new(record)?,
            register: NonNull::new(start)?,
            half: if halves { half } else { 0 },
            room: if own && register.is_write_combining() {
                half.wrapping_div(BB).try_into().ok()?
            } else {
                0
            },
        })
    }

    /// Shows the HCA everything before block `producer`. `head` is the beginning of the last WQE.
    #[inline(always)]
    pub(crate) fn ring(&mut self, producer: u32, head: [u8; 8]) {
        self.record(producer);
        // SAFETY: By the type invariant this is half of a mapped register.
        unsafe { barrier::write64(self.register.as_ptr(), u64::from_ne_bytes(head)) };
        // A no-op for a register that is not write-combining; to ask would cost as much.
        barrier::wmb();
        self.turn();
    }

    /// As [`Doorbell::ring`], for one new WQE of `blocks` blocks, which goes along: `block` says where each of
    /// them is. [`Doorbell::holds`] must have said that it fits.
    pub(crate) fn blueflame<'a>(
        &mut self,
        producer: u32,
        blocks: u16,
        block: impl Fn(u32) -> &'a [u64; BLOCK_WORDS],
    ) {
        self.record(producer);
        for at in 0..blocks.min(self.room) {
            // SAFETY: By the type invariant `room` blocks fit into half of the register.
            unsafe {
                let register = self.register.as_ptr().add(usize::from(at) * BLOCK_WORDS);
                barrier::write_block(register, block(at.into()));
            }
        }
        barrier::wmb();
        self.turn();
    }

    /// Steps 1 to 3: the record says that everything before block `producer` is there.
    #[inline(always)]
    fn record(&mut self, producer: u32) {
        barrier::dma_wmb();
        // SAFETY: By the type invariant the record is valid, and only its owner writes it.
        unsafe {
            self.record
                .as_ptr()
                .write_volatile(u32::from(hardware(producer)).to_be())
        };
        barrier::wmb();
    }

    /// Whether a WQE of so many blocks fits into the register.
    #[inline]
    pub(crate) fn holds(&self, blocks: u16) -> bool {
        blocks <= self.room
    }

    /// Has the CPU get hold of the doorbell record to write to it, without writing.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        barrier::prefetch_for_write(self.record.as_ptr());
    }

    /// On to the other half.
    #[inline(always)]
    fn turn(&mut self) {
        // SAFETY: Flips a bit above those of the pointer's alignment, within a mapped page: not null.
        self.register = unsafe {
            NonNull::new_unchecked(self.register.as_ptr().map_addr(|addr| addr ^ self.half))
        };
    }
}
