// SPDX-License-Identifier: GPL-2.0

//! Counts of lookups, for each CPU on its own.

use super::stats::{
    Sum,
    Tally, //
};
use core::ptr::NonNull;
use kernel::{
    ffi::c_void,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Offset of each count among those of a CPU, bytes.
mod offset {
    pub(super) const HITS: usize = 0;
    pub(super) const MISSES: usize = 8;
    pub(super) const ABSENT: usize = 16;
    pub(super) const EVICTIONS: usize = 24;
    pub(super) const PREFETCHED: usize = 32;
    /// Of all together.
    pub(super) const END: usize = 40;
}

/// Counts by CPU: no lookup touches a cache line that another CPU writes.
///
/// # Invariants
///
/// `base` is a per-CPU pointer to words at all offsets of [`offset`].
pub(super) struct CpuTally {
    base: NonNull<c_void>,
}

// SAFETY: Per-CPU memory belongs to nobody in particular.
unsafe impl Send for CpuTally {}
// SAFETY: A CPU counts in its own words only, by one instruction that no interrupt divides.
unsafe impl Sync for CpuTally {}

impl CpuTally {
    /// All zero. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: Plain allocation.
        let base = unsafe { bindings::mlx5_ulp_shim_percpu_alloc(offset::END) };
        // INVARIANT: Just allocated, of that size.
        Ok(Self {
            base: NonNull::new(base).ok_or(ENOMEM)?,
        })
    }

    /// Counts one at byte `OFFSET`, one of [`offset`].
    #[inline(always)]
    fn add<const OFFSET: usize>(&self) {
        #[cfg(CONFIG_X86_64)]
        // SAFETY: What `this_cpu_inc()` does: the word is one of this CPU's, by the type invariant.
        unsafe {
            core::arch::asm!(
                "inc qword ptr gs:[{base} + {offset}]",
                base = in(reg) self.base.as_ptr(),
                offset = const OFFSET,
                options(nostack)
            )
        };
        #[cfg(not(CONFIG_X86_64))]
        // SAFETY: By the type invariant it is a per-CPU word.
        unsafe {
            bindings::mlx5_ulp_shim_percpu_inc(self.base.as_ptr().byte_add(OFFSET))
        };
    }

    /// The counts of all CPUs. Each is exact, they are not read at one instant.
    pub(super) fn sum(&self) -> Sum {
        let read = |offset| {
            // SAFETY: By the type invariant it is a per-CPU word.
            unsafe { bindings::mlx5_ulp_shim_percpu_sum(self.base.as_ptr(), offset) }
        };
        Sum {
            hits: read(offset::HITS),
            misses: read(offset::MISSES),
            absent: read(offset::ABSENT),
            evictions: read(offset::EVICTIONS),
            prefetched: read(offset::PREFETCHED),
        }
    }
}

impl Drop for CpuTally {
    fn drop(&mut self) {
        // SAFETY: Allocated by `new`, and nobody counts any more.
        unsafe { bindings::mlx5_ulp_shim_percpu_free(self.base.as_ptr()) };
    }
}

impl Tally for CpuTally {
    #[inline(always)]
    fn hit(&self) {
        self.add::<{ offset::HITS }>();
    }

    fn miss(&self) {
        self.add::<{ offset::MISSES }>();
    }

    fn absent(&self) {
        self.add::<{ offset::ABSENT }>();
    }

    fn eviction(&self) {
        self.add::<{ offset::EVICTIONS }>();
    }

    fn prefetched(&self) {
        self.add::<{ offset::PREFETCHED }>();
    }
}
