// SPDX-License-Identifier: GPL-2.0

//! Refused by E0133: a range is made of numbers, of whatever memory.
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

pub(crate) fn range(addr: u64, lkey: u32) -> Range<'static> {
    let raw = ulp_bindings::mlx5_ulp_sge {
        addr,
        length: 8,
        lkey,
    };
    #[cfg(refused)]
    let range = Range::from_raw(raw);
    #[cfg(not(refused))]
    // SAFETY: Never run.
    let range = unsafe { Range::from_raw(raw) };
    range
}
