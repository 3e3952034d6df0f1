// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_device`: a consumer's hold on a device.

use super::{
    access,
    declared,
    held::{
        self,
        held,
        Place, //
    },
    int_result,
    pointer_result, //
};
use crate::{
    device::{
        Device,
        Member, //
    },
    hw::{
        access::Access,
        cq,
        mkey::MemoryKey,
        pd::ProtectionDomain, //
    },
    qid::registry::Registry,
    queue::{
        ring::MAX_LOG_BLOCKS,
        shape::{
            ReceiveShape,
            Shape, //
        }, //
    },
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicPtr,
        AtomicU32,
        Ordering::Relaxed, //
    },
};
use kernel::{
    bindings::{
        device,
        module,
        module_put,
        task_struct,
        try_module_get, //
    },
    error::code::*,
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    new_mutex,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        Completion,
        Mutex, //
    },
};
use mlx5_ulp_bindings as bindings;

/// Whether the consumer was told that the device goes.
#[derive(Clone, Copy)]
enum Notice {
    /// Not yet.
    Pending,
    /// This task is telling.
    Running(*mut task_struct),
    /// Its consumer is being unloaded and cannot be told; that it closes is waited for.
    Leaving,
    /// Told, or not to be told any more.
    Over,
}

/// The firmware objects that all of a consumer's queues and regions share.
struct Hardware {
    // The keys before their domain.
    local_key: Arc<MemoryKey>,
    global_keys: KVec<MemoryKey>,
    pd: Arc<ProtectionDomain>,
}

/// A consumer's hold on a device: its protection domain, and how it hears of removal.
#[pin_data]
pub(super) struct Handle {
    /// That of `device`, which keeps it: one load less on the way to a queue.
    registry: NonNull<Registry>,
    device: Arc<Device>,
    /// `None` once it is shut down.
    #[pin]
    hardware: Mutex<Option<Hardware>>,
    local_key: AtomicU32,
    /// Null once it is shut down.
    dma_device: AtomicPtr<device>,
    limits: bindings::mlx5_ulp_limits,
    #[pin]
    notice: Mutex<Notice>,
    /// Completed when the notice is over; in [`Notice::Leaving`], when the handle is closed.
    #[pin]
    told: Completion,
    removal: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
    owner: *mut module,
}

// SAFETY: `context` and the task are only handed back and compared; the module counts its users itself; the
// registry is `Sync`, the rest is `Send`.
unsafe impl Send for Handle {}
// SAFETY: As above; what changes is behind locks.
unsafe impl Sync for Handle {}

impl Handle {
    fn new(device: Arc<Device>, attr: bindings::mlx5_ulp_open_attr) -> Result<Arc<Self>> {
        let hold = device.hold()?;
        let pd = ProtectionDomain::new(hold.clone())?;
        let key = Arc::new(MemoryKey::local(pd.clone())?, GFP_KERNEL)?;
        let max_wqe = hold.caps().max_wqe_sz_sq;
        let log_blocks = hold.caps().log_max_qp_sz.min(MAX_LOG_BLOCKS);
        let limits = bindings::mlx5_ulp_limits {
            // A completion queue has twice as many entries.
            max_depth: 1 << log_blocks.min(hold.caps().log_max_cq_sz.saturating_sub(1)),
            max_sge: Shape::most_ranges(max_wqe),
            max_read_sge: Shape::MAX_READ_SGE.min(Shape::most_ranges(max_wqe)),
            max_recv_sge: ReceiveShape::most_ranges(hold.caps().max_wqe_sz_rq),
            max_reads: hold.caps().max_reads().into(),
            max_inline: Shape::most_inline(max_wqe),
            max_message: 1 << hold.caps().log_max_msg.min(31),
            vectors: cq::vectors(&hold).into(),
        };
        let handle = Arc::pin_init(
            pin_init!(Self {
                local_key: AtomicU32::new(key.key()),
                dma_device: AtomicPtr::new(hold.dma_device()),
                hardware <- new_mutex!(
                    Some(Hardware {
                        local_key: key,
                        global_keys: KVec::new(),
                        pd,
                    }),
                    "mlx5_ulp_handle"
                ),
                limits,
                notice <- new_mutex!(Notice::Pending, "mlx5_ulp_notice"),
                told <- Completion::new(),
                removal: attr.removal,
                context: attr.context,
                owner: attr.owner,
                registry: NonNull::from(device.registry()),
                device,
            }),
            GFP_KERNEL,
        )?;
        handle.device.enroll(handle.clone())?;
        Ok(handle)
    }

