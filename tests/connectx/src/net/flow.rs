// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Flow steering on the receive side.
//!
//! A flow table is an array of entries; groups say which fields the entries of a range of it look
//! at. A frame starts in the root table; the first entry that matches decides: drop the frame, or
//! send it on to tables and TIRs. Without a match it goes to the table's miss table, if it has one.

use std::collections::BTreeMap;

use super::frame::{Addresses, Headers, TCP, UDP};
use crate::cmd::{bad_param, CmdError, CmdResult, Status};
use crate::field;
use crate::ifc::{self, Field};
use crate::table::Table;

/// Bytes of `fte_match_param`.
pub const MATCH_LEN: usize = 0x200;

/// `flow_context.action` (`MLX5_FLOW_CONTEXT_ACTION_*`).
const ACTION_DROP: u32 = 2;
const ACTION_FORWARD: u32 = 4;

macro_rules! outer {
    ($name:ident) => {
        field!(mlx5_ifc_fte_match_set_lyr_2_4_bits, $name)
    };
}

/// Fields that groups may look at: those that [`match_param`] fills, and the tag of an outer VLAN, which no frame has
/// here. The addresses are longer than a number.
const MATCHED: &[Field] = &[
    outer!(smac_47_16),
    outer!(smac_15_0),
    outer!(dmac_47_16),
    outer!(dmac_15_0),
    outer!(ethertype),
    outer!(cvlan_tag),
    outer!(svlan_tag),
    outer!(first_vid),
    outer!(ip_protocol),
    outer!(ip_version),
    outer!(frag),
    outer!(l4_type),
    outer!(tcp_sport),
    outer!(tcp_dport),
    outer!(udp_sport),
    outer!(udp_dport),
];

/// Does the mask of a group name nothing but fields that the device looks at?
pub fn is_known(mask: &[u8; MATCH_LEN]) -> bool {
    let mut rest = *mask;
    for field in MATCHED {
        ifc::set64(&mut rest, *field, 0);
    }
    for field in [outer!(src_ipv4_src_ipv6), outer!(dst_ipv4_dst_ipv6)] {
        for byte in rest.iter_mut().skip(field.byte_offset()).take(16) {
            *byte = 0;
        }
    }
    rest == [0; MATCH_LEN]
}

/// Tables that a frame may pass: more means a loop.
const MAX_STEPS: usize = 128;

/// Where an entry sends a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Another flow table.
    Table(u32),
    /// A TIR.
    Tir(u32),
}

/// A flow table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The group whose criteria apply.
    pub group: u32,
    /// `MLX5_FLOW_CONTEXT_ACTION_*`.
    pub action: u32,
    /// Values of the fields that the group looks at.
    pub value: Box<[u8; MATCH_LEN]>,
    /// Where the frame goes.
    pub destinations: Vec<Destination>,
}

/// A flow group.
#[derive(Debug)]
pub struct Group {
    /// Its table.
    pub table: u32,
    /// First and last index of the entries.
    pub range: (u32, u32),
    /// Mask of the fields that its entries look at.
    pub mask: Box<[u8; MATCH_LEN]>,
}

/// A flow table.
#[derive(Debug)]
pub struct FlowTable {
    /// Number of entries, a power of two.
    pub log_size: u32,
    /// Frames go on to tables of higher levels alone, so that they do not go round.
    pub level: u32,
    /// Where frames go that match nothing.
    pub miss: Option<u32>,
    /// Entries by index.
    pub entries: BTreeMap<u32, Entry>,
}

/// All flow tables of a function.
#[derive(Debug)]
pub struct Steering {
    /// Tables by id.
    pub tables: Table<FlowTable>,
    /// Groups by id.
    pub groups: Table<Group>,
    /// The first table on the receive side.
    pub root: Option<u32>,
}

impl Default for Steering {
    fn default() -> Self {
        Self {
            tables: Table::new("flow_table", 1, 1 << 10),
            groups: Table::new("flow_group", 1, 1 << 16),
            root: None,
        }
    }
}

