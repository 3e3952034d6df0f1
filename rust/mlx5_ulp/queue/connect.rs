// SPDX-License-Identifier: GPL-2.0

//! How a queue comes to a peer, and leaves it.

use super::{
    credit::Handle,
    queue::{
        Hardware,
        Queue, //
    },
    send::State,
    verbs, //
};
use crate::{
    device::Hold,
    errno::eisconn,
    hw::{
        gid::LocalAddress,
        path::{
            Mtu,
            Path,
            Route, //
        }, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Hop limit of packets: that of the RDMA core for routed paths.
const HOP_LIMIT: u8 = 64;
/// Usual time until a packet is sent again, 4.096 us * 2^14 = 67 ms.
const ACK_TIMEOUT: u8 = 14;
/// Usual number of retries, the most that there are; for a missing receive it means for ever.
const RETRIES: u8 = 7;
/// 0.64 ms: how long a peer waits when we have no receive posted.
const MIN_RNR_TIMER: u8 = 12;
/// Usual number of READs and atomics under way, if the device has room for them.
const READS: u8 = 16;
/// Largest packet payload that every path takes without a look at the network device's MTU.
const MTU: Mtu = Mtu::B1024;

/// Where a queue can be reached.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    /// Its number.
    pub(crate) qpn: u32,
    /// First packet sequence number that it sends.
    pub(crate) psn: u32,
    /// GID and MAC of its port.
    pub(crate) local: LocalAddress,
    /// Packet payload, bytes.
    pub(crate) mtu: u16,
}

/// The peer, and how to reach it.
pub(crate) struct Peer {
    /// Its queue.
    pub(crate) qpn: u32,
    /// First packet sequence number that it sends.
    pub(crate) psn: u32,
    /// GID of its port.
    pub(crate) gid: [u8; 16],
    /// MAC of its port.
    pub(crate) mac: [u8; 6],
    /// Packet payload, bytes.
    pub(crate) mtu: u32,
    /// Index of our own GID, or the first of RoCE v2.
    pub(crate) gid_index: Option<u8>,
    /// See [`Path::ack_timeout`]; 0 for the usual one.
    pub(crate) ack_timeout: u8,
    /// See [`Path::retry_count`]; 0 for the usual one.
    pub(crate) retry_count: u8,
    /// See [`Path::rnr_retry`]; 0 for the usual one.
    pub(crate) rnr_retry: u8,
    /// IP traffic class.
    pub(crate) traffic_class: u8,
    /// READs and atomics under way there; 0 for the usual number.
    pub(crate) max_reads: u8,
    /// READs and atomics of the peer under way here; 0 for the usual number.
    pub(crate) max_peer_reads: u8,
}

impl Queue {
    /// Where a peer finds it. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such GID of RoCE v2, `ENODEV` once it is shut down.
    pub(crate) fn address(&self, gid_index: Option<u8>) -> Result<Address> {
        let hardware = self.hardware.lock();
        let hardware = hardware.as_ref().ok_or(ENODEV)?;
        Ok(Address {
            qpn: self.number(),
            psn: hardware.psn,
            local: local_address(&hardware.hold, gid_index)?,
            mtu: 128 << MTU as u16,
        })
    }

    /// Connects it and opens it for posts. Sleeps.
    ///
    /// # Errors
    ///
    /// `EISCONN` if it was connected before, `ENODEV` once it is shut down, `EINVAL` for values out of
    /// range, `ENOENT` if there is no such GID, those of the firmware.
    pub(crate) fn connect(&self, peer: &Peer) -> Result {
        let mut hardware = self.hardware.lock();
        let hardware = (*hardware).as_mut().ok_or(ENODEV)?;
        let or = |value, usual| if value == 0 { usual } else { value };
        let most = hardware.hold.caps().max_reads();
        let path = Path {
            remote_qpn: peer.qpn,
            send_psn: hardware.psn,
            receive_psn: peer.psn,
            route: Route {
                gid_index: local_address(&hardware.hold, peer.gid_index)?.index,
                remote_gid: peer.gid,
                remote_mac: peer.mac,
                traffic_class: peer.traffic_class,
                hop_limit: HOP_LIMIT,
                flow_label: 0,
                priority: 0,
            },
            mtu: Mtu::from_bytes(peer.mtu)?,
            ack_timeout: or(peer.ack_timeout, ACK_TIMEOUT),
            retry_count: or(peer.retry_count, RETRIES),
            rnr_retry: or(peer.rnr_retry, RETRIES),
            min_rnr_timer: MIN_RNR_TIMER,
            max_read_atomic: or(peer.max_reads, READS.min(most)),
            max_peer_read_atomic: or(peer.max_peer_reads, READS.min(most)),
        };
        if path.max_read_atomic > most || path.max_peer_read_atomic > most {
            return Err(EINVAL);
        }
        self.join(hardware, &path)
    }

    /// Connects it as the attributes of the verbs interface say, and opens it for posts. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`Queue::connect`]; `EINVAL` if an attribute is missing, or is not for this device.
    ///
    /// # Safety
    ///
    /// The GID attribute of `attr` must be null or valid.
    pub(crate) unsafe fn connect_verbs(&self, attr: &bindings::ib_qp_attr, mask: u32) -> Result {
        let mut hardware = self.hardware.lock();
        let hardware = (*hardware).as_mut().ok_or(ENODEV)?;
        // SAFETY: Guaranteed by the caller.
        let path = unsafe { verbs::path(&hardware.hold, attr, mask)? };
        self.join(hardware, &path)
    }

    /// Makes the queue pair ready and opens the queue for posts.
    fn join(&self, hardware: &mut Hardware, path: &Path) -> Result {
        if self.send().state() != State::Unconnected {
            return Err(eisconn());
        }
        hardware.qp.to_ready_to_receive(path)?;
        hardware.qp.to_ready_to_send(path)?;
        self.arm(hardware);
        self.send().open();
        Ok(())
    }

    /// Arms it for the first time, if that was not done: who takes what it tells of arms it from then on.
    fn arm(&self, hardware: &mut Hardware) {
        if !self.polled && !core::mem::replace(&mut hardware.armed, true) {
            hardware.cq.arm(0, false);
        }
    }

    /// Ends the connection on our side: takes no more posts, and has the device flush everything that is in
    /// flight. It cannot be connected again. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` once it is shut down; those of the firmware: what is in flight ends when the queue is
    /// given back, then.
    pub(crate) fn disconnect(&self) -> Result {
        let mut hardware = self.hardware.lock();
        let hardware = (*hardware).as_mut().ok_or(ENODEV)?;
        // Receives are flushed also of a queue that was not connected, or failed before it was.
        self.arm(hardware);
        // First, so that what is posted from here on is refused, and not flushed.
        self.send().stop();
        if !self.send().is_dead() {
            hardware.qp.to_error()?;
        }
        if self.send().handle() == Handle::Shared {
            // Requests that were posted silently and carried out are heard of by what is flushed behind
            // them.
            self.send().report_all_later();
        }
        Ok(())
    }
}

/// The entry at `index`, or the first.
fn local_address(hold: &Hold, index: Option<u8>) -> Result<LocalAddress> {
    match index {
        Some(index) => LocalAddress::at(hold, index),
        None => LocalAddress::first(hold),
    }
}
