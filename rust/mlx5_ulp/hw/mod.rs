// SPDX-License-Identifier: GPL-2.0

//! What the firmware gives us: one kind of object per file, created with mlx5_core's exported
//! functions and with commands, destroyed by `Drop` in the order the hardware needs.
//!
//! Every object keeps a [`Hold`](crate::device::Hold) of its device and references to what it
//! stands on (a queue pair to its completion queues, protection domain and doorbell
//! register), so none can be destroyed under another.
//!
//! # When an object cannot be destroyed
//!
//! Destroying is a command and commands can fail: the firmware may be stuck. As long as
//! mlx5_core has not declared the device dead, the hardware may then still read or write the
//! memory of that object. Such memory is given up on purpose (it is leaked, one line in the
//! log says so) and never goes back to the allocator. Once the device *is* declared dead,
//! mlx5_core answers destroy commands with success without asking it
//! (`mlx5_internal_err_ret_value()` in `drivers/net/ethernet/mellanox/mlx5/core/cmd.c`), and
//! memory is freed, as all mlx5 drivers do: DMA has been disabled with the function by then.
//! A command that the device died of has failed nevertheless, so it is given a second time
//! ([`cmd::destroy`], for objects of all kinds).
//!
//! A doorbell register has no memory of ours behind it: mlx5_core gives its page back, and says
//! so in the log when the firmware did not take it.

pub(crate) mod access;
pub(crate) mod barrier;
pub(crate) mod buffer;
pub(crate) mod caps;
pub(crate) mod cmd;
pub(crate) mod cq;
pub(crate) mod events;
pub(crate) mod gid;
// A pure file: also compiled on the host.
#[allow(unreachable_pub)]
pub(crate) mod ifc;
mod layout;
pub(crate) mod mapping;
pub(crate) mod mkey;
pub(crate) mod path;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod record;
pub(crate) mod uar;
