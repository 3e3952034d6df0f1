// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a queue pair works with: everything of its function but the queue pairs.

use super::context::Attributes;
use crate::cq::{self, CqFailed, Cqs};
use crate::cqfmt::cqe::{Failure, Success, SIZE, TAIL};
use crate::eq::{AsyncEvent, EventQueues};
use crate::hca::{Hca, QCounters};
use crate::io::Io;
use crate::mkey::Mkeys;
use crate::srq::Srqs;
use crate::table::Table;
use crate::vport::{RoceAddress, RoceAddresses};
use crate::wire::{Gid, Mac, Path};
use crate::wqe::av::AddressVector;

use super::Qps;

/// Event types of a queue pair (`MLX5_EVENT_TYPE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum QpEvent {
    /// The first packet came in before the step to ready-to-send.
    Established = 0x02,
    /// The work queue cannot be used.
    Catastrophic = 0x05,
    /// The peer sent what this queue pair must not accept.
    InvalidRequest = 0x10,
    /// The peer accessed what it must not.
    AccessError = 0x11,
    /// No more receives of the shared queue will complete here.
    LastWqe = 0x13,
}

/// The rest of the function.
pub struct Env<'a> {
    pub io: &'a mut Io,
    pub eqs: &'a mut EventQueues,
    pub cqs: &'a mut Cqs,
    pub mkeys: &'a mut Mkeys,
    pub srqs: &'a mut Srqs,
    pub addresses: &'a RoceAddresses,
    pub q_counters: &'a mut Table<QCounters>,
    /// Are operands of atomics in memory in the host's byte order?
    pub host_order_atomics: bool,
}

/// Splits a function into its queue pairs and the rest.
pub fn split(hca: &mut Hca) -> (&mut Qps, Env<'_>) {
    let Hca {
        qps,
        io,
        eqs,
        cqs,
        mkeys,
        srqs,
        gids,
        vport,
        q_counters,
        caps,
        ..
    } = hca;
    let env = Env {
        io,
        eqs,
        cqs,
        mkeys,
        srqs,
        addresses: match vport.speaks_roce() {
            true => gids,
            false => RoceAddresses::NONE,
        },
        q_counters,
        host_order_atomics: caps.atomics_in_host_order(),
    };
    (qps, env)
}

impl Env<'_> {
    /// Raises an event of a queue pair.
    pub fn event(&mut self, qpn: u32, event: QpEvent) {
        self.io.event(qpn, "Async Event", event as u64);
        self.eqs
            .asynchronous(self.io, AsyncEvent::Queue(event as u8, 0, qpn));
    }

    /// Counts in the set of Q counters that a queue pair names.
    pub fn count(&mut self, set: u32, counter: fn(&mut QCounters) -> &mut u32) {
        if let Some(counters) = self.q_counters.get_mut(set) {
            let value = counter(counters);
            *value = value.wrapping_add(1);
        }
    }

    /// Writes the completion of a work request that was carried out.
    ///
    /// # Errors
    ///
    /// [`CqFailed`].
    pub fn succeed(&mut self, cqn: u32, success: &Success) -> Result<(), CqFailed> {
        self.io.event(
            success.tail.qpn,
            "CQE Write",
            success.tail.wqe_counter.into(),
        );
        let mut entry = success.encode();
        self.scramble(&mut entry, &[0x00..0x11, 0x12..0x14, 0x28..0x2c]);
        cq::post(self.cqs, self.eqs, self.io, cqn, entry)
    }

    /// Writes the completion of a work request that failed.
    ///
    /// # Errors
    ///
    /// [`CqFailed`].
    pub fn fail(&mut self, cqn: u32, failure: &Failure) -> Result<(), CqFailed> {
        self.io.event(
            failure.tail.qpn,
            "Error CQE Write",
            failure.syndrome.0.into(),
        );
        if !failure.syndrome.is_flush() {
            log::info!(
                "QP {:#x}: {} completes with {} ({:#x}, vendor {:#x})",
                failure.tail.qpn,
                failure.tail.wqe_counter,
                failure.syndrome.text(),
                failure.syndrome.0,
                failure.vendor_syndrome
            );
        }
        let mut entry = failure.encode();
        self.scramble(&mut entry, &[0x00..0x20, 0x24..0x36]);
        cq::post(self.cqs, self.eqs, self.io, cqn, entry)
    }

    /// Fills the reserved parts of an entry, as far as that was asked for.
    fn scramble(&mut self, entry: &mut [u8; SIZE], reserved: &[std::ops::Range<usize>]) {
        const { assert!(TAIL > 0x36) };
        let noise = self.io.blank::<SIZE>();
        for range in reserved {
            if let (Some(to), Some(from)) = (entry.get_mut(range.clone()), noise.get(range.clone()))
            {
                to.copy_from_slice(from);
            }
        }
    }

    /// The path of a connected queue pair; `None` while its source address is not in the table.
    pub fn path(&self, attributes: &Attributes) -> Option<Path> {
        let to = &attributes.path;
        let from = self.addresses.get(to.src_index.into())?;
        Some(Path {
            traffic_class: to.traffic_class,
            flow_label: to.flow_label,
            hop_limit: to.hop_limit,
            udp_src: to.udp_src,
            ..route(from, to.dst_mac, to.dst_gid, to.priority)
        })
    }

    /// The path of a datagram; `None` if its source address is not in the table.
    pub fn datagram_path(&self, to: &AddressVector) -> Option<Path> {
        let from = self.addresses.get(to.sgid_index.into())?;
        Some(Path {
            traffic_class: to.tclass,
            flow_label: to.flow_label,
            hop_limit: to.hop_limit,
            udp_src: to.rlid_or_sport,
            // RoCE: the service level is in bits 3:1.
            ..route(from, to.rmac, to.rgid, (to.stat_rate_sl >> 1) & 7)
        })
    }
}

fn route(from: &RoceAddress, dst_mac: Mac, dst: Gid, priority: u8) -> Path {
    Path {
        version: from.version,
        dst_mac,
        src_mac: from.mac,
        vlan: from
            .vlan
            .map(|id| (u16::from(priority) << 13) | (id & 0x0fff)),
        src: from.gid,
        dst,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 0,
        udp_src: 0,
    }
}
