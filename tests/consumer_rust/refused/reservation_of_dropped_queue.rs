// SPDX-License-Identifier: GPL-2.0

//! Refused by E0505: a reservation is used of a queue that is gone.
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

pub(crate) fn reserve(queue: Queue) -> Result<u32> {
    let reservation = queue.reserve(1)?;
    #[cfg(refused)]
    drop(queue);
    Ok(reservation.left())
}
