// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The pure code of the module, from the very files that the kernel builds.
//!
//! Unit tests stand in those files; property and model tests, which need a crate from outside, in `tests/`.
#![cfg_attr(not(test), no_std)]

#[path = "../../../rust/mlx5_ulp/be.rs"]
pub mod be;
#[path = "../../../rust/mlx5_ulp/wqe/mod.rs"]
pub mod wqe;

#[path = "../../../rust/mlx5_ulp/queue"]
pub mod queue {
    //! Send queue: the pure part.
    use super::wqe;
    pub mod credit;
    pub mod in_flight;
    pub mod ring;
    pub mod shape;
}

#[path = "../../../rust/mlx5_ulp/doorbell"]
pub mod doorbell {
    //! Doorbell: the pure part.
    use core::sync::atomic;
    pub mod blueflame;
    pub mod hold;
    pub mod pending;
    pub mod policy;
    pub mod sample;

    fn full_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }
}

#[path = "../../../rust/mlx5_ulp/cq"]
pub mod cq {
    //! Completion queue: the pure part.
    use super::be;
    pub mod compressed;
    pub mod cqe;
    pub mod moderation;
    pub mod syndrome;
}

#[path = "../../../rust/mlx5_ulp/qid"]
pub mod qid {
    //! Names of queues: the pure part.
    use super::observe::totals::Counter;
    use core::sync::atomic;
    pub mod cache;
    pub mod index;
    pub mod key;
    pub mod stats;
    pub mod table;
}

#[path = "../../../rust/mlx5_ulp/hw"]
pub mod hw {
    //! Firmware objects: the pure part.
    pub mod ifc;
}

#[path = "../../../rust/mlx5_ulp/observe"]
pub mod observe {
    //! Observability: the pure part.
    pub mod event_log;
    pub mod histogram;
    pub mod opcodes;
    pub mod totals;
    pub mod trace_filter;
}

#[path = "../../../rust/mlx5_ulp/params"]
pub mod params {
    //! Parameters: the pure part.
    pub mod compression;
    pub mod text;
}

#[path = "../../../rust/mlx5_ulp/pcie"]
pub mod pcie {
    //! PCI Express audit: the pure part.
    pub mod audit;
    pub mod registers;
}