/// The fields of a frame in the layout that masks and values have.
fn match_param(headers: &Headers) -> [u8; MATCH_LEN] {
    let mut param = [0; MATCH_LEN];
    let mut set = |field, value: u64| ifc::set64(&mut param, field, value);
    let mac = |mac: [u8; 6]| mac.iter().fold(0, |v, b| (v << 8) | u64::from(*b));
    set(outer!(smac_47_16), mac(headers.smac) >> 16);
    set(outer!(smac_15_0), mac(headers.smac) & 0xffff);
    set(outer!(dmac_47_16), mac(headers.dmac) >> 16);
    set(outer!(dmac_15_0), mac(headers.dmac) & 0xffff);
    set(outer!(ethertype), headers.ethertype.into());
    if let Some(vlan) = headers.vlan {
        set(outer!(cvlan_tag), 1);
        set(outer!(first_vid), vlan.into());
    }
    if let Some(ip) = headers.ip {
        set(outer!(ip_protocol), ip.protocol.into());
        set(outer!(frag), ip.fragment.into());
        let ports = headers.ports.unwrap_or((0, 0));
        match ip.protocol {
            TCP if headers.ports.is_some() => {
                set(outer!(l4_type), 1);
                set(outer!(tcp_sport), ports.0.into());
                set(outer!(tcp_dport), ports.1.into());
            }
            UDP if headers.ports.is_some() => {
                set(outer!(l4_type), 2);
                set(outer!(udp_sport), ports.0.into());
                set(outer!(udp_dport), ports.1.into());
            }
            _ => {}
        }
        let version = match ip.addresses {
            Addresses::V4(..) => 4,
            Addresses::V6(..) => 6,
        };
        set(outer!(ip_version), version);
        let source = outer!(src_ipv4_src_ipv6).byte_offset();
        let destination = outer!(dst_ipv4_dst_ipv6).byte_offset();
        // An IPv4 address stands in the last four bytes of the room for an IPv6 address.
        let (s, d, skip) = match &ip.addresses {
            Addresses::V4(s, d) => (s.as_slice(), d.as_slice(), 12),
            Addresses::V6(s, d) => (s.as_slice(), d.as_slice(), 0),
        };
        for (at, address) in [(source + skip, s), (destination + skip, d)] {
            for (to, from) in param.iter_mut().skip(at).zip(address) {
                *to = *from;
            }
        }
    }
    param
}

impl Steering {
    /// Live objects of each kind.
    pub fn objects(&self) -> Vec<(&'static str, usize)> {
        let entries = self
            .tables
            .iter()
            .map(|(_, table)| table.entries.len())
            .sum();
        vec![
            (self.tables.kind(), self.tables.len()),
            (self.groups.kind(), self.groups.len()),
            ("flow_table_entry", entries),
        ]
    }

    /// Sets an entry of a table, and returns the one that was there.
    ///
    /// # Errors
    ///
    /// When table or group do not exist, do not belong together, or the index is not the group's.
    pub fn set_entry(&mut self, table: u32, index: u32, entry: Entry) -> CmdResult<Option<Entry>> {
        let group = self.groups.find(entry.group)?;
        let (first, last) = group.range;
        if group.table != table {
            return bad_param("flow group of another table");
        }
        if !(first..=last).contains(&index) {
            return Err(CmdError::new(
                Status::BadIndex,
                "index outside of the flow group",
            ));
        }
        Ok(self.tables.find_mut(table)?.entries.insert(index, entry))
    }

    /// The TIRs that a frame reaches.
    pub fn steer(&self, headers: &Headers) -> Vec<u32> {
        let param = match_param(headers);
        let mut tirs = Vec::new();
        let mut waiting: Vec<u32> = self.root.into_iter().collect();
        for _ in 0..MAX_STEPS {
            let Some(table) = waiting.pop() else {
                return tirs;
            };
            let Some(table) = self.tables.get(table) else {
                continue;
            };
            let hit = table
                .entries
                .values()
                .find(|entry| self.matches(entry, &param));
            match hit {
                Some(entry) if entry.action & ACTION_DROP != 0 => {}
                Some(entry) if entry.action & ACTION_FORWARD != 0 => {
                    for destination in &entry.destinations {
                        match destination {
                            Destination::Table(id) => waiting.push(*id),
                            Destination::Tir(tir) => tirs.push(*tir),
                        }
                    }
                }
                Some(_) => {}
                None => waiting.extend(table.miss),
            }
        }
        log::warn!("flow tables form a loop");
        tirs
    }

