// SPDX-License-Identifier: GPL-2.0

//! Refused by E0505: a range is posted of a region that is gone.
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

pub(crate) fn post(
    queue: QueueRef<'_>,
    request: &Arc<Request<Nobody>>,
    region: Region<KVec<u8>>,
) -> Result {
    let local = region.range(0, 8)?;
    #[cfg(refused)]
    drop(region);
    let write = Write {
        local: local.into(),
        remote_addr: 0,
        rkey: 0,
        flags: Flags::NONE,
    };
    queue.post_write(request, write)
}

pub(crate) struct Nobody;

impl Done for Nobody {
    fn done(_request: &Arc<Request<Self>>, _completion: Completion) {}
}
