// SPDX-License-Identifier: GPL-2.0

//! Registered memory.
//!
//! # Why safe code cannot have a device touch memory that is not meant for it
//!
//! A device reaches memory only by a key, and within the addresses of that key. Local ranges ([`Range`]) come from
//! regions, so their addresses lie in memory that a region owns:
//!
//! * **The region exists when the request is posted**, since the range borrows it.
//! * **It may go while the request is in flight.** Then the key is destroyed before the memory is given back, and the
//!   device carries out nothing by a key that is destroyed: the request fails. What the firmware does not destroy is not
//!   given back. Who does not want the request to fail keeps the region in what the request is told by
//!   ([`Request::data`](super::Request::data)), which lives until it has completed.
//! * **The number of a key may come again**, or stand for something else on another device. Addresses of a [`Region`] are
//!   kernel virtual addresses, which lie in no range of DMA addresses, so a key to memory by DMA address has nothing
//!   there. Another region has something there only if it owns the memory now, and then with the rights that its owner
//!   gave for all who use the device.
//! * **No reference to the bytes exists** as long as a device may write them: see [`Memory`]. The CPU copies
//!   ([`Region::copy_to`], [`Region::copy_from`]), or takes the memory back ([`Region::into_memory`]).
//!
//! What the peer's keys and addresses are is the peer's business: they are plain numbers, and his device checks them.
//! Memory by DMA address ([`Device::local_key`], [`FastRegion`](super::FastRegion), [`ListRegion`]) is for `unsafe` code,
//! which knows what is mapped, and for how long.

use super::{
    bindings,
    memory::{
        Memory,
        Parts, //
    },
    Device, //
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

/// A range of local memory that requests may name (`struct mlx5_ulp_sge`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Range<'a> {
    raw: bindings::mlx5_ulp_sge,
    _region: PhantomData<&'a ()>,
}

impl Range<'_> {
    /// No memory at all.
    pub(crate) const NONE: Self = Self {
        raw: bindings::mlx5_ulp_sge {
            addr: 0,
            length: 0,
            lkey: 0,
        },
        _region: PhantomData,
    };

    /// A range by address, bytes and key: for memory that is mapped for the DMA device, or of a fast region.
    ///
    /// # Safety
    ///
    /// It must be posted to queues of the device only that the key is of, and by handles of its protection domain. Until
    /// each request that names it has completed, the device must be free to read the memory and, if the request writes
    /// locally, to write it.
    pub(crate) const unsafe fn from_raw(raw: bindings::mlx5_ulp_sge) -> Self {
        Self {
            raw,
            _region: PhantomData,
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u32 {
        self.raw.length
    }

    pub(super) fn raw(&self) -> bindings::mlx5_ulp_sge {
        self.raw
    }
}

/// `length` bytes from byte `offset` on of a region, if they are in it.
fn range_of<'a>(start: u64, size: u64, lkey: u32, offset: u64, length: u32) -> Result<Range<'a>> {
    let end = offset.checked_add(length.into()).ok_or(EINVAL)?;
    if end > size {
        return Err(EINVAL);
    }
    Ok(Range {
        raw: bindings::mlx5_ulp_sge {
            // Within the address space, as the end of the region is.
            addr: start.wrapping_add(offset),
            length,
            lkey,
        },
        _region: PhantomData,
    })
}

/// Registered memory, which it owns: the memory stays allocated as long as a device can reach it.
///
/// # Invariants
///
/// `handle` is a region over `memory`, which came from `M`.
pub(crate) struct Region<M: Memory> {
    handle: NonNull<bindings::mlx5_ulp_region>,
    memory: Parts,
    device: Arc<Device>,
    _owner: PhantomData<M>,
}

// SAFETY: The interface does its own locking; the owner of the memory must be `Send` by itself.
unsafe impl<M: Memory + Send> Send for Region<M> {}
// SAFETY: As above. Several may copy at once: byte by byte as the CPU does it, see `copy_to`.
unsafe impl<M: Memory + Sync> Sync for Region<M> {}

impl<M: Memory> Region<M> {
    /// `mlx5_ulp_region_create()` over `memory`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is empty, `ENODEV`, `ENOMEM`, or what the firmware answered.
    pub(crate) fn new(device: &Arc<Device>, memory: M, access: Access) -> Result<Self> {
        let parts = memory.into_parts();
        // SAFETY: The handle is open. By the contract of `Memory` the bytes stay until they are put together again, which
        // `end` does behind the region only.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_region_create(
                device.as_ptr(),
                parts.start.as_ptr().cast(),
                parts.len,
                access.bits(),
            )
        });
        match handle.map(NonNull::new) {
            // INVARIANT: Just created.
            Ok(Some(handle)) => Ok(Self {
                handle,
                memory: parts,
                device: device.clone(),
                _owner: PhantomData,
            }),
            other => {
                // SAFETY: Just taken apart, and no device has heard of it.
                drop(unsafe { M::from_parts(parts) });
                Err(other.err().unwrap_or(ENOMEM))
            }
        }
    }

    /// `mlx5_ulp_region_key()`.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_region_key(self.handle.as_ptr()) }
    }

    /// Address of its first byte, as peers name it.
    pub(crate) fn address(&self) -> u64 {
        self.memory.start.as_ptr() as u64
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.len
    }

    /// The handle that it was made on.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// `length` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all in it.
    pub(crate) fn range(&self, offset: u64, length: u32) -> Result<Range<'_>> {
        let size = self.memory.len as u64;
        range_of(self.address(), size, self.key(), offset, length)
    }

    /// Copies what is at `offset` to `to`. Where a device writes meanwhile, a byte is what it was or what it will be.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are not so many bytes.
    pub(crate) fn copy_to(&self, offset: usize, to: &mut [u8]) -> Result {
        let from = self.place(offset, to.len())?;
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: `place` has checked that the bytes are in the memory, which by the type invariant is there. No Rust
            // reference to it exists, so what others do to it at the same time, a device or `copy_from`, is a race of
            // single bytes between volatile accesses, which the kernel's memory model defines.
            *to = unsafe { from.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies `from` to what is at `offset`. A device that reads it meanwhile gets a byte as it was or as it will be.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is not so much room.
    pub(crate) fn copy_from(&self, offset: usize, from: &[u8]) -> Result {
        let to = self.place(offset, from.len())?;
        for (i, from) in from.iter().enumerate() {
            // SAFETY: As in `copy_to`.
            unsafe { to.add(i).write_volatile(*from) };
        }
        Ok(())
    }

    /// Destroys the key and gives the memory back. Requests that still name it fail, and their queues with them. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// What the firmware answered when it did not destroy the key: the memory is lost then, since a device may still
    /// reach it.
    pub(crate) fn into_memory(self) -> Result<M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: Neither `this` nor its fields are used after.
        let memory = unsafe { this.end() };
        // SAFETY: As above, and nothing drops it.
        drop(unsafe { core::ptr::read(&this.device) });
        memory
    }

    /// The place of `len` bytes at `offset`.
    fn place(&self, offset: usize, len: usize) -> Result<NonNull<u8>> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.memory.len {
            return Err(EINVAL);
        }
        // SAFETY: It is in the memory, or its end.
        Ok(unsafe { self.memory.start.add(offset) })
    }

    /// # Errors
    ///
    /// As [`Region::into_memory`].
    ///
    /// # Safety
    ///
    /// The region is not used after.
    unsafe fn end(&mut self) -> Result<M> {
        // SAFETY: By the type invariant the region exists, and the caller does not use it after. Requests that still name
        // it fail, they reach no memory.
        to_result(unsafe { bindings::mlx5_ulp_region_destroy(self.handle.as_ptr()) })?;
        // SAFETY: They came from this type, are put together here only, and the key is destroyed.
        Ok(unsafe { M::from_parts(self.memory) })
    }
}

