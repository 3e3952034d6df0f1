// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The switch between the functions: which port a frame goes to.
//!
//! A RoCE frame goes to the function that has its destination GID in its table, under the frame's destination
//! address: nobody listens to another one. With one exception, for a guest that talks to a second function of its
//! own: Linux resolves an address of its own to the sending device, so a frame to an address of its sender is routed
//! by the GID alone, and gets the right address on the way. A frame to a RoCE group goes to all ports, the sender's
//! too: its adapter has to bring it to the local members of the group, and here the switch does that.
//!
//! Everything else is switched by Ethernet address, learned from the sources of frames, and never goes back to its
//! sender.

use super::net::{self, Gid, Mac};
use std::collections::{BTreeMap, HashMap};

/// Number of a port of the switch; one per function.
pub type PortId = u32;

/// Learned addresses beyond this number are not kept; frames to them are flooded.
const MAX_LEARNED: usize = 4096;

/// Where a frame goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// To one port, which may be the sender's own.
    Port(PortId),
    /// To every port but the sender's.
    Flood,
    /// To every port.
    Everywhere,
    /// To nobody: no function has the destination GID, or it is that of the sender.
    Drop,
}

#[derive(Debug, Default)]
struct Port {
    /// GID table by index, with the Ethernet address that the function uses for the entry.
    gids: HashMap<u16, (Gid, Mac)>,
}

/// Forwarding state.
#[derive(Debug, Default)]
pub struct Switch {
    ports: BTreeMap<PortId, Port>,
    learned: HashMap<Mac, PortId>,
}

impl Switch {
    /// Plugs a function in.
    pub fn attach(&mut self, port: PortId) {
        self.ports.insert(port, Port::default());
    }

    /// Unplugs a function; what was known about it is forgotten.
    pub fn detach(&mut self, port: PortId) {
        self.ports.remove(&port);
        self.learned.retain(|_, p| *p != port);
    }

    /// Sets or clears an entry of a function's GID table.
    pub fn set_gid(&mut self, port: PortId, index: u16, entry: Option<(Gid, Mac)>) {
        let Some(port) = self.ports.get_mut(&port) else {
            return;
        };
        match entry {
            Some(entry) => port.gids.insert(index, entry),
            None => port.gids.remove(&index),
        };
    }

