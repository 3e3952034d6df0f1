// SPDX-License-Identifier: GPL-2.0

//! What has to be done in process context: a work item inside its owner.
//!
//! Memory may be freed by what completes here: a file system that writes pages back waits for a consumer, and that for a
//! completion. So the module has a workqueue of its own, of which one thread is there before memory is short
//! (`WQ_MEM_RECLAIM`), and what runs there does not wait for pages to be written (`memalloc_noio_save()`).

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicPtr,
        Ordering::{
            Acquire,
            Release, //
        }, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    types::Opaque, //
};

/// That of the module, null while there is none.
static QUEUE: AtomicPtr<bindings::workqueue_struct> = AtomicPtr::new(core::ptr::null_mut());

/// The module's workqueue, destroyed when dropped: after everything with a [`WorkItem`].
///
/// # Invariants
///
/// It exists, and is what [`QUEUE`] points to.
pub(crate) struct Workqueue(NonNull<bindings::workqueue_struct>);

// SAFETY: The workqueue does the locking.
unsafe impl Send for Workqueue {}
// SAFETY: As above.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Makes it, when the module is loaded.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: A format and the one string that it takes; 0 is the usual number of active items.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, 0, name.as_char_ptr())
        };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUE.store(queue.as_ptr(), Release);
        // INVARIANT: Just made.
        Ok(Self(queue))
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        QUEUE.store(core::ptr::null_mut(), Release);
        // SAFETY: By the type invariant it exists. Whoever had work for it is gone, so nobody queues; what is still
        // running is waited for.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

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
        let queue = QUEUE.load(Acquire);
        if queue.is_null() {
            return;
        }
        // SAFETY: The item was set up by `new`. The workqueue is there as long as the module, which is there as long as
        // whoever has the item.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                queue,
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
    let no_io = NoIo::new();
    // SAFETY: By the contract of `WorkItem::new` the owner is so many bytes before its item, and alive.
    unsafe { &*raw.cast::<u8>().sub(T::ITEM).cast::<T>() }.work();
    drop(no_io);
}

/// While it exists, this task waits for no input or output when it allocates memory: `memalloc_noio_save()`, which is
/// inline in `<linux/sched/mm.h>`.
pub(crate) struct NoIo {
    /// The flag as it was.
    before: u32,
    _task: core::marker::PhantomData<*mut ()>,
}

impl NoIo {
    /// From here on.
    pub(crate) fn new() -> Self {
        // SAFETY: The flags of a task are read and written by itself only, and it is the one that runs this.
        let before = unsafe {
            let flags = &raw mut (*kernel::current!().as_ptr()).flags;
            let before = flags.read();
            flags.write(before | bindings::PF_MEMALLOC_NOIO);
            before & bindings::PF_MEMALLOC_NOIO
        };
        Self {
            before,
            _task: core::marker::PhantomData,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: As in `new`; it is not `Send`, so this is the same task.
        unsafe {
            let flags = &raw mut (*kernel::current!().as_ptr()).flags;
            flags.write(flags.read() & !bindings::PF_MEMALLOC_NOIO | self.before);
        }
    }
}
