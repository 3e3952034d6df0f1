// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_region`: registered kernel memory.

use super::{
    access,
    declared,
    device::handle,
    pointer_result, //
};
use crate::{
    device::{
        Device,
        Member, //
    },
    hw::{
        mapping::{
            Direction,
            KernelMapping, //
        },
        mkey::MemoryKey, //
    },
};
use kernel::{
    ffi::{
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
        let pd = handle.pd()?;
        let hold = pd.hold().clone();
        let direction = if access.writes() {
            Direction::Bidirectional
        } else {
            Direction::ToDevice
        };
        // SAFETY: Guaranteed by the caller.
        let mapping = unsafe { KernelMapping::new(hold, memory.cast(), len, direction)? };
        let key = MemoryKey::remote(pd, mapping, memory as u64, access)?;
        let device = handle.device().clone();
        let region = Arc::pin_init(
            pin_init!(Self {
                number: key.key(),
                key <- new_mutex!(Some(key), "mlx5_ulp_region"),
                device,
            }),
            GFP_KERNEL,
        )?;
        if let Err(e) = region.device.enroll(region.clone()) {
            region.shutdown();
            return Err(e);
        }
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
        *key = None;
    }
}

declared!(
    mlx5_ulp_region_create,
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
/// `region` must be a region that is not destroyed yet; it is not used after.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_region_destroy(region: *mut bindings::mlx5_ulp_region) {
    // SAFETY: The pointer came from `Arc::into_raw` above, and the caller gives it back.
    let region = unsafe { Arc::from_raw(region.cast::<Region>().cast_const()) };
    let member: Arc<dyn Member> = region.clone();
    region.device.leave(&member);
    region.shutdown();
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
