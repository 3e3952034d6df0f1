// SPDX-License-Identifier: GPL-2.0

//! Moves a file from kernel memory of one device to kernel memory of another by RDMA WRITEs, and shows
//! that it arrived.
//!
//!     # cd /sys/kernel/debug/mlx5_ulp_demo
//!     # echo "src=mlx5_0 dst=mlx5_1 file=/boot/vmlinuz size=4096 depth=64" > run
//!     # cat run
//!
//! | option | meaning | if left out |
//! |---|---|---|
//! | `src`, `dst` | RDMA devices | |
//! | `file` | what to move | |
//! | `size` | bytes of one WRITE, 1 to 1 GiB | 4096 |
//! | `depth` | WRITEs in flight, 1 to 32768 | 64 |
//! | `src_gid`, `dst_gid` | index of the GID | the first of RoCE v2 |
//!
//! Writing an option line does the work; `run` then shows the result, one `name value` a line. A line
//! that cannot be used is refused with `EINVAL`, the reason is in the kernel log and in `run`.

use kernel::prelude::*;

mod control;
mod file;
mod options;
mod transfer;
#[path = "../mlx5_ulp_api/mod.rs"]
mod ulp;
mod ulp_bindings;

module! {
    type: Demo,
    name: "mlx5_ulp_demo",
    authors: ["The mlx5_ulp authors"],
    description: "Moves a file by RDMA WRITEs through mlx5_ulp",
    license: "GPL",
}

/// The loaded module.
struct Demo {
    _control: control::Control,
}

impl kernel::Module for Demo {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _control: control::Control::new()?,
        })
    }
}
