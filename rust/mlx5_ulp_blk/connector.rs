// SPDX-License-Identifier: GPL-2.0

//! How a queue of a disk gets connected with an export.
//!
//! Now: both halves are in this kernel, and the addresses of the queues are exchanged by function call.
//!
//! What the rest relies on:
//!
//! * When a [`Link`] is gone, so is the target's queue pair: a flush and a retry need that, see
//!   [`dispatch`](crate::dispatch).
//! * A [`Peer`] is equal to one before only if the target still has the data.

use crate::{
    export,
    ulp::{
        Access,
        Device,
        Queue,
        QueueAttr,
        QueueRef, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a target tells about its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its first byte.
    pub(crate) address: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// The key.
    pub(crate) rkey: u32,
    /// A random number, chosen when the memory was made.
    pub(crate) incarnation: u64,
}

/// A queue that is connected with an export.
pub(crate) struct Link {
    // Before the target's: what is in flight ends first.
    queue: Queue,
    _target: Queue,
}

impl Link {
    /// The queue.
    #[inline]
    pub(crate) fn queue(&self) -> QueueRef<'_> {
        self.queue.borrow()
    }
}

/// Connects a queue made by `attr` with the export that is named `target`. Sleeps.
///
/// # Errors
///
/// `ENOENT` if there is no such export; those of making and connecting queues.
pub(crate) fn connect(
    device: &Arc<Device>,
    target: &CStr,
    attr: QueueAttr,
) -> Result<(Link, Peer)> {
    let export = export::find(target).ok_or(ENOENT)?;
    let queue = Queue::new(device, attr)?;
    let serving = Queue::new(
        export.device(),
        QueueAttr {
            depth: 1,
            max_sge: 1,
            access: Access::REMOTE_WRITE.and(Access::REMOTE_READ),
            ..attr
        },
    )?;
    queue.connect(&serving.address(None)?, None)?;
    serving.connect(&queue.address(None)?, None)?;
    Ok((
        Link {
            queue,
            _target: serving,
        },
        export.peer(),
    ))
}
