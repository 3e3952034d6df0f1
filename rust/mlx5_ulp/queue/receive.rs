// SPDX-License-Identifier: GPL-2.0

//! Receives: room for messages of the peer, posted ahead.
//!
//! A receive ring has no doorbell register: the device reads the producer counter in the doorbell record when a
//! message comes. Receives are consumed, and complete, in the order in which they were posted, so one that
//! completes is always the oldest one, and the entry about it must say so.

use super::{
    credit::{
        Credit,
        Handle,
        Way, //
    },
    encode::{
        data,
        ranges, //
    },
    in_flight::Cookie,
    request::{
        deliver,
        Outcome, //
    },
    ring::hardware,
    send::{
        SendQueue,
        State, //
    },
    shape::{
        ReceiveRing,
        ReceiveShape, //
    },
};
use crate::{
    hw::{
        barrier,
        qp::QueuePair,
        record::DoorbellRecord, //
    },
    observe::totals::Counter,
    sync::{
        new_irq_lock,
        IrqLock, //
    },
    table,
    wqe::{
        data::{
            INLINE,
            LIST_END, //
        },
        DS, //
    },
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering::Relaxed, //
    },
};
use kernel::{
    error::code::*,
    ffi::c_void,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// The memory of a receive ring and its word of the doorbell record: the only stores into them.
///
/// # Invariants
///
/// While somebody may post, `base` points to `ring.bytes()` bytes, aligned to a segment, and `record` to an
/// aligned word; nobody else writes there.
struct Memory {
    base: NonNull<u8>,
    record: NonNull<u32>,
    ring: ReceiveRing,
}

// SAFETY: The memory belongs to whoever has the lock, from whatever CPU.
unsafe impl Send for Memory {}

impl Memory {
    /// Stores segment `segment` of the receive with number `receive`.
    fn store(&mut self, receive: u32, segment: u32, bytes: [u8; DS]) {
        let at = self.ring.segment_offset(receive, segment);
        // SAFETY: `at` is a segment's start below `ring.bytes()`; by the type invariant the memory is there.
        unsafe { self.base.add(at).cast::<[u8; DS]>().write(bytes) };
    }

    /// Shows the device all receives before number `end`.
    fn show(&mut self, end: u32) {
        barrier::dma_wmb();
        // SAFETY: By the type invariant the word is there.
        unsafe { self.record.write_volatile(u32::from(hardware(end)).to_be()) };
    }
}

/// The receives of a queue.
#[pin_data]
pub(crate) struct Receives {
    shape: ReceiveShape,
    ring: ReceiveRing,
    /// For whoever posts.
    #[pin]
    memory: IrqLock<Memory>,
    /// Room; also the numbers of the oldest receive and of the next.
    credit: Credit,
    /// The consumer's side of each, by number.
    cookies: KVVec<Cookie>,
    /// Bytes of each, by number.
    lengths: KVVec<AtomicU32>,
    /// Receives posted. Written with the lock.
    posted: Counter,
    /// Receives completed. Written by the holder of the turn.
    completed: Counter,
}

impl Receives {
    /// Receives of `shape`, without memory: none can be posted until [`Receives::attach`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for a shape out of range on a device that takes up to `max_stride` bytes for one, `ENOMEM`.
    pub(super) fn new(shape: ReceiveShape, max_stride: u32) -> Result<impl PinInit<Self> + use<>> {
        let ring = shape.ring(max_stride).ok_or(EINVAL)?;
        let entries = 1usize << ring.log_entries;
        let cookies = table::of_defaults::<Cookie>(entries)?;
        let lengths = table::of_defaults::<AtomicU32>(entries)?;
        Ok(pin_init!(Self {
            // INVARIANT: Nobody may post.
            memory <- new_irq_lock!(
                Memory { base: NonNull::dangling(), record: NonNull::dangling(), ring },
                c"mlx5_ulp_receive"
            ),
            shape,
            ring,
            credit: Credit::new(),
            cookies,
            lengths,
            posted: Counter::new(),
            completed: Counter::new(),
        }))
    }

    /// Gives them their memory: from here on they can be posted.
    ///
    /// # Safety
    ///
    /// `qp` must have a receive ring of [`Receives::ring`], not be attached elsewhere, and live until
    /// [`Receives::close`] has returned.
    pub(super) unsafe fn attach(&self, qp: &QueuePair) -> Result {
        let record = qp.record().as_ptr().wrapping_add(DoorbellRecord::RECEIVE);
        let mut memory = self.memory.lock();
        // INVARIANT: Guaranteed by the caller.
        memory.base = NonNull::new(qp.receive_ring()).ok_or(EINVAL)?;
        memory.record = NonNull::new(record).ok_or(EINVAL)?;
        self.credit.open(Handle::Shared, Way::Any, self.shape.depth);
        Ok(())
    }

    /// Takes no more. Any context.
    pub(super) fn stop(&self) {
        self.credit.close();
    }

    /// Takes no more. When this returns, nobody is in the ring any more.
    pub(super) fn close(&self) {
        self.stop();
        drop(self.memory.lock());
    }

    /// The ring that a queue pair must have to be attached.
    pub(crate) fn ring(&self) -> ReceiveRing {
        self.ring
    }

    /// Most of them in flight.
    pub(crate) fn depth(&self) -> u32 {
        self.shape.depth
    }

    /// Whether none is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.credit.in_flight() == 0
    }

    /// How many were posted, and how many of these have completed.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let completed = self.completed.get();
        (self.posted.get(), completed)
    }

    /// Bytes of the tables.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            .saturating_add(size_of_val(&*self.cookies))
            .saturating_add(size_of_val(&*self.lengths))
    }

    /// Place of a receive in the tables.
    fn place(&self, receive: u32) -> usize {
        receive as usize & self.cookies.len().wrapping_sub(1)
    }

    /// Posts a chain, all or none. `None` if there is no room for it.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for a range that is empty or too long, or more ranges than the queue was made for.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_receives`].
    unsafe fn post(&self, receives: &[bindings::mlx5_ulp_receive]) -> Result<Option<()>> {
        let mut memory = self.memory.lock();
        let count = receives.len() as u32;
        let Ok(first) = self.credit.reserve(Handle::Shared, Way::Any, count) else {
            return Ok(None);
        };
        let mut number = first;
        for receive in receives {
            if receive.num_sge > self.shape.max_sge {
                return Err(EMSGSIZE);
            }
            // SAFETY: The caller guarantees the ranges.
            let ranges = unsafe { ranges(receive.sge, receive.num_sge) };
            let (mut segment, mut length) = (0, 0u32);
            for range in ranges {
                // 0 would stand for 2 GiB there, and the top bit for something else.
                if range.length == 0 || range.length >= INLINE {
                    return Err(EMSGSIZE);
                }
                memory.store(number, segment, data(range).encode());
                segment = segment.wrapping_add(1);
                length = length.saturating_add(range.length);
            }
            if segment < self.ring.segments() {
                memory.store(number, segment, LIST_END.encode());
            }
            let place = self.place(number);
            if let (Some(cookie), Some(bytes)) = (self.cookies.get(place), self.lengths.get(place))
            {
                cookie.store(receive.request as usize, Relaxed);
                bytes.store(length, Relaxed);
            }
            number = number.wrapping_add(1);
        }
        // Before the device sees them: it may complete them at once.
        self.credit.commit(number);
        memory.show(number);
        self.posted.add(count.into());
        Ok(Some(()))
    }

    /// Takes the oldest receive off the queue, if there is one and the device means it by `counter`. Returns
    /// its consumer's side and its length. For the holder of the turn.
    ///
    /// Only the place in the ring is compared: nobody says whether the device counts on beyond the ring
    /// (`mlx5_fpga_conn_rq_cqe()` in `drivers/net/ethernet/mellanox/mlx5/core/fpga/conn.c` masks the counter, and
    /// mlx5_ib does not look at it).
    pub(crate) fn retire(&self, counter: u16) -> Option<(usize, u32)> {
        if self.place(self.credit.retired()) != self.place(counter.into()) {
            return None;
        }
        self.retire_oldest()
    }

    fn retire_oldest(&self) -> Option<(usize, u32)> {
        let oldest = self.credit.retired();
        if oldest == self.credit.posted() {
            return None;
        }
        let place = self.place(oldest);
        let cookie = self.cookies.get(place)?.load(Relaxed);
        let length = self.lengths.get(place)?.load(Relaxed);
        // The credit comes back first, so that the callback can post.
        self.credit.retire();
        self.completed.add(1);
        Some((cookie, length))
    }

    /// Completes everything in flight without the device. For the holder of the turn.
    pub(crate) fn flush(&self, context: *mut c_void) {
        let completion = Outcome::SOFTWARE_FLUSH.completion(context);
        while let Some((cookie, _)) = self.retire_oldest() {
            // SAFETY: It was in flight and has just been retired; what is retired is never delivered again.
            unsafe { deliver(cookie, &completion) };
        }
    }
}

impl SendQueue {
    /// Posts a chain of receives, all or none.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_post_receives()` in `<mlx5_ulp.h>`. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// For each of `receives`: `sge` must point to `num_sge` ranges, of memory that stays until the receive has
    /// completed; `request` must be null or stay valid until it is told.
    pub(crate) unsafe fn post_receives(&self, receives: &[bindings::mlx5_ulp_receive]) -> Result {
        let queue = self.receives.as_ref().ok_or(EINVAL)?;
        // SAFETY: Guaranteed by the caller.
        let posted = unsafe { queue.post(receives)? };
        posted.ok_or_else(|| match self.state() {
            State::Failed => EPIPE,
            State::Gone => ENODEV,
            _ if self.is_dead() => ENODEV,
            // Never fits, so `EAGAIN` would have the caller wait for ever.
            _ if receives.len() > queue.depth() as usize => EMSGSIZE,
            _ => EAGAIN,
        })
    }
}
