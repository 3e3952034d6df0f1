// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_fast_region`: memory that requests register.

use super::{
    declared,
    device::handle,
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
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

declared!(
    mlx5_ulp_fast_region_create,
    mlx5_ulp_fast_region_destroy,
    mlx5_ulp_fast_region_map,
    mlx5_ulp_fast_region_key,
    mlx5_ulp_fast_region_address,
);

/// Borrows the region of a consumer.
///
/// # Safety
///
/// `region` must be one that [`mlx5_ulp_fast_region_create`] gave out and that is not destroyed during `'a`.
unsafe fn region<'a>(region: *const bindings::mlx5_ulp_fast_region) -> &'a FastRegion {
    // SAFETY: It is the pointer of an `Arc<FastRegion>`, alive by the caller's word.
    unsafe { &*region.cast::<FastRegion>() }
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `dev` must be an open handle.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_create(
    dev: *mut bindings::mlx5_ulp_device,
    max_pages: c_uint,
) -> *mut bindings::mlx5_ulp_fast_region {
    // SAFETY: Guaranteed by the caller.
    let handle = unsafe { handle(dev) };
    let made = handle
        .pd_and_key()
        .and_then(|(pd, key)| FastRegion::new(handle.device().clone(), pd, key, max_pages));
    pointer_result(made.map(|region| Arc::into_raw(region).cast_mut().cast()))
}

/// See `<mlx5_ulp.h>`.
///
/// # Safety
///
/// `region` must be a region that is not destroyed yet; it is not used after.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_fast_region_destroy(
    region: *mut bindings::mlx5_ulp_fast_region,
) -> c_int {
    // SAFETY: The pointer came from `Arc::into_raw` above, and the caller gives it back.
    let region = unsafe { Arc::from_raw(region.cast::<FastRegion>().cast_const()) };
    int_result(region.give_back())
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
