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
    codegen::opaque_place,
    hw::barrier,
    wqe::{
        data::INLINE_HEADER,
        BB,
        BLOCK_WORDS,
        DS,
        DS_PER_BB, //
    },
};
use core::{
    marker::PhantomData,
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

    /// The next `count` blocks from `counter` on and the entries of the next requests from `request` on,
    /// as far as neither the ring nor the cookies come to their end.
    #[inline(always)]
    pub(super) fn run(&mut self, counter: u32, request: u32, count: u32) -> Run<'_> {
        let slot = self.ring.slot(counter);
        let cookie = request & self.last_cookie;
        let blocks = self.ring.blocks().wrapping_sub(slot as u32);
        let cookies = self.last_cookie.wrapping_sub(cookie).wrapping_add(1);
        // INVARIANT: By that of `self` and by what was just compared: both indexes are inside, and `left`
        // more of each kind come before the end.
        // SAFETY: `slot` is below the number of blocks and of marks, `cookie` at most the last.
        unsafe {
            Run {
                block: self.base.add(slot * BB),
                mark: self.marks.add(slot),
                cookie: self.cookies.add(cookie as usize),
                left: count.min(blocks).min(cookies),
                slots: PhantomData,
            }
        }
    }

    /// The place of block `counter`; notes the mark of the one WQE that is to be stored there.
    #[inline(always)]
    pub(super) fn next(&mut self, counter: u32, mark: u64) -> Block<'_> {
        let slot = self.ring.slot(counter);
        // INVARIANT: A block of this ring.
        // SAFETY: `slot` is below the number of blocks and of marks.
        unsafe {
            self.marks.add(slot).as_ref().put(mark);
            Block {
                // In one register: as base and index it takes two all the way.
                base: opaque_place(self.base.add(slot * BB)),
                slots: PhantomData,
            }
        }
    }

    /// Copies `length` bytes from `memory` into the WQE that starts at block `counter`, `offset` bytes behind
    /// its beginning, past the end of the ring at its start.
    ///
    /// # Safety
    ///
    /// `memory` must be that many readable bytes, not of this ring. They must end within the WQE, and the WQE
    /// fit into the ring.
    pub(super) unsafe fn copy(
        &mut self,
        counter: u32,
        offset: usize,
        memory: *const u8,
        length: usize,
    ) {
        let bytes = self.ring.bytes();
        let at = self.ring.block_offset(counter).wrapping_add(offset) & bytes.wrapping_sub(1);
        let left = bytes.wrapping_sub(at);
        // SAFETY: By the type invariant there are `bytes` from `base` on, to which nobody else writes; `at` is
        // below that, so `left` are left of them, and the rest is, by the caller's word, no more than all of them.
        // The caller guarantees the source.
        unsafe {
            let to = self.base.add(at).as_ptr();
            if length <= left {
                copy_words(memory, to, length);
            } else {
                core::ptr::copy_nonoverlapping(memory, to, left);
                let rest = length.wrapping_sub(left);
                core::ptr::copy_nonoverlapping(memory.add(left), self.base.as_ptr(), rest);
            }
        }
    }

    /// Stores segment `segment` of the WQE that starts at block `counter`, or the beginning of it, past the
    /// end of the ring at its start.
    #[inline(always)]
    pub(super) fn store<const N: usize>(&mut self, counter: u32, segment: u32, bytes: [u8; N]) {
        const { assert!(N <= DS) };
        let at = self.ring.segment_offset(counter, segment);
        // SAFETY: `at` is a segment's start below `ring.bytes()`, which is a multiple of a segment, and `N`
        // is no more than that. By the type invariant the memory is there, and only `self` writes it.
        unsafe { self.base.add(at).cast::<[u8; N]>().write(bytes) };
    }

    /// Block `counter`, as it stands in the ring.
    #[inline(always)]
    pub(super) fn block(&self, counter: u32) -> &[u64; BLOCK_WORDS] {
        let at = self.ring.block_offset(counter);
        // SAFETY: `at` is a block's start below `ring.bytes()`. By the type invariant the memory is there, aligned,
        // and only `self`, which is borrowed, writes it; it was zeroed when it was allocated.
        unsafe { self.base.add(at).cast().as_ref() }
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

/// Copies `length` bytes, eight at a time as long as there are so many: for inline payload, which is short, this
/// is cheaper than a call of `memcpy()`.
///
/// # Safety
///
/// That many readable bytes at `from`, and writable ones at `to`, apart from each other.
#[inline(always)]
unsafe fn copy_words(from: *const u8, to: *mut u8, length: usize) {
    let pairs = length & !15;
    let mut at = 0;
    // SAFETY: All offsets are below `length`, of words with their end.
    unsafe {
        let copy_word = |at: usize| {
            let word = from.add(at).cast::<u64>().read_unaligned();
            to.add(at).cast::<u64>().write_unaligned(word);
        };
        while at != pairs {
            copy_word(at);
            copy_word(at.wrapping_add(8));
            at = at.wrapping_add(16);
        }
        if length & 8 != 0 {
            copy_word(at);
            at = at.wrapping_add(8);
        }
        while at != length {
            // Volatile: the compiler is not to make a call of it.
            to.add(at).write_volatile(from.add(at).read());
            at = at.wrapping_add(1);
        }
    }
}

/// Places one behind the other, for WQEs of one block with one request each.
///
/// # Invariants
///
/// `block`, `mark` and `cookie` are places of one `Slots`, and each of them is followed by `left - 1` more.
pub(super) struct Run<'a> {
    block: NonNull<u8>,
    mark: NonNull<Mark>,
    cookie: NonNull<Cookie>,
    left: u32,
    slots: PhantomData<&'a mut Slots>,
}