    /// The protection domain for a new object.
    ///
    /// # Errors
    ///
    /// `ENODEV` once the device is gone.
    pub(super) fn pd(&self) -> Result<Arc<ProtectionDomain>> {
        let hardware = self.hardware.lock();
        Ok(hardware.as_ref().ok_or(ENODEV)?.pd.clone())
    }

    /// The protection domain for a new object, and the key by which the device finds memory of the object; that
    /// key outlives the handle as long as it is kept.
    ///
    /// # Errors
    ///
    /// `ENODEV` once the device is gone.
    pub(super) fn pd_and_key(&self) -> Result<(Arc<ProtectionDomain>, Arc<MemoryKey>)> {
        let hardware = self.hardware.lock();
        let hardware = hardware.as_ref().ok_or(ENODEV)?;
        Ok((hardware.pd.clone(), hardware.local_key.clone()))
    }

    /// The key to local memory by DMA address; 0 once the device is gone.
    pub(super) fn local_key(&self) -> u32 {
        self.local_key.load(Relaxed)
    }

    /// Makes a key to all memory, with these rights for peers. It lives as long as the handle is open. Sleeps.
    fn global_key(&self, access: Access) -> Result<u32> {
        let mut hardware = self.hardware.lock();
        let Some(hardware) = &mut *hardware else {
            return Err(ENODEV);
        };
        // First: nothing may fail once there is such a key, or a caller is told that there is none while the device may
        // refuse to destroy it.
        hardware.global_keys.reserve(1, GFP_KERNEL)?;
        let key = MemoryKey::all_memory_remote(hardware.pd.clone(), access)?;
        let number = key.key();
        hardware.global_keys.push_within_capacity(key)?;
        Ok(number)
    }

    /// The device.
    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The queues of the device.
    #[inline(always)]
    pub(super) fn registry(&self) -> &Registry {
        // SAFETY: `device` keeps its registry, pinned, and `self` keeps `device`.
        unsafe { self.registry.as_ref() }
    }

    /// Ends the handle for its consumer: it is not told any more when this returns, unless this is called
    /// from the notice itself.
    fn close(self: Arc<Self>) {
        let member: Arc<dyn Member> = self.clone();
        self.device.leave(&member);
        let before = {
            let mut notice = self.notice.lock();
            let before = *notice;
            if let Notice::Pending | Notice::Leaving = before {
                *notice = Notice::Over;
            }
            before
        };
        if matches!(before, Notice::Running(task) if task != current_task()) {
            self.told.wait_for_completion();
        }
        self.shutdown();
        if let Notice::Leaving = before {
            self.told.complete_all();
        }
    }
}

/// The task that runs this.
fn current_task() -> *mut task_struct {
    kernel::current!().as_ptr()
}

impl Member for Handle {
    fn removal_notice(&self) {
        let held = {
            let mut notice = self.notice.lock();
            let Notice::Pending = *notice else {
                return;
            };
            // SAFETY: Null, which is fine, or the consumer's module, which is there until its exit function has
            // returned. That closes this handle before, for which it needs the lock.
            let held = self.removal.is_none() || unsafe { try_module_get(self.owner) };
            *notice = if held {
                Notice::Running(current_task())
            } else {
                Notice::Leaving
            };
            held
        };
        if !held {
            // Until then it may have memory mapped for the device, which is not to go before.
            self.told.wait_for_completion();
            return;
        }
        if let Some(removal) = self.removal {
            // SAFETY: The consumer's function for the consumer's context, both good until `close` has
            // returned, which waits for this call; if it closes by itself, its module stays until the end.
            unsafe { removal(self.context) };
            // SAFETY: Null, or got above.
            unsafe { module_put(self.owner) };
        }
        *self.notice.lock() = Notice::Over;
        self.told.complete_all();
    }

