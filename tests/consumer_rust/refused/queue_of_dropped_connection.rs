// SPDX-License-Identifier: GPL-2.0

//! Refused by E0505: a queue is used whose connection is gone.
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

pub(crate) fn flush(conn: Conn) {
    let queue = conn.queue();
    #[cfg(refused)]
    drop(conn);
    queue.flush();
}
