// SPDX-License-Identifier: GPL-2.0

//! The block layer's side of a disk.

use crate::{
    disk::Core,
    io::Pdu,
    mq::{
        OPS,
        POLL, //
    },
    ulp_bindings, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    types::Opaque, //
};

/// Requests and their tags.
#[pin_data(PinnedDrop)]
pub(crate) struct TagSet {
    #[pin]
    raw: Opaque<bindings::blk_mq_tag_set>,
}

// SAFETY: blk-mq does the locking.
unsafe impl Send for TagSet {}
// SAFETY: As above.
unsafe impl Sync for TagSet {}

impl TagSet {
    /// `queues` hardware contexts and, behind these, `polled` without interrupts, none of both more than there are
    /// CPUs; `depth` requests for each.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOMEM`.
    pub(crate) fn new(queues: u32, polled: u32, depth: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            raw <- Opaque::try_ffi_init(move |raw: *mut bindings::blk_mq_tag_set| {
                let set = bindings::blk_mq_tag_set {
                    ops: &OPS,
                    nr_hw_queues: queues + polled,
                    nr_maps: if polled == 0 { 1 } else { POLL as u32 + 1 },
                    driver_data: core::ptr::without_provenance_mut(polled as usize),
                    queue_depth: depth,
                    numa_node: bindings::NUMA_NO_NODE,
                    cmd_size: size_of::<Pdu>() as u32,
                    ..pin_init::zeroed()
                };
                // SAFETY: The place is valid and pinned.
                unsafe { raw.write(set) };
                // SAFETY: As above; what has to be set is.
                to_result(unsafe { bindings::blk_mq_alloc_tag_set(raw) })
            }),
        })
    }

    /// How many hardware contexts there are.
    pub(crate) fn queues(&self) -> usize {
        // SAFETY: Set up by `new`, and not changed after.
        unsafe { (*self.raw.get()).nr_hw_queues as usize }
    }
}

#[pinned_drop]
impl PinnedDrop for TagSet {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Set up by `new`; disks on it are gone.
        unsafe { bindings::blk_mq_free_tag_set(self.raw.get()) };
    }
}

/// A disk of the block layer, put when dropped.
///
/// # Invariants
///
/// It exists. `added` if it was added and not deleted.
pub(crate) struct GenDisk {
    raw: NonNull<bindings::gendisk>,
    added: bool,
}

// SAFETY: The block layer does the locking.
unsafe impl Send for GenDisk {}

impl GenDisk {
    /// A disk that nobody sees yet, whose requests go to `core`.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `core` and its tag set must outlive it; `device` must be valid.
    pub(crate) unsafe fn alloc(
        core: &Core,
        tags: &TagSet,
        device: *mut bindings::device,
        segments: usize,
    ) -> Result<Self> {
        let data = core::ptr::from_ref(core).cast_mut().cast();
        // SAFETY: The caller guarantees it.
        let disk = from_err_ptr(unsafe {
            ulp_bindings::mlx5_ulp_blk_disk_alloc(tags.raw.get(), data, device, segments as u32)
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            raw: NonNull::new(disk).ok_or(ENOMEM)?,
            added: false,
        })
    }

    /// The disk.
    pub(crate) fn as_ptr(&self) -> *mut bindings::gendisk {
        self.raw.as_ptr()
    }

    /// Whether it was added, and not deleted.
    pub(crate) fn is_added(&self) -> bool {
        self.added
    }

    /// Makes it `/dev/<name>` of so many bytes. Reads its partitions. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver core says.
    pub(crate) fn add(&mut self, name: &CStr, bytes: u64) -> Result {
        // SAFETY: By the type invariant it exists, and was not added.
        to_result(unsafe {
            ulp_bindings::mlx5_ulp_blk_disk_add(self.raw.as_ptr(), name.as_char_ptr(), bytes)
        })?;
        // INVARIANT: Just added.
        self.added = true;
        Ok(())
    }

    /// Takes it away: what is dirty is written, requests end, later ones fail. Sleeps.
    pub(crate) fn delete(&mut self) {
        if core::mem::take(&mut self.added) {
            // SAFETY: By the type invariant it exists and was added.
            unsafe { bindings::del_gendisk(self.raw.as_ptr()) };
        }
    }
}

impl Drop for GenDisk {
    fn drop(&mut self) {
        self.delete();
        // SAFETY: By the type invariant it exists, and it was deleted or not added. By the contract of `kick` nobody
        // kicks it any more.
        unsafe { ulp_bindings::mlx5_ulp_blk_disk_settle(self.raw.as_ptr()) };
        // SAFETY: By the type invariant it exists. Who has it open keeps it.
        unsafe { bindings::put_disk(self.raw.as_ptr()) };
    }
}

/// Says that a disk will not work again: file systems on it shut down. Sleeps.
///
/// # Safety
///
/// `disk` must exist and have been added.
pub(crate) unsafe fn mark_dead(disk: *mut bindings::gendisk) {
    // SAFETY: The caller guarantees it.
    unsafe { bindings::blk_mark_disk_dead(disk) };
}

/// Has blk-mq queue again what was given back to it.
///
/// # Safety
///
/// `disk` must exist, as a [`GenDisk`] that is not being dropped.
pub(crate) unsafe fn kick(disk: *mut bindings::gendisk) {
    // SAFETY: The caller guarantees it.
    unsafe { bindings::blk_mq_kick_requeue_list((*disk).queue) };
}

/// blk-mq does not dispatch as long as it exists.
///
/// # Invariants
///
/// The queue exists and is quiesced once on behalf of this.
pub(crate) struct Quiesced(NonNull<bindings::request_queue>);

// SAFETY: blk-mq does the locking.
unsafe impl Send for Quiesced {}

impl Quiesced {
    /// Returns when no callback that dispatches is running. Sleeps.
    ///
    /// # Safety
    ///
    /// `disk` must exist as long as what is returned.
    pub(crate) unsafe fn new(disk: *mut bindings::gendisk) -> Option<Self> {
        // SAFETY: The caller guarantees it.
        let queue = NonNull::new(unsafe { (*disk).queue })?;
        // SAFETY: As above.
        unsafe { bindings::blk_mq_quiesce_queue(queue.as_ptr()) };
        // INVARIANT: Just done.
        Some(Self(queue))
    }
}

impl Drop for Quiesced {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::blk_mq_unquiesce_queue(self.0.as_ptr()) };
    }
}
