// SPDX-License-Identifier: GPL-2.0

//! Where a queue pair's packets go.

use kernel::prelude::*;

/// Largest payload of one packet; the number is that of the IB specification (`IB_MTU_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// The one of that many bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none.
    pub(crate) fn from_bytes(bytes: u32) -> Result<Self> {
        Ok(match bytes {
            256 => Self::B256,
            512 => Self::B512,
            1024 => Self::B1024,
            2048 => Self::B2048,
            4096 => Self::B4096,
            _ => return Err(EINVAL),
        })
    }

    /// The one with that number (`IB_MTU_*`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none.
    pub(crate) fn from_code(code: u32) -> Result<Self> {
        match code {
            1..=5 => Self::from_bytes(128 << code),
            _ => Err(EINVAL),
        }
    }
}

/// The network's part of the address of the peer, on RoCE v2: UDP over IP, between two entries of GID tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Index of our own address in the port's GID table, 8 bits.
    pub(crate) gid_index: u8,
    /// The peer's GID: its IPv6 address, or its IPv4 address mapped into one.
    pub(crate) remote_gid: [u8; 16],
    /// MAC address of the peer, or of the router on the way.
    pub(crate) remote_mac: [u8; 6],
    /// IP traffic class; its upper 6 bits are the DSCP.
    pub(crate) traffic_class: u8,
    /// IP hop limit (TTL).
    pub(crate) hop_limit: u8,
    /// IPv6 flow label, 20 bits, from which the UDP source port comes; 0 to make one from the queue numbers.
    pub(crate) flow_label: u32,
    /// Priority of the frames (PCP), 0 to 7.
    pub(crate) priority: u8,
}

/// Everything that connects a reliable queue pair to its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The peer's queue pair number, 24 bits.
    pub(crate) remote_qpn: u32,
    /// First packet sequence number that we send, 24 bits.
    pub(crate) send_psn: u32,
    /// First packet sequence number that the peer sends, 24 bits.
    pub(crate) receive_psn: u32,
    /// Network address.
    pub(crate) route: Route,
    /// Payload of a packet; the same on both sides.
    pub(crate) mtu: Mtu,
    /// Time to wait for an acknowledgement: 4.096 us * 2^n, 1 to 31; 0 waits for ever.
    pub(crate) ack_timeout: u8,
    /// How often to send again after that time before giving up, 0 to 7.
    pub(crate) retry_count: u8,
    /// How often to try again when the peer had no receive posted, 0 to 6; 7 for ever.
    pub(crate) rnr_retry: u8,
    /// How long a peer is asked to wait when we have no receive posted, 0 to 31: code of
    /// the IB specification (12 stands for 0.64 ms).
    pub(crate) min_rnr_timer: u8,
    /// Reads and atomics we may have under way, 0 to 128, used as the next power of two.
    pub(crate) max_read_atomic: u8,
    /// Reads and atomics the peer may have under way at us.
    pub(crate) max_peer_read_atomic: u8,
}

impl Path {
    /// Tells whether all numbers are within their ranges.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not.
    pub(crate) fn check(&self) -> Result {
        let fits = |v: u32, bits: u32| v >> bits == 0;
        let ok = fits(self.route.flow_label, 20)
            && fits(self.route.priority.into(), 3)
            && fits(self.remote_qpn, 24)
            && fits(self.send_psn, 24)
            && fits(self.receive_psn, 24)
            && fits(self.ack_timeout.into(), 5)
            && fits(self.retry_count.into(), 3)
            && fits(self.rnr_retry.into(), 3)
            && fits(self.min_rnr_timer.into(), 5)
            && self.max_read_atomic <= 128
            && self.max_peer_read_atomic <= 128;
        ok.then_some(()).ok_or(EINVAL)
    }

    /// A UDP source port from the flow label, or else from the queue numbers, so that routers spread
    /// flows over their paths: `rdma_get_udp_sport()` of `<rdma/ib_verbs.h>`.
    pub(super) fn udp_source_port(&self, local_qpn: u32) -> u16 {
        let mut v = u64::from(local_qpn).wrapping_mul(u64::from(self.remote_qpn));
        v ^= v >> 20;
        v ^= v >> 40;
        let label = match self.route.flow_label {
            0 => (v & 0xf_ffff) as u32,
            label => label,
        };
        let folded = (label & 0x3fff) ^ (label & 0xf_c000) >> 14;
        folded as u16 | 0xc000
    }
}
