// SPDX-License-Identifier: GPL-2.0

//! Direct access to ConnectX send queues for in-kernel consumers.

use kernel::prelude::*;

module! {
    type: Mlx5Ulp,
    name: "mlx5_ulp",
    authors: ["The mlx5_ulp authors"],
    description: "Direct RDMA send queues on ConnectX devices",
    license: "GPL",
}

struct Mlx5Ulp;

impl kernel::Module for Mlx5Ulp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
