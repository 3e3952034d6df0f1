// SPDX-License-Identifier: GPL-2.0

//! Connects queues of mlx5_ulp through rdma_cm: the functions of `<mlx5_ulp_cm.h>`, where they are
//! described.
//!
//! | file | what |
//! |---|---|
//! | [`ready`] | the steps of a queue, for an rdma_cm_id of the consumer or of ours |
//! | [`id`] | an rdma_cm_id of ours, and who destroys it when |
//! | [`conn`] | a connection: resolve, connect, disconnect, destroy |
//! | [`phase`] | how far a connection has come |
//! | [`event`] | what rdma_cm tells of it |
//! | [`listen`] | waiting for peers |
//!
//! # Locks
//!
//! rdma_cm calls its handlers under a mutex of the identifier, and takes that mutex in `rdma_connect()` and
//! in `rdma_destroy_id()`. So the lock that keeps an identifier ([`id::Id`]) is outside of it: handlers never
//! take it. What they share with callers is atomic, or behind a lock that is held for a copy only. The lock of
//! a listener's decisions is inside of the identifiers' mutexes; only its handler takes it.

use kernel::prelude::*;

mod conn;
mod event;
mod id;
mod listen;
mod phase;
mod ready;
mod ulp_bindings;
#[path = "../mlx5_ulp/work.rs"]
mod work;

use ulp_bindings as bindings;

module! {
    type: Cm,
    name: "mlx5_ulp_cm",
    authors: ["The mlx5_ulp authors"],
    description: "Connects queues of mlx5_ulp through rdma_cm",
    license: "GPL",
}

/// The loaded module: what it has made goes with the consumers that hold it.
struct Cm;

impl kernel::Module for Cm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

/// Checks that a function is what `<mlx5_ulp_cm.h>` declares under its name.
macro_rules! declared {
    ($($name:ident),* $(,)?) => {
        const _: () = {
            $(
                #[allow(clippy::overly_complex_bool_expr, clippy::nonminimal_bool)]
                let _ = if true { crate::bindings::$name } else { $name };
            )*
        };
    };
}
use declared;

/// What a function that returns an error number returns.
fn int_result(result: Result) -> kernel::ffi::c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// What a function that returns a handle returns: the pointer, or an `ERR_PTR()`.
fn pointer_result<T>(result: Result<*mut T>) -> *mut T {
    match result {
        Ok(handle) => handle,
        Err(e) => e.to_ptr(),
    }
}
