// SPDX-License-Identifier: GPL-2.0

//! Memory that a region can own.

use core::ptr::NonNull;
use kernel::alloc::{
    Allocator,
    Box,
    Vec, //
};

/// Memory without its owner: what a [`Memory`] was taken apart to.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    /// Its first byte.
    pub(crate) start: NonNull<u8>,
    /// Bytes that a device may reach.
    pub(crate) len: usize,
    /// Whatever else is needed to put it together again.
    pub(crate) capacity: usize,
}

/// Memory that can be given to a device, and taken back from it.
///
/// A region keeps it taken apart: as long as there is an owner in Rust's sense, a `KVec` or a `KBox`, the compiler may
/// take it that nobody else changes the bytes.
///
/// # Safety
///
/// From [`Memory::into_parts`] to [`Memory::from_parts`] the `len` bytes at `start` must be allocated memory of the
/// kernel that stays where it is and that nobody else looks at or changes; for ever if the parts are never put together
/// again. Any values of the bytes must be fine for what comes out then. So it must own the memory: a borrow of it may
/// end without being put together again, and a type whose pointer may change between calls is none.
pub(crate) unsafe trait Memory: Sized {
    /// Takes it apart.
    fn into_parts(self) -> Parts;

    /// Puts it together again.
    ///
    /// # Safety
    ///
    /// `parts` must come from [`Memory::into_parts`] of this type, be put together once, and no device may reach the
    /// memory any more.
    unsafe fn from_parts(parts: Parts) -> Self;
}

// SAFETY: A vector owns its allocation, which only it knows, up to the moment that it is made from the parts again.
// All values of bytes are fine.
unsafe impl<A: Allocator> Memory for Vec<u8, A> {
    fn into_parts(self) -> Parts {
        let (start, len, capacity) = self.into_raw_parts();
        Parts {
            // Never null, not even of an empty vector.
            start: NonNull::new(start).unwrap_or(NonNull::dangling()),
            len,
            capacity,
        }
    }

    unsafe fn from_parts(parts: Parts) -> Self {
        // SAFETY: What `into_parts` took apart, by the caller's word: the same pointer, length and capacity.
        unsafe { Self::from_raw_parts(parts.start.as_ptr(), parts.len, parts.capacity) }
    }
}

// SAFETY: A box owns its allocation, which only it knows, up to the moment that it is made from the parts again. All
// values of bytes are fine.
unsafe impl<const N: usize, A: Allocator> Memory for Box<[u8; N], A> {
    fn into_parts(self) -> Parts {
        Parts {
            start: NonNull::new(Self::into_raw(self).cast()).unwrap_or(NonNull::dangling()),
            len: N,
            capacity: N,
        }
    }

    unsafe fn from_parts(parts: Parts) -> Self {
        // SAFETY: What `into_parts` took apart, by the caller's word: the pointer of a box of this type.
        unsafe { Self::from_raw(parts.start.as_ptr().cast()) }
    }
}
