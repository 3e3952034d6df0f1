// SPDX-License-Identifier: GPL-2.0

//! Work that is done later, in process context, and makes progress when memory is short.

use crate::{
    disk::Core,
    ulp_bindings as bindings, //
};
use core::ptr::NonNull;
use kernel::{
    bindings::{
        delayed_work,
        destroy_workqueue,
        disable_delayed_work_sync,
        mod_delayed_work_on,
        work_struct,
        workqueue_struct,
        wq_misc_consts_WORK_CPU_UNBOUND, //
    },
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// A queue of work, one item at a time.
///
/// # Invariants
///
/// It exists.
struct Queue(NonNull<workqueue_struct>);

impl Queue {
    fn new(name: &CStr) -> Result<Self> {
        // SAFETY: A string.
        let queue = unsafe { bindings::mlx5_ulp_blk_workqueue(name.as_char_ptr()) };
        // INVARIANT: Just made.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { destroy_workqueue(self.0.as_ptr()) };
    }
}

/// The work of a disk: [`Core::recover`].
#[pin_data]
pub(crate) struct Work {
    #[pin]
    raw: Opaque<delayed_work>,
    queue: Queue,
}

// SAFETY: The workqueue does the locking.
unsafe impl Send for Work {}
// SAFETY: As above.
unsafe impl Sync for Work {}

impl Work {
    /// Work that waits to be asked for.
    ///
    /// # Safety
    ///
    /// It must be placed at [`Core::WORK`] of a `Core`, which calls [`Work::disable`] before it goes.
    pub(crate) unsafe fn new(name: &CStr) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            queue: Queue::new(name)?,
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: The place is pinned; the function is for where it is.
                unsafe { bindings::mlx5_ulp_blk_init_work(raw, Some(run)) }
            }),
        })
    }

    /// Has it done after `ms` milliseconds, instead of when it was to be done. Any context.
    pub(crate) fn after(&self, ms: u32) {
        // SAFETY: Both were set up by `new`.
        unsafe {
            mod_delayed_work_on(
                wq_misc_consts_WORK_CPU_UNBOUND as i32,
                self.queue.0.as_ptr(),
                self.raw.get(),
                msecs_to_jiffies(ms),
            )
        };
    }

    /// Waits until it is not being done, and from now on does nothing. Sleeps; not from the work.
    pub(crate) fn disable(&self) {
        // SAFETY: Set up by `new`.
        unsafe { disable_delayed_work_sync(self.raw.get()) };
    }
}

/// Called by the workqueue.
///
/// # Safety
///
/// `raw` must be in the work of a disk.
unsafe extern "C" fn run(raw: *mut work_struct) {
    const OFFSET: usize =
        Core::WORK + core::mem::offset_of!(Work, raw) + core::mem::offset_of!(delayed_work, work);
    // Memory for a new connection must not wait for pages to be written to the disk that waits for it.
    // SAFETY: May be called in any task.
    let flags = unsafe { bindings::mlx5_ulp_blk_noio_save() };
    // SAFETY: By the contract of `Work::new` the disk is so many bytes before, and alive.
    unsafe { &*raw.cast::<u8>().sub(OFFSET).cast::<Core>() }.recover();
    // SAFETY: The flags are those that this task had.
    unsafe { bindings::mlx5_ulp_blk_noio_restore(flags) };
}
