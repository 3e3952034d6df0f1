// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A software ConnectX.
//!
//! The crate models the PCI functions of a ConnectX adapter closely enough that the stock
//! `mlx5_core` and `mlx5_ib` drivers of a guest bind to them, bring up their netdev and RDMA
//! port, and move data. It is made of a core without threads or sockets and a shell around it:
//!
//! * [`hca::Hca`] is the whole state of one function. Register accesses, packets and the time go
//!   in by method calls; packets, interrupts and memory accesses come out. Everything a guest
//!   controls is untrusted. Tests and fuzz targets drive it directly.
//! * [`vfio`] serves a function to QEMU over vfio-user, [`worker`] runs its queues, [`fabric`]
//!   carries frames between functions, [`capture`] records them, [`control`] answers questions
//!   about them.
//! * [`faults`] are what goes wrong on purpose, asked for by rule or at once.

pub mod buffer;
pub mod caps;
pub mod capture;
pub mod cli;
pub mod cmd;
pub mod config;
pub mod control;
pub mod counters;
pub mod cq;
pub mod dma;
pub mod driver;
pub mod eq;
pub mod events;
pub mod fabric;
pub mod faults;
pub mod function;
pub mod fuzz;
pub mod hca;
pub mod ifc;
pub mod io;
pub mod iseg;
pub mod mkey;
pub mod net;
pub mod pages;
pub mod pci;
pub mod qp;
pub mod srq;
pub mod table;
pub mod timers;
pub mod timing;
pub mod uar;
pub mod vfio;
pub mod vport;
pub mod wire;
pub mod worker;

/// Big-endian field access, shared with the kernel module.
#[allow(dead_code)]
#[path = "../../../rust/mlx5_ulp/be.rs"]
pub mod be;

/// Formats of work queue entries, shared with the kernel module.
#[allow(dead_code)]
#[path = "../../../rust/mlx5_ulp/wqe/mod.rs"]
pub mod wqe;

/// Formats of completion queue entries, shared with the kernel module.
#[allow(dead_code)]
#[path = "../../../rust/mlx5_ulp/cq"]
pub mod cqfmt {
    use super::be;

    pub mod compressed;
    pub mod cqe;
    pub mod syndrome;
}
