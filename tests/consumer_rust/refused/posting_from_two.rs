// SPDX-License-Identifier: GPL-2.0

//! Refused by E0596: an exclusive queue has one poster.
#![allow(unused)]

use kernel::{
    prelude::*,
    sync::Arc, //
};
use ulp::*;
use ulp_cm::*;

#[path = "../../../rust/mlx5_ulp_api/mod.rs"]
mod ulp;
#[path = "../ulp_bindings.rs"]
mod ulp_bindings;
#[path = "../../../rust/mlx5_ulp_api/cm/mod.rs"]
mod ulp_cm;

pub(crate) fn drain(queue: &mut Exclusive) -> Result {
    let other = &*queue;
    #[cfg(refused)]
    other.drain()?;
    other.poll(1);
    queue.drain()
}
