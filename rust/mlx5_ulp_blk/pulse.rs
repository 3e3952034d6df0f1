// SPDX-License-Identifier: GPL-2.0

//! Work that is done again and again: a delayed work item inside its owner.

use crate::ulp_bindings;
use kernel::{
    bindings,
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Whose work it is.
pub(crate) trait Beat: Sync {
    /// Offset of the [`Pulse`] in it, bytes.
    const PULSE: usize;

    /// Does it once. Process context, never twice at a time for one owner.
    fn beat(&self);
}

/// The work item, pinned. Its owner stops it by [`Pulse::disable`] before it goes.
#[repr(transparent)]
#[pin_data]
pub(crate) struct Pulse {
    #[pin]
    raw: Opaque<bindings::delayed_work>,
}

// SAFETY: The workqueue does the locking.
unsafe impl Send for Pulse {}
// SAFETY: As above.
unsafe impl Sync for Pulse {}

impl Pulse {
    /// One that waits to be asked for.
    ///
    /// # Safety
    ///
    /// It must be placed at offset [`Beat::PULSE`] of a `T`, which is not dropped while the item is queued or runs.
    pub(crate) unsafe fn new<T: Beat>() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: The place is pinned; the function is that of the owner's type.
                unsafe { ulp_bindings::mlx5_ulp_blk_init_work(raw, Some(run::<T>)) }
            }),
        })
    }

    /// Has the owner's [`Beat::beat`] run after `ms` milliseconds, if it is not asked for already. Any context.
    pub(crate) fn after(&self, ms: u32) {
        // SAFETY: The item was set up by `new`; the workqueue is there as long as the kernel.
        unsafe {
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                bindings::system_dfl_wq,
                self.raw.get(),
                msecs_to_jiffies(ms),
            )
        };
    }

    /// Waits until it does not run, and has [`Pulse::after`] do nothing from now on. Sleeps; not from
    /// [`Beat::beat`], nor with a lock that it takes.
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
unsafe extern "C" fn run<T: Beat>(raw: *mut bindings::work_struct) {
    let offset = T::PULSE + core::mem::offset_of!(bindings::delayed_work, work);
    // SAFETY: By the contract of `Pulse::new` the owner is so many bytes before its item, and alive.
    unsafe { &*raw.cast::<u8>().sub(offset).cast::<T>() }.beat();
}
