// SPDX-License-Identifier: GPL-2.0

//! What is done later, in process context: a delayed work item inside its owner.

use crate::{
    ulp_bindings,
    work_item::NoIo, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// A queue of work, one item at a time, that makes progress when memory is short.
///
/// # Invariants
///
/// It exists.
pub(crate) struct OrderedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: The workqueue does the locking.
unsafe impl Send for OrderedQueue {}
// SAFETY: As above.
unsafe impl Sync for OrderedQueue {}

impl OrderedQueue {
    /// Makes one. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: A string.
        let queue = unsafe { ulp_bindings::mlx5_ulp_blk_workqueue(name.as_char_ptr()) };
        // INVARIANT: Just made.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }
}

impl Drop for OrderedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Whose work it is.
pub(crate) trait Later: Sync {
    /// Offset of the [`DelayedWork`] in it, bytes.
    const LATER: usize;

    /// Does it. Process context, never twice at a time for one owner; what it allocates does not wait for pages to be
    /// written.
    fn later(&self);
}

/// The work item, pinned. Its owner stops it by [`DelayedWork::disable`] before it goes.
#[pin_data]
pub(crate) struct DelayedWork {
    #[pin]
    raw: Opaque<bindings::delayed_work>,
    /// `None` for the kernel's.
    queue: Option<OrderedQueue>,
}

// SAFETY: The workqueue does the locking.
unsafe impl Send for DelayedWork {}
// SAFETY: As above.
unsafe impl Sync for DelayedWork {}

impl DelayedWork {
    /// One that waits to be asked for, to be done on `queue` or else on the kernel's.
    ///
    /// # Safety
    ///
    /// It must be placed at offset [`Later::LATER`] of a `T`, which calls [`DelayedWork::disable`] before it goes.
    pub(crate) unsafe fn new<T: Later>(queue: Option<OrderedQueue>) -> impl PinInit<Self> {
        pin_init!(Self {
            queue,
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: The place is pinned; the function is that of the owner's type.
                unsafe { ulp_bindings::mlx5_ulp_blk_init_work(raw, Some(run::<T>)) }
            }),
        })
    }

    /// Has the owner's [`Later::later`] run after `ms` milliseconds, instead of when it was to run. Any context.
    pub(crate) fn after(&self, ms: u32) {
        // SAFETY: The item was set up by `new`. Its own queue is there as long, the kernel's for ever.
        unsafe {
            bindings::mod_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                match &self.queue {
                    Some(queue) => queue.0.as_ptr(),
                    None => bindings::system_dfl_wq,
                },
                self.raw.get(),
                msecs_to_jiffies(ms),
            )
        };
    }

    /// Waits until it does not run, and has [`DelayedWork::after`] do nothing from now on. Sleeps; not from
    /// [`Later::later`], nor with a lock that it takes.
    pub(crate) fn disable(&self) {
        // SAFETY: The item was set up by `new`.
        unsafe { bindings::disable_delayed_work_sync(self.raw.get()) };
    }
}

/// Called by the workqueue.
///
/// # Safety
///
/// `raw` must be in the item of a `T` that is alive.
unsafe extern "C" fn run<T: Later>(raw: *mut bindings::work_struct) {
    let offset = T::LATER
        + core::mem::offset_of!(DelayedWork, raw)
        + core::mem::offset_of!(bindings::delayed_work, work);
    // A new connection must not wait for pages to be written to the disk that waits for it.
    let no_io = NoIo::new();
    // SAFETY: By the contract of `DelayedWork::new` the owner is so many bytes before its item, and alive.
    unsafe { &*raw.cast::<u8>().sub(offset).cast::<T>() }.later();
    drop(no_io);
}
