// SPDX-License-Identifier: GPL-2.0 OR MIT

//! From a RoCE frame to the queue pairs that it is for.
//!
//! A packet reaches a queue pair through an address that the queue pair has: a connected one through that of its
//! context, the others through any of the table. GID, version of RoCE and VLAN must be those of the address (IBTA
//! 9.6.1, annex A17.4.5).

use super::context::{Attributes, Service};
use super::env::{self, Env};
use super::{answers, datagram, multicast, responder, Qp, Qps};
use crate::hca::Hca;
use crate::vport::RoceAddresses;
use crate::wire::{net, Packet, ParseError, Path};

/// The default partition, without the bit that tells full from limited members.
const PARTITION: u16 = 0x7fff;

/// A RoCE frame from the wire.
pub fn receive(hca: &mut Hca, frame: &[u8]) {
    let packet = match Packet::parse(frame) {
        Ok(packet) => packet,
        Err(error) => {
            if error != ParseError::NotRoce {
                log::debug!("dropped a packet: {error:?}");
            }
            hca.io.counters.frames_dropped += 1;
            return;
        }
    };
    let group = net::is_multicast(&packet.path.dst);
    // A group has an Ethernet address, which has to be for the port.
    let wanted = !group || hca.vport.accepts(packet.path.dst_mac);
    let consistent = group == net::is_group(&packet.path.dst_mac);
    let (qps, mut env) = env::split(hca);
    let mut taken = false;
    if wanted && consistent && packet.bth.pkey & PARTITION == PARTITION {
        for number in qps.destinations(&packet, group) {
            let qp = qps.table.get_mut(number);
            if qp.is_some_and(|qp| dispatch(qp, &mut env, &packet, group)) {
                taken = true;
                qps.schedule(number);
            }
        }
    }
    if !taken {
        // No such queue pair, or it does not listen: the peer's timer will tell it.
        env.io.counters.frames_dropped += 1;
    }
}

impl Qps {
    /// The local queue pairs that a packet may be for.
    fn destinations(&self, packet: &Packet<'_>, group: bool) -> Vec<u32> {
        match (packet.bth.dest_qp, self.gsi) {
            (multicast::MULTICAST_QPN, _) if group => self.groups.members(&packet.path.dst),
            _ if group => Vec::new(),
            (datagram::GSI_QPN, Some(gsi)) => vec![gsi],
            (number, _) => vec![number],
        }
    }
}

/// Does a packet on this path come to an address of the queue pair?
fn is_addressed(
    addresses: &RoceAddresses,
    attributes: &Attributes,
    path: &Path,
    group: bool,
) -> bool {
    if attributes.service.is_connected() {
        let own = addresses.get(attributes.path.src_index.into());
        return !group && own.is_some_and(|own| own.gid == path.dst && own.is_on(path));
    }
    addresses.any(|own| (group || own.gid == path.dst) && own.is_on(path))
}

/// Hands a packet to the side of the queue pair that it is for; false if it is for neither.
fn dispatch(qp: &mut Qp, env: &mut Env<'_>, packet: &Packet<'_>, group: bool) -> bool {
    if !qp.state.receives()
        || !is_addressed(env.addresses, &qp.attributes, &packet.path, group)
        || group && is_blocked_loopback(qp, env, packet)
    {
        return false;
    }
    let service = qp.attributes.service;
    if let (true, Some(deth)) = (service.is_datagram(), packet.ext.deth) {
        qp.stats.packets_received += 1;
        datagram::receive(qp, env, packet, deth);
        return true;
    }
    let from_peer = packet.path.src == qp.attributes.path.dst_gid;
    if !from_peer || !responder::speaks(service, packet.bth.opcode.transport) {
        return false;
    }
    qp.stats.packets_received += 1;
    match packet.bth.opcode.op.request() {
        Some(request) => responder::receive(qp, env, packet, request),
        None => answers::receive(qp, env, packet),
    }
    true
}

/// Is it a datagram to a group that the queue pair sent itself, and does not want back (`qpc.block_lb_mc`)?
fn is_blocked_loopback(qp: &Qp, env: &Env<'_>, packet: &Packet<'_>) -> bool {
    let own = datagram::source(&qp.attributes, qp.number);
    qp.attributes.service == Service::Ud
        && qp.attributes.block_group_loopback
        && packet.ext.deth.is_some_and(|deth| deth.src_qp == own)
        && env.addresses.any(|address| address.gid == packet.path.src)
}
