// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The function's virtual port: its addresses, its RoCE address table, its link.

use crate::caps::ROCE_ADDRESS_TABLE_SIZE;
use crate::config::{FunctionConfig, Kind};
use crate::field;
use crate::ifc;
use crate::io::Io;
use crate::wire::net::is_group;
use crate::wire::{Gid, Mac, Path, RoceVersion};

/// Largest frame after a reset: 1500 bytes of payload, Ethernet and VLAN header, FCS.
const DEFAULT_MTU: u16 = 1522;

/// The physical port as the function sees it.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// What the driver asked for with PAOS.
    pub admin_up: bool,
    /// Whether the cable is plugged in, so to say.
    pub cable: bool,
    /// Largest frame in bytes.
    pub mtu: u16,
}

impl Default for Port {
    fn default() -> Self {
        Self {
            admin_up: true,
            cable: true,
            mtu: DEFAULT_MTU,
        }
    }
}

impl Port {
    /// Whether frames pass.
    pub fn link_up(&self) -> bool {
        self.admin_up && self.cable
    }

    /// Whether a frame of so many bytes, without FCS, passes. A longer one is dropped, by the port that would send it
    /// and by one that gets it.
    pub fn carries(&self, len: usize) -> bool {
        len <= usize::from(self.mtu)
    }

    /// Plugs a cable in, or pulls it out; true if the link went up or down.
    pub fn plug(&mut self, cable: bool) -> bool {
        let before = self.link_up();
        self.cable = cable;
        self.link_up() != before
    }

    /// Takes what the driver asks for; true if the link went up or down. The state of the
    /// physical port is not a virtual function's to change.
    pub fn set_admin(&mut self, kind: Kind, up: bool) -> bool {
        let before = self.link_up();
        if kind == Kind::Pf {
            self.admin_up = up;
        }
        self.link_up() != before
    }
}

/// An entry of the RoCE address table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceAddress {
    /// The GID.
    pub gid: Gid,
    /// Ethernet address for it.
    pub mac: Mac,
    /// VLAN id, if the address is on one.
    pub vlan: Option<u16>,
    /// Version of the protocol.
    pub version: RoceVersion,
}

impl RoceAddress {
    /// Whether packets on a path are of the address's version of RoCE, and of its VLAN.
    pub fn is_on(&self, path: &Path) -> bool {
        // VLAN 0 is a priority without a VLAN (IEEE 802.1Q).
        let vlan = path.vlan.map_or(0, |tag| tag & 0xfff);
        self.version == path.version && self.vlan.unwrap_or(0) == vlan
    }
}

/// The RoCE address table: what QPs and address vectors name by index.
#[derive(Debug)]
pub struct RoceAddresses {
    entries: Vec<Option<RoceAddress>>,
}

impl Default for RoceAddresses {
    fn default() -> Self {
        Self {
            entries: vec![None; ROCE_ADDRESS_TABLE_SIZE as usize],
        }
    }
}

impl RoceAddresses {
    /// No addresses at all.
    pub const NONE: &'static Self = &Self {
        entries: Vec::new(),
    };

    /// The entry at an index.
    pub fn get(&self, index: u32) -> Option<&RoceAddress> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Whether an entry fulfils a condition.
    pub fn any(&self, condition: impl FnMut(&RoceAddress) -> bool) -> bool {
        self.entries.iter().flatten().any(condition)
    }

    /// Sets or clears an entry, and tells the switch. False if there is no such index.
    pub fn set(&mut self, io: &mut Io, index: u32, entry: Option<RoceAddress>) -> bool {
        match self.entries.get_mut(index as usize) {
            Some(slot) => {
                *slot = entry;
                let change = entry.map(|entry| (entry.gid, entry.mac));
                io.output.gids.push((index as u16, change));
                true
            }
            None => false,
        }
    }

    /// Clears the table.
    pub fn clear(&mut self, io: &mut Io) {
        for index in 0..ROCE_ADDRESS_TABLE_SIZE {
            if self.get(index).is_some() {
                self.set(io, index, None);
            }
        }
    }
}

/// Size of `nic_vport_context` without the address list, in bytes.
const CONTEXT: usize = 0x100;

/// The NIC vport context: addresses, MTU, filters of the netdev.
#[derive(Debug)]
pub struct NicVport {
    kind: Kind,
    /// The context without the address list.
    pub context: [u8; CONTEXT],
    /// Unicast addresses that the driver wants, besides the permanent one.
    pub unicast: Vec<Mac>,
    /// Multicast addresses that the driver wants.
    pub multicast: Vec<Mac>,
}

