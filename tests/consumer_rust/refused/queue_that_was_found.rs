// SPDX-License-Identifier: GPL-2.0

//! Refused by E0521: a queue of somebody is kept.
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

pub(crate) fn flush(device: &Device) {
    let mut found: Option<QueueRef<'_>> = None;
    device.with_queue_qpn(1, |queue| {
        #[cfg(refused)]
        {
            found = Some(queue);
        }
        queue.flush();
    });
    if let Some(queue) = found {
        queue.flush();
    }
}