    fn shutdown(&self) {
        self.local_key.store(0, Relaxed);
        self.dma_device.store(core::ptr::null_mut(), Relaxed);
        let hardware = self.hardware.lock().take();
        drop(hardware);
    }
}

held!(
    pub(super) Handle,
    DEVICES,
    bindings::mlx5_ulp_device,
    bindings::mlx5_ulp_shim_stale
);

declared!(
    mlx5_ulp_open,
    mlx5_ulp_open_ibdev,
    mlx5_ulp_close,
    mlx5_ulp_query_limits,
    mlx5_ulp_local_key,
    mlx5_ulp_unsafe_global_key,
    mlx5_ulp_dma_device,
);

/// Makes a handle for a consumer.
///
/// # Safety
///
/// `attr` must be null or valid.
unsafe fn open(
    device: Result<Arc<Device>>,
    attr: *const bindings::mlx5_ulp_open_attr,
) -> *mut bindings::mlx5_ulp_device {
    // SAFETY: Guaranteed by the caller.
    let attr = match unsafe { attr.as_ref() } {
        Some(attr) => *attr,
        None => bindings::mlx5_ulp_open_attr {
            removal: None,
            context: core::ptr::null_mut(),
            owner: core::ptr::null_mut(),
        },
    };
    pointer_result(device.and_then(|device| {
        let place = Place::new()?;
        Ok(place.give(Handle::new(device, attr)?))
    }))
}

/// Borrows the handle of a consumer, in any context.
///
/// # Safety
///
/// `dev` must be a handle that [`open`] gave out and that is not closed during `'a`.
pub(super) unsafe fn handle<'a>(dev: *const bindings::mlx5_ulp_device) -> &'a Handle {
    // SAFETY: What `open` gave out is the address of a `Handle`, which is kept until it is closed.
    unsafe { &*dev.cast::<Handle>() }
}

/// Looks up the handle of a consumer, for `call`. Sleeps.
///
/// # Errors
///
/// `EBADF` if it is none.
pub(super) fn open_handle(
    dev: *const bindings::mlx5_ulp_device,
    call: &CStr,
) -> Result<Arc<Handle>> {
    held::get(dev, call)
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `name` must be a string; `attr` null or valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_open(
    name: *const c_char,
    attr: *const bindings::mlx5_ulp_open_attr,
) -> *mut bindings::mlx5_ulp_device {
    if name.is_null() {
        return EINVAL.to_ptr();
    }
    // SAFETY: The caller passes a string.
    let name = unsafe { CStr::from_char_ptr(name) };
    // SAFETY: Guaranteed by the caller.
    unsafe { open(Device::find(name), attr) }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `attr` must be null or valid. `ibdev` is only compared.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_open_ibdev(
    ibdev: *mut bindings::ib_device,
    attr: *const bindings::mlx5_ulp_open_attr,
) -> *mut bindings::mlx5_ulp_device {
    // SAFETY: Guaranteed by the caller.
    unsafe { open(Device::of(ibdev), attr) }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_close(dev: *mut bindings::mlx5_ulp_device) {
    if let Ok(handle) = held::take_back::<Handle>(dev, c"mlx5_ulp_close") {
        handle.close();
    }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle, `limits` valid for writing.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_query_limits(
    dev: *const bindings::mlx5_ulp_device,
    limits: *mut bindings::mlx5_ulp_limits,
) {
    // SAFETY: Guaranteed by the caller.
    unsafe { *limits = handle(dev).limits };
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_local_key(dev: *const bindings::mlx5_ulp_device) -> u32 {
    // SAFETY: Guaranteed by the caller.
    unsafe { handle(dev) }.local_key()
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_dma_device(dev: *const bindings::mlx5_ulp_device) -> *mut device {
    // SAFETY: Guaranteed by the caller.
    unsafe { handle(dev) }.dma_device.load(Relaxed)
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `key` must be valid for writing.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_unsafe_global_key(
    dev: *mut bindings::mlx5_ulp_device,
    access: c_uint,
    key: *mut u32,
) -> c_int {
    let made = self::access(access)
        .and_then(|access| open_handle(dev, c"mlx5_ulp_unsafe_global_key")?.global_key(access));
    int_result(made.map(|number| {
        // SAFETY: Guaranteed by the caller.
        unsafe { *key = number };
    }))
}