impl<M: Memory> Drop for Region<M> {
    fn drop(&mut self) {
        // An error was reported, and the memory is given up.
        // SAFETY: It is not used after.
        let _ = unsafe { self.end() };
    }
}

/// A registered scatterlist (`mlx5_ulp_region_create_sg()`), which somebody else owns.
///
/// # Invariants
///
/// The region exists.
pub(crate) struct ListRegion {
    handle: NonNull<bindings::mlx5_ulp_region>,
    _device: Arc<Device>,
}

// SAFETY: The interface does its own locking, and no memory is looked at.
unsafe impl Send for ListRegion {}
// SAFETY: As above.
unsafe impl Sync for ListRegion {}

impl ListRegion {
    /// `mlx5_ulp_region_create_sg()`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty list or one with a hole, `ENODEV`, `ENOMEM`, or what the firmware answered.
    ///
    /// # Safety
    ///
    /// `sgl` must be a list of `nents` entries, mapped for [`Device::dma_device`]. Until the region was given back by
    /// [`ListRegion::destroy`] without an error they stay mapped and, as far as `access` says, are the devices' to read and
    /// write; for ever if the region is dropped without that.
    pub(crate) unsafe fn new(
        device: &Arc<Device>,
        sgl: *mut bindings::scatterlist,
        nents: u32,
        access: Access,
    ) -> Result<Self> {
        // SAFETY: The handle is open; the caller guarantees the rest.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_region_create_sg(device.as_ptr(), sgl, nents, access.bits())
        })?;
        // INVARIANT: Just created.
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            _device: device.clone(),
        })
    }

    /// `mlx5_ulp_region_key()`.
    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_region_key(self.handle.as_ptr()) }
    }

    /// `mlx5_ulp_region_address()`: address of its first byte. Requests of our own name it by [`Range::from_raw`].
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: By the type invariant the region exists.
        unsafe { bindings::mlx5_ulp_region_address(self.handle.as_ptr()) }
    }

    /// Gives it back: without an error, no device reaches the memory by it any more. May sleep.
    ///
    /// # Errors
    ///
    /// What the firmware answered when it did not destroy the key.
    pub(crate) fn destroy(self) -> Result {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the region exists; it is not used after.
        let destroyed = unsafe { bindings::mlx5_ulp_region_destroy(this.handle.as_ptr()) };
        // SAFETY: Not used after, and nothing drops it.
        drop(unsafe { core::ptr::read(&this._device) });
        to_result(destroyed)
    }
}

impl Drop for ListRegion {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the region exists; it is not used after. If it fails, the memory is still the
        // devices' by the contract of `new`.
        let _ = unsafe { bindings::mlx5_ulp_region_destroy(self.handle.as_ptr()) };
    }
}
