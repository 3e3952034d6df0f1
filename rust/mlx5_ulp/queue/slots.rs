// SPDX-License-Identifier: GPL-2.0

//! The memory of a send ring. All stores into it are made here.

use super::ring::Ring;
use crate::wqe::{
    BB,
    DS,
    DS_PER_BB, //
};
use core::ptr::NonNull;

/// The slots of a send queue.
///
/// The HCA reads this memory; nothing of Rust refers to it but the pointer here.
///
/// # Invariants
///
/// While the owner may post, `base` points to `ring.bytes()` bytes, aligned to a basic block, to
/// which nobody else writes.
pub(super) struct Slots {
    base: NonNull<u8>,
    ring: Ring,
}

// SAFETY: The memory belongs to whoever owns the `Slots`, from whatever CPU.
unsafe impl Send for Slots {}

impl Slots {
    /// Slots without memory, for a queue that does not take posts yet.
    pub(super) fn none(ring: Ring) -> Self {
        // INVARIANT: The owner may not post.
        Self {
            base: NonNull::dangling(),
            ring,
        }
    }

    /// Takes over the memory of a ring.
    ///
    /// # Safety
    ///
    /// `base` must satisfy the type invariant for as long as the owner may post.
    pub(super) unsafe fn new(base: NonNull<u8>, ring: Ring) -> Self {
        // INVARIANT: The caller guarantees it.
        Self { base, ring }
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

    /// Stores segment `segment` of the WQE that starts at block `counter`, past the end of the ring
    /// at its start.
    #[inline(always)]
    pub(super) fn store(&mut self, counter: u32, segment: u32, bytes: [u8; DS]) {
        let at = self.ring.segment_offset(counter, segment);
        // SAFETY: `at` is a segment's start below `ring.bytes()`, which is a multiple of a segment.
        // By the type invariant the memory is there, and only `self` writes it.
        unsafe { self.base.add(at).cast::<[u8; DS]>().write(bytes) };
    }
}

const _: () = assert!(BB == DS * DS_PER_BB);
