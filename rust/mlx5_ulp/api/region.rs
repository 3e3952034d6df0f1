// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_region`: registered kernel memory.

use super::{
    access,
    declared,
    device::{
        handle,
        Handle, //
    },
    pointer_result, //
};
use crate::{
    device::{
        Device,
        Member, //
    },
    hw::{
        access::Access,
        mapping::{
            Direction,
            KernelMapping, //
        },
        mkey::MemoryKey, //
    },
    table,
};
use core::sync::atomic::{
    AtomicI32,
    Ordering::Relaxed, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use mlx5_ulp_bindings as bindings;

/// A region of a consumer.
#[pin_data]
struct Region {
    device: Arc<Device>,
    /// `None` once it is shut down.
    #[pin]
    key: Mutex<Option<MemoryKey>>,
    number: u32,
    address: u64,
    /// Why the device may still reach the memory: an error number, or 0. Changed with the lock.
    reachable: AtomicI32,
}

impl Region {
    /// Registers `len` bytes at `memory`, with their kernel virtual address as address in the key.
    ///
    /// # Safety
    ///
    /// The memory must stay allocated until the region is given back.
    unsafe fn new(
        dev: *mut bindings::mlx5_ulp_device,
        memory: *mut c_void,
        len: usize,
        bits: u32,
    ) -> Result<Arc<Self>> {
        let access = access(bits)?;
        // SAFETY: The caller passes an open handle.
        let handle = unsafe { handle(dev) };
        let hold = handle.pd()?.hold().clone();
        let direction = if access.writes() {
            Direction::Bidirectional
        } else {
            Direction::ToDevice
        };
        // SAFETY: Guaranteed by the caller.
        let mapping = unsafe { KernelMapping::new(hold, memory.cast(), len, direction)? };
        Self::of_mapping(handle, mapping, memory as u64, access)
    }

    /// Registers the pages of a mapped scatterlist, addressed from the offset in the first page on.
    ///
    /// # Safety
    ///
    /// `sgl` must be a list of `nents` entries, which stay mapped until the region is given back.
    unsafe fn of_list(
        dev: *mut bindings::mlx5_ulp_device,
        sgl: *mut bindings::scatterlist,
        nents: u32,
        bits: u32,
    ) -> Result<Arc<Self>> {
        let access = access(bits)?;
        // SAFETY: The caller passes an open handle.
        let handle = unsafe { handle(dev) };
        let hold = handle.pd()?.hold().clone();
        let mut range: bindings::mlx5_ulp_pages = pin_init::zeroed();
        let mut list = |pages: *mut u64, room: u32| {
            // SAFETY: The caller passes the list; there is `room` at `pages`.
            to_result(unsafe {
                bindings::mlx5_ulp_shim_sg_pages(sgl, nents, pages, room, &mut range)
            })?;
            Ok::<_, Error>((range.count, range.offset, range.length))
        };
        let (count, offset, length) = list(core::ptr::null_mut(), 0)?;
        let mut pages = table::of_defaults::<u64>(count as usize)?;
        list(pages.as_mut_ptr(), count)?;
        let mapping = KernelMapping::of_pages(hold, pages, offset as usize, length as usize);
        Self::of_mapping(handle, mapping, offset, access)
    }

    /// Registers what is mapped, with this address as that of its first byte.
    fn of_mapping(
        handle: &Handle,
        mapping: KernelMapping,
        address: u64,
        access: Access,
    ) -> Result<Arc<Self>> {
        let key = MemoryKey::remote(handle.pd()?, mapping, address, access)?;
        let device = handle.device().clone();
        let region = Arc::pin_init(
            pin_init!(Self {
                number: key.key(),
                address,
                reachable: AtomicI32::new(0),
                key <- new_mutex!(Some(key), "mlx5_ulp_region"),
                device,
            }),
            GFP_KERNEL,
        )?;
        region.device.enroll(region.clone())?;
        Ok(region)
    }
}

impl Member for Region {
    fn removal_notice(&self) {
        // The handle of the device tells the consumer.
    }

    fn shutdown(&self) {
        // The lock is held until the key is useless: whoever else shuts down waits for that.
        let mut key = self.key.lock();
        if let Some(Err(e)) = key.take().map(MemoryKey::destroy) {
            self.reachable.store(e.to_errno(), Relaxed);
        }
    }
}

declared!(
    mlx5_ulp_region_create,
    mlx5_ulp_region_create_sg,
    mlx5_ulp_region_address,
    mlx5_ulp_region_destroy,
    mlx5_ulp_region_key,
);

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle; `memory` must stay allocated until the region is destroyed.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_create(
    dev: *mut bindings::mlx5_ulp_device,
    memory: *mut c_void,
    length: usize,
    access: c_uint,
) -> *mut bindings::mlx5_ulp_region {
    // SAFETY: Guaranteed by the caller.
    let region = unsafe { Region::new(dev, memory, length, access) };
    pointer_result(region.map(|region| Arc::into_raw(region).cast_mut().cast()))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle; `sgl` a list of `nents` entries that stay mapped until the region is destroyed.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_create_sg(
    dev: *mut bindings::mlx5_ulp_device,
    sgl: *mut bindings::scatterlist,
    nents: c_uint,
    access: c_uint,
) -> *mut bindings::mlx5_ulp_region {
    // SAFETY: Guaranteed by the caller.
    let region = unsafe { Region::of_list(dev, sgl, nents, access) };
    pointer_result(region.map(|region| Arc::into_raw(region).cast_mut().cast()))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_address(region: *const bindings::mlx5_ulp_region) -> u64 {
    // SAFETY: A region is the pointer of an `Arc<Region>`, alive by the caller's word.
    unsafe { (*region.cast::<Region>()).address }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet; it is not used after.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_destroy(region: *mut bindings::mlx5_ulp_region) -> c_int {
    // SAFETY: The pointer came from `Arc::into_raw` above, and the caller gives it back.
    let region = unsafe { Arc::from_raw(region.cast::<Region>().cast_const()) };
    region.device.dismiss(region.clone());
    // `dismiss` has had the lock, or waited for who had it.
    region.reachable.load(Relaxed)
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_key(region: *const bindings::mlx5_ulp_region) -> u32 {
    // SAFETY: A region is the pointer of an `Arc<Region>`, alive by the caller's word.
    unsafe { (*region.cast::<Region>()).number }
}