impl NicVport {
    /// The context after reset.
    pub fn new(config: &FunctionConfig) -> Self {
        let mut context = [0; CONTEXT];
        let guid = guid(config.mac);
        let mut set = |field, value| ifc::set64(&mut context, field, value);
        set(
            field!(mlx5_ifc_nic_vport_context_bits, mtu),
            DEFAULT_MTU.into(),
        );
        set(
            field!(mlx5_ifc_nic_vport_context_bits, system_image_guid),
            guid,
        );
        set(field!(mlx5_ifc_nic_vport_context_bits, port_guid), guid);
        set(field!(mlx5_ifc_nic_vport_context_bits, node_guid), guid);
        let permanent = field!(mlx5_ifc_nic_vport_context_bits, permanent_address);
        for (to, from) in context
            .iter_mut()
            .skip(permanent.byte_offset() + 2)
            .zip(config.mac)
        {
            *to = from;
        }
        Self {
            kind: config.kind,
            context,
            unicast: Vec::new(),
            multicast: Vec::new(),
        }
    }

    /// The permanent address.
    pub fn mac(&self) -> Mac {
        let field = field!(mlx5_ifc_nic_vport_context_bits, permanent_address);
        let address = ifc::copy::<8>(&self.context, field);
        let mut mac = [0; 6];
        mac.copy_from_slice(&address[2..]);
        mac
    }

    /// Whether the function speaks RoCE (`roce_en`). If not, it has raw Ethernet queue pairs alone (`enable_roce` in
    /// the kernel's `Documentation/networking/devlink/mlx5.rst`): its other queue pairs have no address that packets
    /// come from or go to, and a frame with one in it is a frame like any other.
    pub fn speaks_roce(&self) -> bool {
        ifc::flag(
            &self.context,
            field!(mlx5_ifc_nic_vport_context_bits, roce_en),
        )
    }

    /// Whether a frame to this address is for the function, from whomever.
    ///
    /// Before a physical function stands the switch of physical functions (MPFS), whose table is filled with addresses
    /// of one each: groups are in none, and pass (`mlx5e_execute_l2_action` in `en_fs.c`). It is left to the flow
    /// tables which of them somebody wants. Before a virtual function stands the eswitch, whose manager makes a rule for
    /// each group in the list of the virtual port, and so for no other (`esw_add_mc_addr` in `eswitch.c`); broadcast
    /// is one of them (`mlx5e_fill_addr_array` in `en_fs.c`).
    pub fn is_for(&self, dmac: Mac) -> bool {
        match (is_group(&dmac), self.kind) {
            (true, Kind::Pf) => true,
            (true, Kind::Vf) => self.multicast.contains(&dmac),
            (false, _) => dmac == self.mac() || self.unicast.contains(&dmac),
        }
    }

    /// Whether a frame to this address comes in.
    pub fn accepts(&self, dmac: Mac) -> bool {
        let flag = |field| ifc::flag(&self.context, field);
        let promiscuous = match is_group(&dmac) {
            true => flag(field!(mlx5_ifc_nic_vport_context_bits, promisc_mc)),
            false => flag(field!(mlx5_ifc_nic_vport_context_bits, promisc_uc)),
        };
        let all = flag(field!(mlx5_ifc_nic_vport_context_bits, promisc_all));
        all || promiscuous || self.is_for(dmac)
    }
}

/// The EUI-64 of an Ethernet address.
fn guid(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_physical_function_moves_the_port() {
        let mut port = Port::default();
        assert!(!port.set_admin(Kind::Vf, false));
        assert!(port.link_up());
        assert!(port.set_admin(Kind::Pf, false));
        assert!(!port.set_admin(Kind::Pf, false));
        assert!(port.set_admin(Kind::Pf, true));
    }

    #[test]
    fn the_switch_hears_of_each_address() {
        let mut io = Io::new(None);
        let mut table = RoceAddresses::default();
        let entry = RoceAddress {
            gid: [1; 16],
            mac: [2; 6],
            vlan: None,
            version: RoceVersion::V2,
        };
        assert!(table.set(&mut io, 3, Some(entry)));
        assert!(!table.set(&mut io, ROCE_ADDRESS_TABLE_SIZE, Some(entry)));
        assert!(table.any(|own| own.gid == [1; 16]) && !table.any(|own| own.gid == [2; 16]));
        table.clear(&mut io);
        assert_eq!(table.get(3), None);
        assert_eq!(io.output.gids, [(3, Some(([1; 16], [2; 6]))), (3, None)]);
    }

    #[test]
    fn the_filter_knows_own_group_and_promiscuous() {
        const GROUP: Mac = [0x33, 0x33, 0, 0, 0, 1];
        const STRANGER: Mac = [2, 0, 0, 0, 0, 9];
        for kind in [Kind::Pf, Kind::Vf] {
            let config = FunctionConfig::new(0, kind);
            let mut vport = NicVport::new(&config);
            assert_eq!(vport.mac(), config.mac);
            assert!(vport.accepts(config.mac) && !vport.accepts(STRANGER));
            for group in [GROUP, [0xff; 6]] {
                assert_eq!(vport.accepts(group), kind == Kind::Pf);
                vport.multicast.push(group);
                assert!(vport.accepts(group) && vport.is_for(group));
            }
            let promisc = field!(mlx5_ifc_nic_vport_context_bits, promisc_all);
            ifc::set(&mut vport.context, promisc, 1);
            assert!(vport.accepts(STRANGER) && !vport.is_for(STRANGER));
        }
    }
}
