// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_fast_region`: memory that requests register.

use super::{
    declared,
    device::open_handle,
    held::{
        self,
        held,
        Place, //
    },
    int_result,
    pointer_result, //
};
use crate::fast_region::FastRegion;
use kernel::{
    error::{
        code::*,
        to_result, //
    },
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

held!(
    pub(crate) FastRegion,
    FAST_REGIONS,
    bindings::mlx5_ulp_fast_region,
    bindings::mlx5_ulp_shim_stale
);

declared!(
    mlx5_ulp_fast_region_create,
    mlx5_ulp_fast_region_destroy,
    mlx5_ulp_fast_region_map,
    mlx5_ulp_fast_region_key,
    mlx5_ulp_fast_region_address,
);

/// Borrows the region of a consumer, in any context.
///
/// # Safety
///
/// `region` must be one that [`mlx5_ulp_fast_region_create`] gave out and that is not destroyed during `'a`.
unsafe fn region<'a>(region: *const bindings::mlx5_ulp_fast_region) -> &'a FastRegion {
    // SAFETY: It is the address of a `FastRegion`, alive by the caller's word.
    unsafe { &*region.cast::<FastRegion>() }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_create(
    dev: *mut bindings::mlx5_ulp_device,
    max_pages: c_uint,
) -> *mut bindings::mlx5_ulp_fast_region {
    let create = || {
        let handle = open_handle(dev, c"mlx5_ulp_fast_region_create")?;
        let place = Place::new()?;
        let (pd, key) = handle.pd_and_key()?;
        let region = FastRegion::new(handle.device().clone(), pd, key, max_pages)?;
        Ok(place.give(region))
    };
    pointer_result(create())
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// None: the handle is looked up.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_destroy(
    region: *mut bindings::mlx5_ulp_fast_region,
) -> c_int {
    let region = held::take_back::<FastRegion>(region, c"mlx5_ulp_fast_region_destroy");
    int_result(region.and_then(FastRegion::give_back))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet, `sgl` a list of `nents` mapped entries.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_map(
    region: *mut bindings::mlx5_ulp_fast_region,
    sgl: *mut bindings::scatterlist,
    nents: c_uint,
) -> c_int {
    // SAFETY: Guaranteed by the caller.
    let region = unsafe { self::region(region) };
    int_result(
        region
            .map(|pages| {
                let mut range: bindings::mlx5_ulp_pages = pin_init::zeroed();
                // SAFETY: The list is the caller's; there is room for that many pages.
                to_result(unsafe {
                    bindings::mlx5_ulp_shim_sg_pages(
                        sgl,
                        nents,
                        pages.as_mut_ptr(),
                        pages.len() as u32,
                        &mut range,
                    )
                })?;
                if range.count > pages.len() as u32 {
                    return Err(EMSGSIZE);
                }
                Ok((range.count, range.offset, range.length))
            })
            .map(|_key| ()),
    )
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_key(
    region: *const bindings::mlx5_ulp_fast_region,
) -> u32 {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::region(region) }.key()
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_address(
    region: *const bindings::mlx5_ulp_fast_region,
) -> u64 {
    // SAFETY: Guaranteed by the caller.
    unsafe { self::region(region) }.address()
}
