// SPDX-License-Identifier: GPL-2.0

//! What consumers call: the functions of `<mlx5_ulp.h>`, where they are described.
//!
//! | file | handle |
//! |---|---|
//! | [`device`] | `struct mlx5_ulp_device`: a consumer's hold on a device |
//! | [`region`] | `struct mlx5_ulp_region`: registered memory |
//! | [`fast_region`] | `struct mlx5_ulp_fast_region`: memory that requests register |
//! | [`queue`] | `struct mlx5_ulp_queue`: create, connect, drain, destroy |
//! | [`find`] | queues by name and by number |
//! | [`post`] | posting, the only part that is on the data path |
//! | [`held`] | which handles there are |
//!
//! A handle is the address of what is behind it; the reference that belongs to the consumer is kept by [`held`], where
//! calls that may sleep look it up. The removal of a device leaves handles alive: their calls answer `ENODEV` until they
//! are destroyed.

mod device;
mod exported;
mod fast_region;
mod find;
pub(crate) mod held;
mod post;
mod queue;
mod region;

use crate::hw::access::{
    Access,
    RemoteAccess, //
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

use exported::{
    declared,
    int_result,
    pointer_result, //
};

/// Prepares for consumers.
///
/// # Safety
///
/// To be called once, when the module is loaded, before any function of the header is.
pub(crate) unsafe fn prepare() {
    // SAFETY: Once, by the caller's word, and first of all.
    unsafe {
        device::DEVICES.init();
        region::REGIONS.init();
        fast_region::FAST_REGIONS.init();
        queue::QUEUES.init();
    }
}

/// The rights of `enum mlx5_ulp_access`.
///
/// # Errors
///
/// `EINVAL` for bits that mean nothing.
pub(crate) fn access(bits: u32) -> Result<Access> {
    const WRITE: u32 = bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_WRITE;
    const READ: u32 = bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_READ;
    const ATOMIC: u32 = bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_REMOTE_ATOMIC;
    const LOCAL_WRITE: u32 = bindings::mlx5_ulp_access_MLX5_ULP_ACCESS_LOCAL_WRITE;
    if bits & !(WRITE | READ | ATOMIC | LOCAL_WRITE) != 0 {
        return Err(EINVAL);
    }
    let access = Access {
        local_write: bits & LOCAL_WRITE != 0,
        remote: RemoteAccess {
            read: bits & READ != 0,
            write: bits & WRITE != 0,
            atomic: bits & ATOMIC != 0,
        },
    };
    Ok(access.complete())
}
