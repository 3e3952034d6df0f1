// SPDX-License-Identifier: GPL-2.0

//! Connects queues of mlx5_ulp through rdma_cm: the functions of `<mlx5_ulp_cm.h>`, where they are
//! described.
//!
//! | file | what |
//! |---|---|
//! | [`ready`] | the steps of a queue, for an rdma_cm_id of the consumer or of ours |
//! | [`id`] | an rdma_cm_id of ours, and who destroys it when |
//! | [`conn`] | a connection: resolve, connect, disconnect, destroy |
//! | [`calls`] | the functions of the header about one |
//! | [`phase`] | how far a connection has come |
//! | [`event`] | what rdma_cm tells of it |
//! | [`wait`] | waiting for an answer, not for ever |
//! | [`listen`] | waiting for peers |
//! | [`held`] | which handles consumers have |
//!
//! # Locks
//!
//! rdma_cm calls its handlers under a mutex of the identifier, and takes that mutex in `rdma_connect()` and
//! in `rdma_destroy_id()`. So the lock that keeps an identifier ([`id::Id`]) is outside of it: handlers never
//! take it. What they share with callers is atomic, or behind a lock that is held for a copy only. The lock of
//! a listener's decisions is inside of the identifiers' mutexes; only its handler takes it.

use kernel::prelude::*;

mod calls;
mod conn;
#[path = "../mlx5_ulp/errno.rs"]
mod errno;
mod event;
#[path = "../mlx5_ulp/api/exported.rs"]
mod exported;
#[path = "../mlx5_ulp/api/held.rs"]
mod held;
mod id;
mod listen;
mod phase;
mod ready;
mod ulp_bindings;
mod wait;
#[path = "../mlx5_ulp/work.rs"]
mod work;

use exported::{
    declared,
    int_result,
    pointer_result, //
};
use ulp_bindings as bindings;

module! {
    type: Cm,
    name: "mlx5_ulp_cm",
    authors: ["The mlx5_ulp authors"],
    description: "Connects queues of mlx5_ulp through rdma_cm",
    license: "GPL",
}

/// The loaded module: what it has made goes with the consumers that hold it.
struct Cm {
    _workqueue: work::Workqueue,
}

impl kernel::Module for Cm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Once; nobody can call before this has returned.
        unsafe {
            conn::CONNECTIONS.init();
            listen::LISTENERS.init();
        }
        Ok(Self {
            _workqueue: work::Workqueue::new(c"mlx5_ulp_cm")?,
        })
    }
}
