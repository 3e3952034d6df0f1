// SPDX-License-Identifier: GPL-2.0

//! Registered memory.

use super::{
    bindings,
    Device, //
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_uint,
    prelude::*,
    sync::Arc, //
};

/// What may be done with a region, or through a queue, by the peer.
#[derive(Clone, Copy)]
pub(crate) struct Access(c_uint);

impl Access {
    /// Nothing by the peer; local access is always granted.
    pub(crate) const LOCAL: Self = Self(bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_LOCAL);
    /// RDMA WRITE by the peer.
    pub(crate) const REMOTE_WRITE: Self =
        Self(bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_WRITE);
    /// RDMA READ by the peer.
    pub(crate) const REMOTE_READ: Self =
        Self(bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_READ);
    /// Atomics by the peer.
    pub(crate) const REMOTE_ATOMIC: Self =
        Self(bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_ATOMIC);
    /// Writing by requests of our own: destination of a READ, of an atomic's old value, of a receive.
    pub(crate) const LOCAL_WRITE: Self =
        Self(bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_LOCAL_WRITE);

    /// Both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn bits(self) -> c_uint {
        self.0
    }
}

/// Registered memory, which it owns: the memory stays allocated as long as the device can reach it.
///
/// # Invariants
///
/// `handle` is a region over the bytes of `memory`.
pub(crate) struct Region<M> {
    handle: NonNull<bindings::mlx5_ulp_region>,
    memory: M,
    _device: Arc<Device>,
}

// SAFETY: The interface does its own locking; the memory must be `Send` by itself.
unsafe impl<M: Send> Send for Region<M> {}
// SAFETY: As above.
unsafe impl<M: Sync> Sync for Region<M> {}

impl<M: Deref<Target = [u8]>> Region<M> {
    /// `mlx5_ulp_region_create()` over `memory`. May sleep.
    ///
    /// With [`Access::REMOTE_WRITE`] the peer changes the memory while the region exists: what is read of
    /// it meanwhile may be half old and half new.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is empty, `ENODEV`, `ENOMEM`, or what the firmware answered.
    pub(crate) fn new(device: &Arc<Device>, memory: M, access: Access) -> Result<Self> {
        let bytes: &[u8] = &memory;
        let (start, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: The handle is open. The memory is owned by the region, which `drop` destroys before
        // the memory is freed; it is heap memory, so moving `memory` does not move it.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_region_create(
                device.as_ptr(),
                start.cast_mut().cast(),
                len,
                access.bits(),
            )
        })?;
        // INVARIANT: Just created.
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            memory,
            _device: device.clone(),
        })
    }

    /// `mlx5_ulp_region_key()`.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_region_key(self.handle.as_ptr()) }
    }

    /// Address of its first byte, as requests and peers name it.
    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &[u8] {
        &self.memory
    }
}

impl<M> Drop for Region<M> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the region exists; nobody uses it after. Requests that still
        // name it fail, they reach no memory.
        unsafe { bindings::mlx5_ulp_region_destroy(self.handle.as_ptr()) };
    }
}