    /// Ports in rising order.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + '_ {
        self.ports.keys().copied()
    }

    /// Decides where `frame` from port `from` goes, and sets its destination address if it is routed by GID.
    pub fn route(&mut self, from: PortId, frame: &mut [u8]) -> Route {
        let Some((dst, src)) = net::macs(frame) else {
            return Route::Drop;
        };
        if let Some(gid) = net::parse(frame).map(|parsed| parsed.path.dst) {
            return if net::is_multicast(&gid) {
                Route::Everywhere
            } else {
                self.route_gid(from, gid, dst, frame)
            };
        }
        if !net::is_group(&src)
            && (self.learned.len() < MAX_LEARNED || self.learned.contains_key(&src))
        {
            self.learned.insert(src, from);
        }
        match self.learned.get(&dst) {
            Some(port) if *port == from => Route::Drop,
            Some(port) => Route::Port(*port),
            None => Route::Flood,
        }
    }

    /// The function with this GID and this Ethernet address. If the latter is the sender's own, the lowest port with
    /// the GID.
    fn route_gid(&self, from: PortId, gid: Gid, dst: Mac, frame: &mut [u8]) -> Route {
        let mut chosen = None;
        for (port, state) in &self.ports {
            for (_, mac) in state.gids.values().filter(|(entry, _)| *entry == gid) {
                if *mac == dst {
                    return Route::Port(*port);
                }
                chosen = chosen.or(Some((*port, *mac)));
            }
        }
        let own = self
            .ports
            .get(&from)
            .is_some_and(|port| port.gids.values().any(|(_, mac)| *mac == dst));
        match chosen {
            Some((port, mac)) if own => {
                net::set_dst_mac(frame, mac);
                Route::Port(port)
            }
            _ => Route::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        net::map_ipv4, Bth, Extensions, Op, Opcode, PacketBuilder, Path, RoceVersion,
    };

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];
    const BROADCAST: Mac = [0xff; 6];

    fn frame(dst: Mac, src: Mac) -> Vec<u8> {
        let mut frame = [dst, src].concat();
        frame.extend([0x08, 0x06, 0, 1]);
        frame
    }

    fn roce(dst_mac: Mac, dst: Gid) -> Vec<u8> {
        let path = Path {
            version: RoceVersion::V2,
            dst_mac,
            src_mac: A,
            vlan: None,
            src: map_ipv4([10, 0, 0, 1]),
            dst,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 1,
            udp_src: 49152,
        };
        let bth = Bth {
            opcode: Opcode::rc(Op::SendOnly),
            solicited: false,
            pad: 0,
            pkey: 0xffff,
            dest_qp: 2,
            ack_req: true,
            psn: 0,
        };
        PacketBuilder::new(&path, bth, &Extensions::default(), 0).finish()
    }

    fn switch() -> Switch {
        let mut s = Switch::default();
        s.attach(1);
        s.attach(2);
        s.set_gid(1, 0, Some((map_ipv4([10, 0, 0, 1]), A)));
        s.set_gid(2, 3, Some((map_ipv4([10, 0, 0, 2]), B)));
        s
    }

    #[test]
    fn learns_addresses_and_floods_the_unknown() {
        let mut s = switch();
        assert_eq!(s.route(1, &mut frame(BROADCAST, A)), Route::Flood);
        assert_eq!(s.route(2, &mut frame(A, B)), Route::Port(1));
        assert_eq!(s.route(1, &mut frame(B, A)), Route::Port(2));
        assert_eq!(s.route(1, &mut frame(A, A)), Route::Drop, "to its sender");
        s.detach(2);
        assert_eq!(s.route(1, &mut frame(B, A)), Route::Flood);
    }

    #[test]
    fn a_wrong_address_reaches_nobody() {
        let mut s = switch();
        let gid = map_ipv4([10, 0, 0, 2]);
        assert_eq!(s.route(1, &mut roce(B, gid)), Route::Port(2));
        for wrong in [[0; 6], [2, 0, 0, 0, 0, 0xc], BROADCAST] {
            assert_eq!(s.route(1, &mut roce(wrong, gid)), Route::Drop, "{wrong:x?}");
        }
    }

    #[test]
    fn a_group_is_everywhere() {
        let mut s = switch();
        let mac = [1, 0, 0x5e, 0, 0, 1];
        let mut to_group = roce(mac, map_ipv4([239, 0, 0, 1]));
        assert_eq!(s.route(1, &mut to_group), Route::Everywhere);
        assert_eq!(to_group[..6], mac);
    }

    #[test]
    fn routes_by_gid_and_rewrites_the_address() {
        let mut s = switch();
        let mut f = roce(A, map_ipv4([10, 0, 0, 2]));
        assert_eq!(s.route(1, &mut f), Route::Port(2));
        assert_eq!(f[..6], B);
        let mut own = roce(A, map_ipv4([10, 0, 0, 1]));
        assert_eq!(s.route(1, &mut own), Route::Port(1));
        assert_eq!(
            s.route(1, &mut roce(A, map_ipv4([10, 0, 0, 3]))),
            Route::Drop
        );
        s.set_gid(2, 3, None);
        assert_eq!(
            s.route(1, &mut roce(A, map_ipv4([10, 0, 0, 2]))),
            Route::Drop
        );
    }

    #[test]
    fn ethernet_address_decides_between_equal_gids() {
        let mut s = switch();
        s.set_gid(1, 1, Some((map_ipv4([10, 0, 0, 9]), A)));
        s.set_gid(2, 1, Some((map_ipv4([10, 0, 0, 9]), B)));
        assert_eq!(
            s.route(1, &mut roce(B, map_ipv4([10, 0, 0, 9]))),
            Route::Port(2)
        );
        assert_eq!(
            s.route(2, &mut roce(A, map_ipv4([10, 0, 0, 9]))),
            Route::Port(1)
        );
    }

    #[test]
    fn runts_are_dropped() {
        assert_eq!(switch().route(1, &mut [0; 13]), Route::Drop);
    }
}
