// SPDX-License-Identifier: GPL-2.0

//! Kernel memory made reachable for the device.

use crate::device::Hold;
use kernel::{
    dma::DataDirection,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Bytes of a page.
const PAGE_BYTES: usize = kernel::page::PAGE_SIZE;

/// Who writes the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Only the CPU: the device reads.
    ToDevice,
    /// Both.
    Bidirectional,
}

impl Direction {
    /// The kernel crate's word for it, whose binding differs between kernel series.
    fn to_kernel(self) -> DataDirection {
        match self {
            Self::ToDevice => DataDirection::ToDevice,
            Self::Bidirectional => DataDirection::Bidirectional,
        }
    }
}

/// A range of kernel memory, of the linear map or of vmalloc, mapped for DMA page by page.
pub(crate) struct KernelMapping {
    /// DMA address of each page.
    pages: KVVec<u64>,
    /// Where the range starts in its first page.
    offset: usize,
    len: usize,
    /// `None` if it is somebody else's to unmap.
    direction: Option<Direction>,
    hold: Hold,
}

impl KernelMapping {
    /// Maps `len` bytes at `memory`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is empty or isn't kernel memory with pages behind it, `EIO` if a page
    /// cannot be mapped, `EOPNOTSUPP` if the device would reach a bounce buffer in its place, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The memory must stay allocated until the mapping is dropped. Until then the device may
    /// read it and, unless `direction` is [`Direction::ToDevice`], write it at any time.
    pub(crate) unsafe fn new(
        hold: Hold,
        memory: *const u8,
        len: usize,
        direction: Direction,
    ) -> Result<Self> {
        let offset = memory as usize % PAGE_BYTES;
        let count = len
            .checked_add(offset)
            .filter(|_| len != 0)
            .ok_or(EINVAL)?
            .div_ceil(PAGE_BYTES);
        // Dropping it unmaps what has been mapped so far.
        let mut this = Self {
            pages: KVVec::with_capacity(count, GFP_KERNEL)?,
            offset,
            len,
            direction: Some(direction),
            hold,
        };
        for i in 0..count {
            let page = memory.wrapping_sub(offset).wrapping_add(i * PAGE_BYTES);
            let mut dma = 0;
            // SAFETY: The hold keeps the device alive. The function checks that there is a page
            // at that address; that it stays is promised by the caller.
            let ret = unsafe {
                bindings::mlx5_ulp_shim_map_page(
                    this.hold.dma_device(),
                    page.cast(),
                    direction.to_kernel() as u32,
                    &mut dma,
                )
            };
            kernel::error::to_result(ret)?;
            this.pages.push(dma, GFP_KERNEL)?;
        }
        Ok(this)
    }

    /// Takes note of a range that its owner has mapped and will unmap.
    ///
    /// `pages` are its pages' DMA addresses; it starts at `offset` in the first and is `len` bytes long.
    pub(crate) fn of_pages(hold: Hold, pages: KVVec<u64>, offset: usize, len: usize) -> Self {
        Self {
            pages,
            offset,
            len,
            direction: None,
            hold,
        }
    }

    /// Leaves it mapped for ever: the device may still use it.
    pub(super) fn leak(&mut self) {
        // `Drop` then only returns the hold.
        self.direction = None;
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the range starts in its first page.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// DMA addresses of its pages. The first has the start of the range at [`Self::offset`].
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }
}

impl Drop for KernelMapping {
    fn drop(&mut self) {
        let Some(direction) = self.direction else {
            return;
        };
        for dma in &self.pages {
            // SAFETY: The hold keeps the device alive; each page was mapped with these values.
            unsafe {
                bindings::dma_unmap_page_attrs(
                    self.hold.dma_device(),
                    *dma,
                    PAGE_BYTES,
                    direction.to_kernel().into(),
                    0,
                )
            };
        }
    }
}
