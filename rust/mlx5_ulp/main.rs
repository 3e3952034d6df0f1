// SPDX-License-Identifier: GPL-2.0

//! Direct access to ConnectX send queues for in-kernel consumers.
//!
//! Work flows one way: a consumer calls `api`, a request is encoded into the send
//! queue (`queue`, `wqe`), the device is told (`doorbell`), and the completion comes
//! back through `cq`. Beside that road stand the firmware objects (`hw`), the names of
//! queues (`qid`) and what lets a human watch (`observe`). [`device`] ties them to the life of an RDMA device.

use kernel::prelude::*;

use api::held;

mod api;
#[allow(dead_code, unreachable_pub)]
mod be;
mod clock;
mod codegen;
mod cq;
mod device;
mod doorbell;
mod errno;
mod fast_region;
mod hw;
mod irq;
mod observe;
mod params;
mod pcie;
mod qid;
mod queue;
mod sync;
mod table;
mod work;
#[allow(dead_code, unreachable_pub)]
mod wqe;

module! {
    type: Mlx5Ulp,
    name: "mlx5_ulp",
    authors: ["The mlx5_ulp authors"],
    description: "Direct RDMA send queues on ConnectX devices",
    license: "GPL",
    alias: ["rdma-ulp-mlx5"],
}

/// The loaded module.
struct Mlx5Ulp {
    /// Detaches from every device when dropped.
    _client: device::client::Registration,
    // Behind everything that has work for it.
    _workqueue: work::Workqueue,
}

impl kernel::Module for Mlx5Ulp {
    fn init(module: &'static ThisModule) -> Result<Self> {
        sync::prepare()?;
        // SAFETY: Once; nobody can call before this has returned.
        unsafe { api::prepare() };
        let workqueue = work::Workqueue::new(c"mlx5_ulp")?;
        Ok(Self {
            _client: device::client::Registration::new(module)?,
            _workqueue: workqueue,
        })
    }
}
