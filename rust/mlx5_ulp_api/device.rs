// SPDX-License-Identifier: GPL-2.0

//! Devices.

use super::{
    bindings,
    told::Told,
    Access, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_void,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Who hears that a device is about to go.
pub(crate) trait Removal: Send + Sync {
    /// Still, everything works. When this returns, requests in flight end with `ECANCELED`, and later
    /// calls answer `ENODEV`. Process context; may sleep, but must not wait for another task that drops the last
    /// reference to the [`Device`], be it with a queue or a region.
    fn removal(&self);
}

// Only its address is taken.
#[allow(improper_ctypes)]
extern "C" {
    /// `THIS_MODULE`: the consumer that this is compiled into.
    static __this_module: Opaque<kernel::bindings::module>;
}

/// What a device can do (`struct mlx5_ulp_limits`).
pub(crate) type Limits = bindings::mlx5_ulp_limits;

/// A hold on a device, closed when dropped. Queues and regions keep a reference.
///
/// # Invariants
///
/// The handle is open.
pub(crate) struct Device {
    handle: NonNull<bindings::mlx5_ulp_device>,
    /// Outlives the handle, which has its context.
    _removal: Option<Told<dyn Removal>>,
}

// SAFETY: All functions of the interface may be called from any task; who is told is `Send`.
unsafe impl Send for Device {}
// SAFETY: The interface does its own locking; who is told is `Sync`.
unsafe impl Sync for Device {}

impl Device {
    /// `mlx5_ulp_open()`, without a removal notice. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device.
    pub(crate) fn open(name: &CStr) -> Result<Arc<Self>> {
        Self::named(name, None)
    }

    /// `mlx5_ulp_open()`, with a removal notice to `removal`. May sleep.
    ///
    /// The device keeps `removal`, so what is told must not keep the device for ever.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device.
    pub(crate) fn open_with_notice(name: &CStr, removal: Arc<dyn Removal>) -> Result<Arc<Self>> {
        Self::named(name, Some(removal))
    }

    fn named(name: &CStr, removal: Option<Arc<dyn Removal>>) -> Result<Arc<Self>> {
        Self::opened(removal, |attr| {
            // SAFETY: A string; the attributes are null or valid.
            unsafe { bindings::mlx5_ulp_open(name.as_char_ptr(), attr) }
        })
    }

    /// `mlx5_ulp_open_ibdev()`, with a removal notice to `removal` if there is one. The pointer, such as
    /// `ulp_cm::Route::ibdev()`, is only compared. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is none of ours (any more).
    pub(crate) fn of(
        ibdev: *mut bindings::ib_device,
        removal: Option<Arc<dyn Removal>>,
    ) -> Result<Arc<Self>> {
        Self::opened(removal, |attr| {
            // SAFETY: Only compared; the attributes are null or valid.
            unsafe { bindings::mlx5_ulp_open_ibdev(ibdev, attr) }
        })
    }

    /// What `open` has opened, which it is told the attributes for.
    fn opened(
        removal: Option<Arc<dyn Removal>>,
        open: impl FnOnce(*const bindings::mlx5_ulp_open_attr) -> *mut bindings::mlx5_ulp_device,
    ) -> Result<Arc<Self>> {
        let removal = removal.map(Told::new).transpose()?;
        // `notice` is the function for that context, which is kept until the handle is closed.
        let attr = removal
            .as_ref()
            .map(|removal| bindings::mlx5_ulp_open_attr {
                removal: Some(notice),
                context: removal.context(),
                // SAFETY: The linker defines it for each module; it is not looked at.
                owner: unsafe { __this_module.get() },
            });
        let handle = from_err_ptr(open(attr.as_ref().map_or(core::ptr::null(), |attr| attr)))?;
        // INVARIANT: Just opened, and closed by `drop` only.
        let device = Self {
            handle: NonNull::new(handle).ok_or(ENODEV)?,
            _removal: removal,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    /// `mlx5_ulp_query_limits()`.
    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: All zeroes is a valid value of this plain structure.
        let mut limits: Limits = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the handle is open; `limits` is a place for the answer.
        unsafe { bindings::mlx5_ulp_query_limits(self.as_ptr(), &mut limits) };
        limits
    }

    /// `mlx5_ulp_dma_device()`, `None` once the device is gone.
    pub(crate) fn dma_device(&self) -> Option<NonNull<kernel::bindings::device>> {
        // SAFETY: By the type invariant the handle is open.
        NonNull::new(unsafe { bindings::mlx5_ulp_dma_device(self.as_ptr()) })
    }

    /// `mlx5_ulp_local_key()`, for ranges made by [`Range::from_raw`](super::Range::from_raw).
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: By the type invariant the handle is open.
        unsafe { bindings::mlx5_ulp_local_key(self.as_ptr()) }
    }

    /// `mlx5_ulp_unsafe_global_key()`: a key to all memory of this machine, for peers. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ENOMEM`, or what the firmware answered.
    ///
    /// # Safety
    ///
    /// Whoever is connected to a queue of this handle and learns the key, which may be guessed, reads or writes any
    /// memory, by its DMA address, until the handle is closed. All of them must be trusted like the kernel itself, and do
    /// to this kernel's memory only what its owners allow.
    pub(crate) unsafe fn unsafe_global_key(&self, access: Access) -> Result<u32> {
        let mut key = 0;
        // SAFETY: By the type invariant the handle is open; `key` is a place for the answer. The caller answers for the
        // rest.
        to_result(unsafe {
            bindings::mlx5_ulp_unsafe_global_key(self.as_ptr(), access.bits(), &mut key)
        })?;
        Ok(key)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_device {
        self.handle.as_ptr()
    }
}

/// Called by the module.
///
/// # Safety
///
/// `context` must be that of a [`Told`] that is there when this is called.
unsafe extern "C" fn notice(context: *mut c_void) {
    // SAFETY: The caller guarantees it.
    let removal = unsafe { Told::<dyn Removal>::of(context) };
    // A reference of its own: who is told may close the device, and with it what `context` points to.
    let removal = removal.clone();
    removal.removal();
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the handle is open, and nobody uses it after.
        unsafe { bindings::mlx5_ulp_close(self.as_ptr()) };
    }
}
