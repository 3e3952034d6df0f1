// SPDX-License-Identifier: GPL-2.0

//! How a queue of a disk gets connected with an export: by rdma_cm, or, with one in this kernel, by telling the
//! queues their addresses.
//!
//! What the rest relies on:
//!
//! * There is no new [`Link`] for a queue of a disk before the target's queue pair of the old one is destroyed: a
//!   flush and a retry need that, see [`dispatch`](crate::dispatch). [`serve`](crate::serve) refuses as long as
//!   it has an old one.
//! * A [`Peer`] is equal to one before only if the target still has the data.

use crate::{
    disk::{
        Control,
        Core, //
    },
    dispatch::{
        FLUSH_BYTES,
        RANGES, //
    },
    errno::{
        ecanceled,
        eproto,
        estale, //
    },
    export,
    greeting::{
        Guest,
        Peer, //
    },
    probe::probe,
    ulp::{
        Access,
        Completions,
        Device,
        Queue,
        QueueAttr,
        QueueRef, //
    },
    ulp_cm::{
        Address,
        Conn,
        Events,
        Route,
        ANSWER_DATA, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// For the address of a target, and again for the way to it, ms.
const RESOLVE_MS: u32 = 2000;

/// A queue that is connected with an export.
pub(crate) enum Link {
    /// By rdma_cm.
    Cm(Conn),
    /// With one in this kernel. Ours before the target's, so that what is in flight ends first.
    Here { queue: Queue, _target: Queue },
}

impl Link {
    /// The queue.
    #[inline]
    pub(crate) fn queue(&self) -> QueueRef<'_> {
        match self {
            Self::Cm(conn) => conn.queue().borrow(),
            Self::Here { queue, .. } => queue.borrow(),
        }
    }
}

/// Tells a disk that a connection of its has ended.
///
/// # Invariants
///
/// The disk is there as long as this.
struct Lost(NonNull<Core>);

// SAFETY: It is used as a `&Core`, and that is `Sync`.
unsafe impl Send for Lost {}
// SAFETY: As above.
unsafe impl Sync for Lost {}

impl Events for Lost {
    fn closed(&self, _why: Result) {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }.lost();
    }
}

impl Core {
    /// Connects a queue for each channel. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of the connector and of a READ through each queue; `ECANCELED` if that is given up, `EINTR` if the task is
    /// killed, `ETIMEDOUT` if requests have waited long enough; `ESTALE` if the channels do not find the same target.
    pub(crate) fn connect(&self, control: &Control) -> Result<(KVec<Link>, Peer)> {
        let device = control.device.as_ref().ok_or(ENODEV)?;
        let mut links = KVec::with_capacity(self.channels().len(), GFP_KERNEL)?;
        let mut found: Option<Peer> = None;
        for (index, channel) in (0u32..).zip(self.channels()) {
            // Most requests are one WRITE or READ. If there are more for once, the queue is full.
            let depth = 2 * self.settings.depth + self.channels().len() as u32 + 8;
            let attr = QueueAttr {
                max_sge: RANGES as u32,
                vector: index,
                completions: match channel.is_polled() {
                    true => Completions::Polled,
                    false => Completions::Softirq,
                },
                // WRITEs of 0 bytes: see `alive`. No memory has a key for more.
                access: Access::REMOTE_WRITE,
                ..QueueAttr::new(depth)
            };
            let guest = Guest {
                disk: self.number,
                index,
            };
            let timeout_ms = self.patience_ms(control).map_or(0, |ms| ms.max(1));
            // SAFETY: `Disk::drop` takes down all links.
            let (link, peer) =
                unsafe { connect(self, device, &control.target, attr, guest, timeout_ms)? };
            if found.is_some_and(|found| found != peer) {
                return Err(estale());
            }
            found = Some(peer);
            let scratch = control.scratch.as_ref().ok_or(ENODEV)?;
            let range = scratch.range(0, FLUSH_BYTES)?;
            probe(
                self.attempts(),
                link.queue(),
                range,
                peer.address,
                peer.rkey,
            )?;
            links.push(link, GFP_KERNEL)?;
        }
        // With the control lock, which whoever gives up takes after that if the device goes.
        if self.attempts().are_given_up() {
            return Err(ecanceled());
        }
        Ok((links, found.ok_or(EINVAL)?))
    }
}

/// Connects a queue made by `attr` with `target`: an IP address and a port, or the name of an export in this kernel.
/// An answer of rdma_cm is waited for `timeout_ms`, or if that is 0 as long as it asks. Sleeps.
///
/// # Errors
///
/// `ENOENT` if there is no such export, `ECONNREFUSED` if there is none at that address or it has not yet noticed
/// that an old connection is gone, `EPROTO` if something else answers there, `ECANCELED` if the disk is not wanted any
/// more, `EINTR` if the task is killed; those of making and connecting queues.
///
/// # Safety
///
/// `core` must outlive the link.
unsafe fn connect(
    core: &Core,
    device: &Arc<Device>,
    target: &CStr,
    attr: QueueAttr,
    guest: Guest,
    timeout_ms: u32,
) -> Result<(Link, Peer)> {
    let Some((address, port)) = target.to_str()?.rsplit_once(':') else {
        return connect_here(device, target, attr);
    };
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address = CString::try_from_fmt(fmt!("{address}"))?;
    let port = CString::try_from_fmt(fmt!("{port}"))?;
    // INVARIANT: The connection has it, and the caller guarantees that the disk outlives that.
    let lost = Arc::new(Lost(NonNull::from(core)), GFP_KERNEL)?;
    let destination = Address::parse(&address, &port)?;
    let route = Route::resolve(None, &destination, RESOLVE_MS, lost)?;
    let conn = route.with(Queue::new(device, attr)?);
    let mut answer = [0u8; ANSWER_DATA];
    let request = guest.encode();
    core.attempts()
        .wait(&conn, || conn.connect(&request, &mut answer, timeout_ms))?;
    Ok((Link::Cm(conn), Peer::decode(&answer).ok_or_else(eproto)?))
}

/// Connects with an export in this kernel.
///
/// # Errors
///
/// `ENOENT` if there is none with the name; those of making and connecting queues.
fn connect_here(device: &Arc<Device>, target: &CStr, attr: QueueAttr) -> Result<(Link, Peer)> {
    let export = export::find(target).ok_or(ENOENT)?;
    let queue = Queue::new(device, attr)?;
    let serving = export.serving_queue()?;
    queue.connect(&serving.address(None)?, None)?;
    serving.connect(&queue.address(None)?, None)?;
    Ok((
        Link::Here {
            queue,
            _target: serving,
        },
        export.peer(),
    ))
}

/// How a queue that serves is made.
pub(crate) const SERVING: QueueAttr = QueueAttr {
    access: Access::REMOTE_WRITE.and(Access::REMOTE_READ),
    ..QueueAttr::new(1)
};
