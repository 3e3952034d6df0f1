// SPDX-License-Identifier: GPL-2.0

//! `<mlx5_ulp_conn.h>` for consumers written in Rust: connections by rdma_cm, in the same words.
//!
//! A connection owns its queue, and a listener whoever decides, so what rdma_cm may still need is there until it has let go
//! of it. The consumer's crate has this as a module beside `ulp` and `ulp_bindings`, which `Kbuild.consumer` makes of both
//! headers when it is told `ulp_bindings_cm := y`; its module needs `mlx5_ulp_cm`.
//!
//! | file | what |
//! |---|---|
//! | [`address`] | an IP address and a port |
//! | [`conn`] | a connection: resolve, connect, disconnect |
//! | [`listen`] | waiting for peers |
//! | `handler.rs` | for who has an rdma_cm event handler of his own: a module by itself |
#![allow(dead_code, unused_imports)]

use crate::ulp_bindings as bindings;

mod address;
mod conn;
mod listen;

pub(crate) use address::Address;
pub(crate) use conn::{
    Conn,
    Events,
    Route,
    ANSWER_DATA,
    REQUEST_DATA, //
};
pub(crate) use listen::{
    Decide,
    Listener,
    Offer,
    Welcome, //
};
