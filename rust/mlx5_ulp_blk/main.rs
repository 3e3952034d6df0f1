// SPDX-License-Identifier: GPL-2.0

//! The memory of a peer as a disk: writes are RDMA WRITEs, reads are RDMA READs.
//!
//! | file | what |
//! |---|---|
//! | [`configfs`] | how disks and exports are set up |
//! | [`export`] | the target's half: memory that peers may read and write |
//! | [`serve`] | an export that waits for disks at a port |
//! | [`connector`] | how a queue of a disk gets connected with an export |
//! | [`attempt`] | ... and how that is given up |
//! | [`alive`] | whether the disk that it serves is still there |
//! | [`greeting`] | what the two tell each other then |
//! | [`disk`] | a disk, as its requests and its work see it |
//! | [`lifetime`] | how a disk comes and goes |
//! | [`state`] | whether it works |
//! | [`recovery`] | what happens when the peer is away |
//! | [`probe`] | whether a connection works |
//! | [`dispatch`] | from a request of the block layer to the send queue, and flush |
//! | [`io`] | a request of the block layer: mapped, in flight, ended |
//! | [`channel`] | what belongs to one hardware context |
//! | [`polling`] | hardware contexts without interrupts |
//! | [`mq`] | blk-mq's callbacks, and the calls about a request |
//! | [`gendisk`] | the block layer's side of a disk |
//!
//! # Why not `kernel::block::mq`
//!
//! That abstraction (kernels 7.2 and 7.3) gives a request without sector, operation and segments; for those
//! a shim would do. What no shim makes good:
//!
//! * a disk of it has no owner: `rmmod` takes the code away from under a disk that somebody has open;
//! * it has no limits beside block sizes: no write cache and so no flush and FUA, no number of segments;
//! * `commit_rqs` does not say for which hardware context, so it cannot ring the doorbell of its queue;
//! * a request can be ended well, but neither in error nor requeued;
//! * a request has no room for the driver's own, so each would need an allocation.
//!
//! So [`mq`] and [`gendisk`] call blk-mq by the kernel's bindings. All that is unsafe about that is there and in [`io`]; a
//! request in the driver's hands is a value, [`io::Io`], that is either ended or handed to a queue.

use core::sync::atomic;
use kernel::prelude::*;

mod alive;
mod attempt;
mod channel;
mod configfs;
mod connector;
mod disk;
mod dispatch;
#[path = "../mlx5_ulp/errno.rs"]
mod errno;
mod export;
mod gendisk;
mod greeting;
mod io;
mod lifetime;
mod mq;
mod polling;
mod probe;
mod recovery;
mod serve;
mod state;
#[path = "../mlx5_ulp_api/mod.rs"]
mod ulp;
mod ulp_bindings;
#[path = "../mlx5_ulp_api/cm/mod.rs"]
mod ulp_cm;
mod work;
#[path = "../mlx5_ulp/work.rs"]
mod work_item;

module! {
    type: Blk,
    name: "mlx5_ulp_blk",
    authors: ["The mlx5_ulp authors"],
    description: "The memory of a peer as a disk, by RDMA through mlx5_ulp",
    license: "GPL",
}

/// The loaded module.
#[pin_data]
struct Blk {
    #[pin]
    disks: kernel::configfs::Subsystem<configfs::Disks>,
    #[pin]
    exports: kernel::configfs::Subsystem<configfs::Exports>,
    // Behind everything that has work for it.
    workqueue: work_item::Workqueue,
}

impl kernel::InPlaceModule for Blk {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        export::init();
        try_pin_init!(Self {
            workqueue: work_item::Workqueue::new(c"mlx5_ulp_blk")?,
            disks <- configfs::disks(),
            exports <- configfs::exports(),
        })
    }
}
