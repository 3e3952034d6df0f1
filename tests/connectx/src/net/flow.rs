// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Flow steering on the receive side.
//!
//! A flow table is an array of entries; groups say which fields the entries of a range of it look
//! at. A frame starts in the root table; the first entry that matches decides: drop the frame, or
//! send it on to tables and TIRs. Without a match it goes to the table's miss table, if it has one.

use std::collections::BTreeMap;

use super::frame::{Addresses, Headers, TCP, UDP};
use crate::caps::{LOG_MAX_FLOW, LOG_MAX_FT};
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

/// log2 of the number of flow groups. No capability tells it: it is some for each table.
const LOG_MAX_GROUPS: u32 = 14;

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
    /// Entries of all tables.
    entries: usize,
}

impl Default for Steering {
    fn default() -> Self {
        Self {
            tables: Table::new("flow_table", 1, 1 << LOG_MAX_FT),
            groups: Table::new("flow_group", 1, 1 << LOG_MAX_GROUPS),
            root: None,
            entries: 0,
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
        vec![
            (self.tables.kind(), self.tables.len()),
            (self.groups.kind(), self.groups.len()),
            ("flow_table_entry", self.entries),
        ]
    }

    /// Sets an entry of a table, and returns the one that was there.
    ///
    /// # Errors
    ///
    /// When table or group do not exist, do not belong together, or the index is not the group's; `EXCEED_LIM` when
    /// there are as many entries as the capabilities say (`log_max_flow`).
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
        let entries = &mut self.tables.find_mut(table)?.entries;
        if self.entries >= 1 << LOG_MAX_FLOW && !entries.contains_key(&index) {
            return Err(CmdError::new(
                Status::ExceedLim,
                "number of flow table entries exhausted",
            ));
        }
        let old = entries.insert(index, entry);
        self.entries += usize::from(old.is_none());
        Ok(old)
    }

    /// Takes an entry out of a table.
    ///
    /// # Errors
    ///
    /// When there is no such table, or no such entry in it.
    pub fn remove_entry(&mut self, table: u32, index: u32) -> CmdResult<Entry> {
        let entry = self.tables.find_mut(table)?.entries.remove(&index);
        let entry = entry.ok_or(CmdError::new(Status::BadIndex, "no such flow table entry"))?;
        self.entries = self.entries.saturating_sub(1);
        Ok(entry)
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
mod tests;
