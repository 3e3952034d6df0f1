// SPDX-License-Identifier: GPL-2.0

//! What has to be done in process context: a work item inside its owner.

use kernel::{
    bindings,
    prelude::*,
    types::Opaque, //
};

/// Whose work it is.
pub(crate) trait Work: Sync {
    /// Offset of the [`WorkItem`] in it, bytes.
    const ITEM: usize;

    /// Does what was asked for. Process context, never twice at a time for one owner.
    fn work(&self);
}

/// A work item that its owner contains, pinned.
///
/// The owner stops it by [`WorkItem::disable`] before it goes.
#[repr(transparent)]
#[pin_data]
pub(crate) struct WorkItem {
    #[pin]
    raw: Opaque<bindings::work_struct>,
}

// SAFETY: The workqueue does the locking.
unsafe impl Send for WorkItem {}
// SAFETY: As above.
unsafe impl Sync for WorkItem {}

impl WorkItem {
    /// An item that is not queued.
    ///
    /// # Safety
    ///
    /// It must be placed at offset [`Work::ITEM`] of a `T`, which is not dropped while the item is
    /// queued or runs.
    pub(crate) unsafe fn new<T: Work>() -> impl PinInit<Self> {
        pin_init!(Self {
            // The place is pinned and valid for an item.
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: As said; the function is that of the owner's type, name and key are static.
                unsafe {
                    bindings::init_work_with_key(
                        raw,
                        Some(run::<T>),
                        false,
                        c"mlx5_ulp_work".as_char_ptr(),
                        kernel::static_lock_class!().as_ptr(),
                    )
                }
            }),
        })
    }

    /// Has the owner's [`Work::work`] run soon, once from the beginning after this call. Any context.
    pub(crate) fn queue(&self) {
        // SAFETY: The item was set up by `new`; the workqueue is there as long as the kernel.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                bindings::system_dfl_wq,
                self.raw.get(),
            )
        };
    }

    /// Waits until it does not run, and has [`WorkItem::queue`] do nothing from now on. Sleeps; not from
    /// [`Work::work`], nor with a lock that it takes.
    pub(crate) fn disable(&self) {
        // SAFETY: The item was set up by `new`.
        unsafe { bindings::disable_work_sync(self.raw.get()) };
    }
}

/// Called by the workqueue.
///
/// # Safety
///
/// `raw` must be in the item of a `T` that is alive.
unsafe extern "C" fn run<T: Work>(raw: *mut bindings::work_struct) {
    // SAFETY: By the contract of `WorkItem::new` the owner is so many bytes before its item, and alive.
    unsafe { &*raw.cast::<u8>().sub(T::ITEM).cast::<T>() }.work();
}
