// SPDX-License-Identifier: GPL-2.0

//! The memory of a send ring, and what is noted of its WQEs. All stores of posters are made here.

use super::{
    in_flight::{
        Cookie,
        Mark, //
    },
    request::Requests,
    ring::Ring,
};
use crate::{
    hw::barrier,
    wqe::{
        BB,
        DS,
        DS_PER_BB, //
    },
};
use core::{
    ptr::NonNull,
    sync::atomic::Ordering::Relaxed, //
};

/// The slots of a send queue, and the tables of its requests in flight.
///
/// The HCA reads the ring; nothing of Rust refers to it but the pointer here.
///
/// # Invariants
///
/// While the owner may post, `base` points to `ring.bytes()` bytes, aligned to a basic block, to
/// which nobody else writes; `cookies` to an array with `last_cookie + 1` entries, a power of two; and
/// `marks` to one with `ring.blocks()` entries.
pub(super) struct Slots {
    base: NonNull<u8>,
    ring: Ring,
    cookies: NonNull<Cookie>,
    last_cookie: u32,
    marks: NonNull<Mark>,
}

// SAFETY: The ring belongs to whoever owns the `Slots`, from whatever CPU; the tables are atomics.
unsafe impl Send for Slots {}

impl Slots {
    /// Slots without memory, for a queue that does not take posts yet.
    pub(super) fn none(ring: Ring) -> Self {
        // INVARIANT: The owner may not post.
        Self {
            base: NonNull::dangling(),
            ring,
            cookies: NonNull::dangling(),
            last_cookie: 0,
            marks: NonNull::dangling(),
        }
    }

    /// Takes over the memory of a ring, and takes note in `requests`.
    ///
    /// # Safety
    ///
    /// `base` must satisfy the type invariant for as long as the owner may post, and `requests` be of
    /// this ring and stay where it is as long.
    pub(super) unsafe fn new(base: NonNull<u8>, ring: Ring, requests: &Requests) -> Self {
        let (cookies, marks) = requests.tables();
        // INVARIANT: The caller guarantees the memory. By the invariants of `InFlight` there is a power
        // of two of cookies, and a mark for each block of its ring.
        Self {
            base,
            ring,
            cookies: NonNull::from(cookies).cast(),
            last_cookie: cookies.len().wrapping_sub(1) as u32,
            marks: NonNull::from(marks).cast(),
        }
    }

    /// Stores the first segments of the WQE that starts at block `counter`, as many as fit into one
    /// basic block.
    #[inline(always)]
    pub(super) fn store_block<const N: usize>(&mut self, counter: u32, segments: [[u8; DS]; N]) {
        const { assert!(N <= DS_PER_BB) };
        let at = self.ring.block_offset(counter);
        // SAFETY: `at` is a block's start below `ring.bytes()`, and `N` segments are no longer than
        // a block. By the type invariant the memory is there, and only `self` writes it.
        unsafe { self.base.add(at).cast::<[[u8; DS]; N]>().write(segments) };
    }

    /// Stores a WQE of one block at block `counter`, and takes note of its one request.
    #[inline(always)]
    pub(super) fn put<const N: usize>(
        &mut self,
        counter: u32,
        segments: [[u8; DS]; N],
        request: u32,
        cookie: usize,
    ) {
        const { assert!(N <= DS_PER_BB) };
        let slot = self.ring.slot(counter);
        // SAFETY: As in `store_block` and in `mark`.
        let mark = unsafe {
            let block = self.base.add(slot * BB);
            block.cast::<[[u8; DS]; N]>().write(segments);
            self.marks.add(slot).as_ref()
        };
        mark.set(counter, request, 1);
        self.record(request, cookie);
    }

    /// Stores segment `segment` of the WQE that starts at block `counter`, past the end of the ring
    /// at its start.
    #[inline(always)]
    pub(super) fn store(&mut self, counter: u32, segment: u32, bytes: [u8; DS]) {
        let at = self.ring.segment_offset(counter, segment);
        // SAFETY: `at` is a segment's start below `ring.bytes()`, which is a multiple of a segment.
        // By the type invariant the memory is there, and only `self` writes it.
        unsafe { self.base.add(at).cast::<[u8; DS]>().write(bytes) };
    }

    /// The 8 bytes at word `word` of the block `counter`, as they stand in the ring.
    pub(super) fn word(&self, counter: u32, word: usize) -> u64 {
        let at = self.ring.block_offset(counter) + (word & (BB / 8 - 1)) * 8;
        // SAFETY: `at` is below `ring.bytes()` and a multiple of 8. By the type invariant the memory is
        // there; it was zeroed when it was allocated.
        unsafe { self.base.add(at).cast::<u64>().read() }
    }

    /// Notes that the WQE at block `block` carries the `count` requests up to number `last`.
    #[inline(always)]
    pub(super) fn mark(&self, block: u32, last: u32, count: u16) {
        // SAFETY: `slot` is below the number of blocks; by the type invariant there is a mark for each.
        unsafe { self.marks.add(self.ring.slot(block)).as_ref() }.set(block, last, count);
    }

    /// Notes that request number `request` is known to the consumer as `cookie`.
    #[inline(always)]
    pub(super) fn record(&self, request: u32, cookie: usize) {
        let at = (request & self.last_cookie) as usize;
        // SAFETY: `at` is no more than `last_cookie`; by the type invariant there are so many entries.
        unsafe { self.cookies.add(at).as_ref() }.store(cookie, Relaxed);
    }

    /// Has the CPU get hold of block `counter` to write to it, without writing.
    #[inline(always)]
    pub(super) fn prefetch(&self, counter: u32) {
        // The offset is inside the ring, but a prefetch may be of anything.
        barrier::prefetch_for_write(
            self.base
                .as_ptr()
                .wrapping_add(self.ring.block_offset(counter)),
        );
    }
}

const _: () = assert!(BB == DS * DS_PER_BB);
