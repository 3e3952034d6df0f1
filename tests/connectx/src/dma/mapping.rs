// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One mapped range, and the only raw memory accesses of the crate.
//!
//! The memory is shared with the guest, which writes it whenever it likes. No reference to it is
//! ever made; accesses go through raw pointers, with atomics where tearing or order matters.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, AtomicU8, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// A range of shared memory.
#[derive(Debug)]
pub(super) struct Mapping {
    memory: MmapRaw,
    writable: bool,
}

impl Mapping {
    /// Maps part of a file.
    pub(super) fn file(file: &File, offset: u64, size: u64, writable: bool) -> Result<Self> {
        let invalid = |what| Error::new(ErrorKind::InvalidInput, what);
        let end = offset.checked_add(size).ok_or(invalid("range wraps"))?;
        // An access beyond the end of the file would be a SIGBUS.
        if file.metadata()?.len() < end {
            return Err(invalid("range lies beyond the end of the file"));
        }
        let len = usize::try_from(size).map_err(|_| invalid("range is too large"))?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(len);
        let memory = if writable {
            options.map_raw(file)?
        } else {
            options.map_raw_read_only(file)?
        };
        Ok(Self { memory, writable })
    }

    /// Maps zeroed memory of this process.
    pub(super) fn anonymous(size: usize) -> Result<Self> {
        let memory = MmapOptions::new().len(size).map_anon()?.into();
        Ok(Self {
            memory,
            writable: true,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// Panics unless `len` bytes at `offset` are inside: callers have checked it.
    fn check(&self, offset: usize, len: usize) {
        assert!(offset <= self.len() && len <= self.len() - offset);
    }

    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset, buf.len());
        // SAFETY: `check` found the source inside the mapping, which lives as long as `self`;
        // `buf` is a distinct allocation, since no reference to mapped memory exists.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.as_ptr().add(offset),
                buf.as_mut_ptr(),
                buf.len(),
            );
        }
        fence(Ordering::Acquire);
    }

    pub(super) fn write(&self, offset: usize, buf: &[u8]) {
        self.check(offset, buf.len());
        assert!(self.writable);
        fence(Ordering::Release);
        // SAFETY: `check` found the destination inside the mapping, which is writable and lives
        // as long as `self`; `buf` is a distinct allocation, since no reference to mapped memory
        // exists.
        unsafe {
            std::ptr::copy_nonoverlapping(
                buf.as_ptr(),
                self.memory.as_mut_ptr().add(offset),
                buf.len(),
            );
        }
    }

    /// Stores one byte after everything written before.
    pub(super) fn store_release(&self, offset: usize, value: u8) {
        self.check(offset, 1);
        assert!(self.writable);
        // SAFETY: The byte is inside the writable mapping, which outlives the reference; the
        // guest accesses it concurrently, which an atomic allows.
        let byte = unsafe { AtomicU8::from_ptr(self.memory.as_mut_ptr().add(offset)) };
        byte.store(value, Ordering::Release);
    }

    /// Loads a word in one piece, before everything read later; `None` if it is misaligned.
    pub(super) fn load_u32(&self, offset: usize) -> Option<u32> {
        self.check(offset, 4);
        // SAFETY: `check` found the word inside the mapping.
        let ptr = unsafe { self.memory.as_mut_ptr().add(offset) }.cast::<u32>();
        if !ptr.is_aligned() {
            return None;
        }
        // SAFETY: The word is inside the mapping, which outlives the reference, and aligned. A
        // load does not need the mapping to be writable.
        let word = unsafe { AtomicU32::from_ptr(ptr) };
        Some(word.load(Ordering::Acquire))
    }

    /// Updates a word atomically and returns its old value; `None` if it is misaligned.
    pub(super) fn update_u64(&self, offset: usize, f: impl Fn(u64) -> u64) -> Option<u64> {
        self.check(offset, 8);
        assert!(self.writable);
        // SAFETY: `check` found the word inside the mapping.
        let ptr = unsafe { self.memory.as_mut_ptr().add(offset) }.cast::<u64>();
        if !ptr.is_aligned() {
            return None;
        }
        // SAFETY: The word is inside the writable mapping, which outlives the reference, and
        // aligned.
        let word = unsafe { AtomicU64::from_ptr(ptr) };
        let update = |old| Some(f(old));
        match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            Ok(old) | Err(old) => Some(old),
        }
    }
}
