// SPDX-License-Identifier: GPL-2.0

//! Memory of queues.

use crate::device::Hold;
use core::ptr::NonNull;
use kernel::prelude::*;
use mlx5_ulp_bindings as bindings;

/// Log2 of the pages the hardware counts in, whatever the kernel's are
/// (`MLX5_ADAPTER_PAGE_SHIFT`).
const PAGE_SHIFT: u32 = bindings::MLX5_ADAPTER_PAGE_SHIFT;
/// Bytes of such a page.
const PAGE_BYTES: usize = 1 << PAGE_SHIFT;

/// Coherent memory of one queue: contiguous, zeroed, aligned to a page at least.
pub(crate) struct DmaBuffer {
    memory: NonNull<u8>,
    dma: u64,
    len: usize,
    hold: Hold,
}

// SAFETY: The memory lives as long as `self`; its users agree on who writes what.
unsafe impl Send for DmaBuffer {}
// SAFETY: As above.
unsafe impl Sync for DmaBuffer {}

impl DmaBuffer {
    /// Allocates `len` bytes, rounded up to whole pages of the device. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is 0, `ENOMEM`: there may be no contiguous memory of a large size.
    pub(crate) fn new(hold: Hold, len: usize) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let len = len.checked_next_multiple_of(PAGE_BYTES).ok_or(EINVAL)?;
        let mut dma = 0;
        // SAFETY: `hold` keeps the device alive, `dma` is a valid place for the address.
        let memory = unsafe {
            bindings::dma_alloc_attrs(hold.dma_device(), len, &mut dma, bindings::GFP_KERNEL, 0)
        };
        Ok(Self {
            memory: NonNull::new(memory.cast()).ok_or(ENOMEM)?,
            dma,
            len,
            hold,
        })
    }

    /// Its first byte.
    #[inline]
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.memory
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps the device alive as long as `self`.
    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Number of its pages, as the device counts them.
    pub(super) fn page_count(&self) -> usize {
        self.len / PAGE_BYTES
    }

    /// Where the device finds each of its pages, for the `pas` of a command. Log2 of their
    /// size in units of the device's page (`log_page_size`) is 0.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        (self.dma..).step_by(PAGE_BYTES).take(self.page_count())
    }

    /// Gives the memory up: the device may still write it.
    pub(super) fn leak(&mut self) {
        // `Drop` then only returns the hold.
        self.len = 0;
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: `hold` keeps the device alive, all values are those of the allocation, and
        // the queue that lived here is destroyed.
        unsafe {
            bindings::dma_free_attrs(
                self.hold.dma_device(),
                self.len,
                self.memory.as_ptr().cast(),
                self.dma,
                0,
            )
        };
    }
}