impl Run<'_> {
    /// Places that are left.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next block; notes the mark of the WQE that is to be stored there, and the cookie of its request.
    ///
    /// # Safety
    ///
    /// Not more often than there were places left.
    #[inline(always)]
    pub(super) unsafe fn next(&mut self, mark: u64, cookie: usize) -> Block<'_> {
        // INVARIANT: A block of the `Slots`. Then on to the next place of each kind, or behind the last; the
        // caller counts `left`.
        let block = Block {
            base: self.block,
            slots: PhantomData,
        };
        // SAFETY: By the type invariant and the caller's word there is a place of each kind.
        unsafe {
            self.mark.as_ref().put(mark);
            self.cookie.as_ref().store(cookie, Relaxed);
            self.block = self.block.add(BB);
            self.mark = self.mark.add(1);
            self.cookie = self.cookie.add(1);
        }
        block
    }
}

/// One basic block.
///
/// # Invariants
///
/// `base` is where a block of a `Slots` starts, whose owner has lent it.
pub(super) struct Block<'a> {
    base: NonNull<u8>,
    slots: PhantomData<&'a mut Slots>,
}

impl Block<'_> {
    /// Stores the 8 bytes at word `AT`, as they stand in memory.
    #[inline(always)]
    pub(super) fn word<const AT: usize>(&mut self, word: u64) {
        const { assert!(AT < BB / 8) };
        // SAFETY: As in `store`; a block is aligned.
        unsafe { self.base.cast::<u64>().add(AT).write(word) };
    }

    /// Stores the beginning of segment `AT`.
    #[inline(always)]
    pub(super) fn header<const AT: usize>(&mut self, header: [u8; INLINE_HEADER]) {
        const { assert!(AT < DS_PER_BB) };
        // SAFETY: As in `store`; a header is shorter than a segment.
        unsafe {
            self.base
                .add(AT * DS)
                .cast::<[u8; INLINE_HEADER]>()
                .write(header)
        };
    }

    /// Stores segment `AT`.
    #[inline(always)]
    pub(super) fn store<const AT: usize>(&mut self, segment: [u8; DS]) {
        const { assert!(AT < DS_PER_BB) };
        // SAFETY: By the type invariant there is a block, which has such a segment and which nobody else
        // writes to.
        unsafe { self.base.add(AT * DS).cast::<[u8; DS]>().write(segment) };
    }
}

const _: () = assert!(BB == DS * DS_PER_BB);
