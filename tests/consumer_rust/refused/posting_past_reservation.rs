// SPDX-License-Identifier: GPL-2.0

//! Refused by E0499: a reservation of an exclusive queue makes two posters.
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

pub(crate) fn post(queue: &mut Exclusive, request: &Arc<Request<Nobody>>) -> Result {
    let mut room = queue.reserve(1)?;
    #[cfg(refused)]
    let mut other = queue.poster();
    #[cfg(not(refused))]
    let mut other = room.beside();
    other.post_writes(request, &[])?;
    room.post::<Nobody>(&[])
}

pub(crate) struct Nobody;

impl Done for Nobody {
    fn done(_request: &Arc<Request<Self>>, _completion: Completion) {}
}
