// SPDX-License-Identifier: GPL-2.0

//! Fast registration.

use super::{
    bindings,
    Access,
    Device,
    Operation, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// A key for registration by requests (`struct mlx5_ulp_fast_region`), given back when dropped.
///
/// # Invariants
///
/// The region exists.
pub(crate) struct FastRegion {
    handle: NonNull<bindings::mlx5_ulp_fast_region>,
    _device: Arc<Device>,
}

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for FastRegion {}
// SAFETY: The interface does its own locking.
unsafe impl Sync for FastRegion {}

impl FastRegion {
    /// `mlx5_ulp_fast_region_create()`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number of pages out of range, `ENODEV`, `ENOMEM`, or what the firmware answered.
    pub(crate) fn new(device: &Arc<Device>, max_pages: u32) -> Result<Self> {
        // SAFETY: The handle is open.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_fast_region_create(device.as_ptr(), max_pages)
        })?;
        // INVARIANT: Just created, and destroyed by `drop` only.
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            _device: device.clone(),
        })
    }

    /// `mlx5_ulp_fast_region_map()`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list with a hole, `EMSGSIZE` for more pages than there is room for, `ENODEV`.
    ///
    /// # Safety
    ///
    /// `sgl` must be a list of `nents` entries, mapped for the device, that stay mapped as long as the key is
    /// valid: from when it is registered until it is invalidated or [`FastRegion::destroy`] has answered without an
    /// error. Until then the memory is the devices' to use, as far as it is registered with rights to. No registration
    /// of this region may be in flight.
    pub(crate) unsafe fn map(&self, sgl: *mut bindings::scatterlist, nents: u32) -> Result {
        // SAFETY: By the type invariant the region exists. The rest is guaranteed by the caller.
        to_result(unsafe { bindings::mlx5_ulp_fast_region_map(self.as_ptr(), sgl, nents) })
    }

    /// `mlx5_ulp_fast_region_key()`. Any context.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_fast_region_key(self.as_ptr()) }
    }

    /// `mlx5_ulp_fast_region_address()`. Any context.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_fast_region_address(self.as_ptr()) }
    }

    /// What a request does that makes the key valid, for what was mapped and with these rights.
    ///
    /// # Safety
    ///
    /// The region must exist until each request that is posted for this has completed: the device reads its list of
    /// pages.
    pub(crate) unsafe fn register(&self, access: Access) -> Operation<'_> {
        Operation::Register(Registration {
            region: self.as_ptr(),
            access,
            _region: PhantomData,
        })
    }

    /// `mlx5_ulp_fast_region_destroy()`: without an error, no device reaches memory by it any more. May sleep.
    ///
    /// # Errors
    ///
    /// What the firmware answered when it did not destroy the key.
    pub(crate) fn destroy(self) -> Result {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the region exists, and nobody uses it after, as in `drop`.
        let destroyed = unsafe { bindings::mlx5_ulp_fast_region_destroy(this.as_ptr()) };
        // SAFETY: Not used after, and nothing drops it.
        drop(unsafe { core::ptr::read(&this._device) });
        to_result(destroyed)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_fast_region {
        self.handle.as_ptr()
    }
}

/// See [`FastRegion::register`].
#[derive(Clone, Copy)]
pub(crate) struct Registration<'a> {
    pub(super) region: *mut bindings::mlx5_ulp_fast_region,
    pub(super) access: Access,
    _region: PhantomData<&'a FastRegion>,
}

impl Drop for FastRegion {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the region exists, and nobody uses it after: the contracts of
        // `map` and `register` are about requests in flight, and about memory whose key may still be valid.
        let _ = unsafe { bindings::mlx5_ulp_fast_region_destroy(self.as_ptr()) };
    }
}
