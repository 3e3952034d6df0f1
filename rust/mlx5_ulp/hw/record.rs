// SPDX-License-Identifier: GPL-2.0

//! Doorbell records.

use crate::device::Hold;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// A doorbell record: two big-endian words in memory that the device reads.
///
/// Of a queue pair, word [`Self::RECEIVE`] is the receive queue's producer counter and word
/// [`Self::SEND`] the send queue's. Of a completion queue, word 0 is the consumer index and
/// word 1 what it was armed with last.
pub(crate) struct DoorbellRecord {
    words: NonNull<u32>,
    db: bindings::mlx5_db,
    hold: Hold,
}

// SAFETY: The record is coherent memory that lives as long as `self`; its users agree on who
// writes.
unsafe impl Send for DoorbellRecord {}
// SAFETY: As above.
unsafe impl Sync for DoorbellRecord {}

impl DoorbellRecord {
    /// Word of the receive queue's producer counter.
    pub(crate) const RECEIVE: usize = bindings::MLX5_RCV_DBR as usize;
    /// Word of the send queue's producer counter.
    pub(crate) const SEND: usize = bindings::MLX5_SND_DBR as usize;

    /// What one takes of a page of them: a cache line.
    pub(super) const BYTES: usize = 64;

    /// Allocates one, zeroed, on the device's node. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(hold: Hold) -> Result<Self> {
        let mut db = pin_init::zeroed();
        // SAFETY: `hold` keeps the device alive, `db` is a valid place for the answer.
        to_result(unsafe { bindings::mlx5_db_alloc_node(hold.mdev(), &mut db, hold.node()) })?;
        let words = NonNull::new(db.db).ok_or(ENOMEM)?;
        let this = Self { words, db, hold };
        // A record is reused with what its last owner left in it.
        // SAFETY: The record has two words, and nobody else knows it yet.
        unsafe {
            words.write_volatile(0);
            words.add(1).write_volatile(0);
        }
        Ok(this)
    }

    /// Its two words, aligned to 8 bytes.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut u32 {
        self.words.as_ptr()
    }

    /// Where the device finds it.
    pub(crate) fn dma(&self) -> u64 {
        self.db.dma
    }

    /// Gives the memory up: the device may still read it.
    pub(super) fn leak(&mut self) {
        // `Drop` then only returns the hold.
        self.db.db = core::ptr::null_mut();
    }
}

impl Drop for DoorbellRecord {
    fn drop(&mut self) {
        if self.db.db.is_null() {
            return;
        }
        // SAFETY: `hold` keeps the device alive; `db` came from `mlx5_db_alloc_node`, and the
        // object whose record it was is destroyed.
        unsafe { bindings::mlx5_db_free(self.hold.mdev(), &mut self.db) };
    }
}
