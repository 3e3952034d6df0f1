// SPDX-License-Identifier: GPL-2.0

//! Refused by E0133: peers are given all memory.
#![allow(unused)]

use kernel::{
    prelude::*,
    sync::Arc, //
};
use ulp::*;

#[path = "../../../rust/mlx5_ulp_api/mod.rs"]
mod ulp;
#[path = "../ulp_bindings.rs"]
mod ulp_bindings;

pub(crate) fn open_up(device: &Device) -> Result<u32> {
    #[cfg(refused)]
    let key = device.unsafe_global_key(Access::REMOTE_WRITE);
    #[cfg(not(refused))]
    // SAFETY: Never run.
    let key = unsafe { device.unsafe_global_key(Access::REMOTE_WRITE) };
    key
}
