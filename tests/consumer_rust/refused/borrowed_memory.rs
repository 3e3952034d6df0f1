// SPDX-License-Identifier: GPL-2.0

//! Refused by E0277: a region is made over memory that somebody else owns.
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

pub(crate) fn register(device: &Arc<Device>, memory: KVec<u8>) -> Result {
    #[cfg(refused)]
    Region::new(device, &memory, Access::REMOTE_WRITE)?;
    #[cfg(not(refused))]
    Region::new(device, memory, Access::REMOTE_WRITE)?;
    Ok(())
}