    fn matches(&self, entry: &Entry, param: &[u8; MATCH_LEN]) -> bool {
        self.groups.get(entry.group).is_some_and(|group| {
            let fields = group.mask.iter().zip(entry.value.iter()).zip(param);
            fields
                .into_iter()
                .all(|((mask, value), param)| (value ^ param) & mask == 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(dmac: [u8; 6]) -> Headers {
        let mut frame = [dmac, [2, 0, 0, 0, 0, 9]].concat();
        frame.extend([8, 6]);
        Headers::parse(&frame).unwrap()
    }

    fn table(steering: &mut Steering, miss: Option<u32>) -> u32 {
        let table = FlowTable {
            log_size: 4,
            level: 0,
            miss,
            entries: BTreeMap::new(),
        };
        steering.tables.insert(table).unwrap()
    }

    fn group(steering: &mut Steering, table: u32, dmac: bool) -> u32 {
        let mut mask = Box::new([0; MATCH_LEN]);
        if dmac {
            let field = field!(mlx5_ifc_fte_match_set_lyr_2_4_bits, dmac_47_16);
            ifc::set(&mut mask[..], field, u32::MAX);
        }
        let group = Group {
            table,
            range: (0, 15),
            mask,
        };
        steering.groups.insert(group).unwrap()
    }

    fn entry(group: u32, dmac: [u8; 6], action: u32, to: Destination) -> Entry {
        Entry {
            group,
            action,
            value: Box::new(match_param(&headers(dmac))),
            destinations: vec![to],
        }
    }

    #[test]
    fn the_first_match_decides_and_a_miss_goes_on() {
        let mut s = Steering::default();
        let last = table(&mut s, None);
        let first = table(&mut s, Some(last));
        let by_mac = group(&mut s, first, true);
        let any = group(&mut s, last, false);
        let a = [2, 0, 0, 0, 0, 1];
        let b = [6, 0, 0, 0, 0, 1];
        let c = [10, 0, 0, 0, 0, 1];
        s.set_entry(first, 0, entry(by_mac, a, 4, Destination::Tir(7)))
            .unwrap();
        s.set_entry(first, 1, entry(by_mac, b, 2, Destination::Tir(7)))
            .unwrap();
        s.set_entry(last, 0, entry(any, a, 4, Destination::Tir(8)))
            .unwrap();
        assert!(s.steer(&headers(a)).is_empty());
        s.root = Some(first);
        assert_eq!(s.steer(&headers(a)), [7]);
        assert!(s.steer(&headers(b)).is_empty());
        assert_eq!(s.steer(&headers(c)), [8]);
    }

    #[test]
    fn what_a_frame_is_matched_by_is_known_and_nothing_else() {
        let mut frame = [[2; 6], [4; 6]].concat();
        frame.extend([0x81, 0, 0, 5, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 9, UDP]);
        frame.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 0, 8, 0, 0]);
        let param = match_param(&Headers::parse(&frame).unwrap());
        assert!(is_known(&param) && is_known(&[0; MATCH_LEN]));
        let unknown = (0..MATCH_LEN * 8).filter(|bit| {
            let mut mask = [0; MATCH_LEN];
            mask[bit / 8] = 0x80 >> (bit % 8);
            !is_known(&mask)
        });
        // Sizes in bits: MACs, types, tags and VLAN id, protocol, version, fragment, ports; addresses.
        let known = 2 * 48 + 16 + 1 + 1 + 12 + 8 + 4 + 1 + 2 + 4 * 16 + 2 * 128;
        assert_eq!(unknown.count(), MATCH_LEN * 8 - known);
    }

    #[test]
    fn a_loop_ends() {
        let mut s = Steering::default();
        let t = table(&mut s, None);
        let any = group(&mut s, t, false);
        s.set_entry(t, 0, entry(any, [2; 6], 4, Destination::Table(t)))
            .unwrap();
        s.root = Some(t);
        assert!(s.steer(&headers([2; 6])).is_empty());
    }

    #[test]
    fn entries_belong_to_their_group() {
        let mut s = Steering::default();
        let (t, u) = (table(&mut s, None), table(&mut s, None));
        let g = group(&mut s, t, false);
        let e = entry(g, [2; 6], 4, Destination::Tir(1));
        assert!(s.set_entry(u, 0, e.clone()).is_err());
        assert!(s.set_entry(t, 16, e.clone()).is_err());
        assert!(s.set_entry(t, 15, e).unwrap().is_none());
    }
}
