// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_region`: registered kernel memory.

use super::{
    access,
    declared,
    device::{
        open_handle,
        Handle, //
    },
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
        mapping::{
            Direction,
            KernelMapping, //
        },
        mkey::MemoryKey,
        pd::ProtectionDomain, //
    },
    table,
};
use core::sync::atomic::{
    AtomicI32,
    AtomicU32,
    Ordering::Relaxed, //
};
use kernel::{
    error::{
        code::*,
        to_result, //
    },
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

/// What a region has on the device.
enum Key {
    /// Not made yet.
    Wanted,
    /// By it the device reaches the memory.
    Made(MemoryKey),
    /// Shut down.
    Over,
}

/// A region of a consumer.
#[pin_data]
pub(super) struct Region {
    device: Arc<Device>,
    #[pin]
    key: Mutex<Key>,
    /// That of the key, once it is made.
    number: AtomicU32,
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
        handle: &Handle,
        memory: *mut c_void,
        len: usize,
        bits: u32,
    ) -> Result<Arc<Self>> {
        let access = access(bits)?;
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
        handle: &Handle,
        sgl: *mut bindings::scatterlist,
        nents: u32,
        bits: u32,
    ) -> Result<Arc<Self>> {
        let access = access(bits)?;
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
    ///
    /// Making the key is the last thing that may fail: an error tells the caller that the memory is his again, and
    /// that a key is gone cannot be promised. The device may refuse to destroy it.
    fn of_mapping(
        handle: &Handle,
        mapping: KernelMapping,
        address: u64,
        access: Access,
    ) -> Result<Arc<Self>> {
        let region = Arc::pin_init(
            pin_init!(Self {
                number: AtomicU32::new(0),
                address,
                reachable: AtomicI32::new(0),
                key <- new_mutex!(Key::Wanted, "mlx5_ulp_region"),
                device: handle.device().clone(),
            }),
            GFP_KERNEL,
        )?;
        region.device.enroll(region.clone())?;
        let made = handle
            .pd()
            .and_then(|pd| region.make_key(pd, mapping, access));
        if let Err(e) = made {
            region.device.dismiss(region.clone());
            return Err(e);
        }
        Ok(region)
    }

    /// Makes the key, unless it is shut down meanwhile.
    fn make_key(
        &self,
        pd: Arc<ProtectionDomain>,
        mapping: KernelMapping,
        access: Access,
    ) -> Result {
        // Held to the end: whoever shuts down waits, and destroys what was made.
        let mut key = self.key.lock();
        if let Key::Over = *key {
            return Err(ENODEV);
        }
        let made = MemoryKey::remote(pd, mapping, self.address, access)?;
        self.number.store(made.key(), Relaxed);
        *key = Key::Made(made);
        Ok(())
    }
}

impl Member for Region {
    fn removal_notice(&self) {
        // The handle of the device tells the consumer.
    }

    fn shutdown(&self) {
        // The lock is held until the key is useless: whoever else shuts down waits for that.
        let mut key = self.key.lock();
        if let Key::Made(made) = core::mem::replace(&mut *key, Key::Over) {
            if let Err(e) = made.destroy() {
                self.reachable.store(e.to_errno(), Relaxed);
            }
        }
    }
}

held!(
    pub(super) Region,
    REGIONS,
    bindings::mlx5_ulp_region,
    bindings::mlx5_ulp_shim_stale
);

declared!(
    mlx5_ulp_region_create,
    mlx5_ulp_region_create_sg,
    mlx5_ulp_region_address,
    mlx5_ulp_region_destroy,
    mlx5_ulp_region_key,
);

/// Makes a region on the handle `dev` of a consumer, for `call`, and gives it out.
fn create(
    dev: *const bindings::mlx5_ulp_device,
    call: &CStr,
    make: impl FnOnce(&Handle) -> Result<Arc<Region>>,
) -> *mut bindings::mlx5_ulp_region {
    pointer_result(open_handle(dev, call).and_then(|handle| {
        // As all that may fail, before the region.
        let place = Place::new()?;
        Ok(place.give(make(&handle)?))
    }))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `memory` must stay allocated until the region is destroyed.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_create(
    dev: *mut bindings::mlx5_ulp_device,
    memory: *mut c_void,
    length: usize,
    access: c_uint,
) -> *mut bindings::mlx5_ulp_region {
    create(dev, c"mlx5_ulp_region_create", |handle| {
        // SAFETY: Guaranteed by the caller.
        unsafe { Region::new(handle, memory, length, access) }
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `sgl` must be a list of `nents` entries that stay mapped until the region is destroyed.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_create_sg(
    dev: *mut bindings::mlx5_ulp_device,
    sgl: *mut bindings::scatterlist,
    nents: c_uint,
    access: c_uint,
) -> *mut bindings::mlx5_ulp_region {
    create(dev, c"mlx5_ulp_region_create_sg", |handle| {
        // SAFETY: Guaranteed by the caller.
        unsafe { Region::of_list(handle, sgl, nents, access) }
    })
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_address(region: *const bindings::mlx5_ulp_region) -> u64 {
    // SAFETY: A region is the address of a `Region`, alive by the caller's word.
    unsafe { (*region.cast::<Region>()).address }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_destroy(region: *mut bindings::mlx5_ulp_region) -> c_int {
    let region = held::take_back::<Region>(region, c"mlx5_ulp_region_destroy");
    int_result(region.and_then(|region| {
        region.device.dismiss(region.clone());
        // `dismiss` has had the lock, or waited for who had it.
        to_result(region.reachable.load(Relaxed))
    }))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_key(region: *const bindings::mlx5_ulp_region) -> u32 {
    // SAFETY: A region is the address of a `Region`, alive by the caller's word.
    unsafe { (*region.cast::<Region>()).number.load(Relaxed) }
}
