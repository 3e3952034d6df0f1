// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of flow tables, flow groups and their entries.

use std::collections::BTreeMap;

use super::{bad_param, op_mod, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::caps::LOG_MAX_FT_SIZE;
use crate::hca::Hca;
use crate::ifc::{self, Field};
use crate::net::flow::{is_known, Destination, Entry, FlowTable, Group, MATCH_LEN};
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    command!(
        0x92f,
        "SET_FLOW_TABLE_ROOT",
        mlx5_ifc_set_flow_table_root_in_bits,
        8,
        set_root
    ),
    command!(
        0x930,
        "CREATE_FLOW_TABLE",
        mlx5_ifc_create_flow_table_in_bits,
        0x10,
        create_table
    ),
    command!(
        0x931,
        "DESTROY_FLOW_TABLE",
        mlx5_ifc_destroy_flow_table_in_bits,
        8,
        destroy_table
    ),
    command!(
        0x933,
        "CREATE_FLOW_GROUP",
        mlx5_ifc_create_flow_group_in_bits,
        0x10,
        create_group
    ),
    command!(
        0x934,
        "DESTROY_FLOW_GROUP",
        mlx5_ifc_destroy_flow_group_in_bits,
        8,
        destroy_group
    ),
    command!(
        0x936,
        "SET_FLOW_TABLE_ENTRY",
        mlx5_ifc_set_fte_in_bits,
        8,
        set_entry
    ),
    command!(
        0x938,
        "DELETE_FLOW_TABLE_ENTRY",
        mlx5_ifc_delete_fte_in_bits,
        8,
        delete_entry
    ),
    command!(
        0x93c,
        "MODIFY_FLOW_TABLE",
        mlx5_ifc_modify_flow_table_in_bits,
        8,
        modify_table
    ),
];

/// The table type of the receive side, the only one there is (`FS_FT_NIC_RX`).
const NIC_RX: u32 = 0;
/// Miss action that forwards to `table_miss_id`.
const MISS_FORWARD: u32 = 1;
/// Destination types (`MLX5_FLOW_DESTINATION_TYPE_*` as firmware numbers them).
const DEST_FLOW_TABLE: u32 = 1;
const DEST_TIR: u32 = 2;
/// Actions that entries may have: allow, drop, forward.
const ACTIONS: u32 = 1 | 2 | 4;
/// Most destinations of an entry.
const MAX_DESTINATIONS: usize = 16;

fn own_receive_side(input: Input<'_>, other_vport: Field, table_type: Field) -> CmdResult {
    if input.flag(other_vport) {
        return bad_param("another vport");
    }
    if input.get(table_type) != NIC_RX {
        return bad_param("unknown type of flow table");
    }
    Ok(())
}

macro_rules! check_side {
    ($input:ident, $structure:ident) => {
        own_receive_side(
            $input,
            field!($structure, other_vport),
            field!($structure, table_type),
        )?
    };
}

/// A table that one of this level may send frames on to.
fn check_next(hca: &Hca, level: u32, id: u32) -> CmdResult {
    if hca.net.steering.tables.find(id)?.level <= level {
        return bad_param("flow table of no higher level");
    }
    Ok(())
}

/// Where the misses of a table of this level go, by the context that starts at `context`.
fn miss(hca: &Hca, input: Input<'_>, context: Field, level: u32) -> CmdResult<Option<u32>> {
    let at = context.byte_offset();
    let get = |field: Field| input.get(field.shifted(at));
    let action = get(field!(mlx5_ifc_flow_table_context_bits, table_miss_action));
    if action != MISS_FORWARD {
        return Ok(None);
    }
    let id = get(field!(mlx5_ifc_flow_table_context_bits, table_miss_id));
    check_next(hca, level, id)?;
    Ok(Some(id))
}

fn create_table(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_create_flow_table_in_bits);
    let log_size = field!(
        mlx5_ifc_create_flow_table_in_bits,
        flow_table_context.log_size
    );
    let log_size = input.get(log_size);
    if log_size > LOG_MAX_FT_SIZE {
        return Err(CmdError::new(Status::BadSize, "flow table is too large"));
    }
    let context = field!(mlx5_ifc_create_flow_table_in_bits, flow_table_context);
    let level = field!(mlx5_ifc_create_flow_table_in_bits, flow_table_context.level);
    let level = input.get(level);
    let table = FlowTable {
        log_size,
        level,
        miss: miss(hca, input, context, level)?,
        entries: BTreeMap::new(),
    };
    let id = hca.net.steering.tables.insert(table)?;
    let mut set = |field, value| out.set(field, value);
    set(
        field!(mlx5_ifc_create_flow_table_out_bits, icm_address_63_40),
        0,
    );
    set(
        field!(mlx5_ifc_create_flow_table_out_bits, icm_address_39_32),
        0,
    );
    set(
        field!(mlx5_ifc_create_flow_table_out_bits, icm_address_31_0),
        0,
    );
    set(field!(mlx5_ifc_create_flow_table_out_bits, table_id), id);
    Ok(())
}

fn modify_table(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_modify_flow_table_in_bits);
    let select = field!(mlx5_ifc_modify_flow_table_in_bits, modify_field_select);
    // Bit 0: the miss table.
    if input.get(select) != 1 {
        return bad_param("unknown field of a flow table");
    }
    let context = field!(mlx5_ifc_modify_flow_table_in_bits, flow_table_context);
    let id = input.get(field!(mlx5_ifc_modify_flow_table_in_bits, table_id));
    let level = hca.net.steering.tables.find(id)?.level;
    let miss = miss(hca, input, context, level)?;
    hca.net.steering.tables.find_mut(id)?.miss = miss;
    Ok(())
}

fn destroy_table(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_destroy_flow_table_in_bits);
    let id = input.get(field!(mlx5_ifc_destroy_flow_table_in_bits, table_id));
    hca.net.steering.tables.remove(id)?;
    if hca.net.steering.root == Some(id) {
        hca.net.steering.root = None;
    }
    Ok(())
}

fn set_root(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_set_flow_table_root_in_bits);
    match op_mod(input) {
        0 => {}
        // Disconnect.
        1 => {
            hca.net.steering.root = None;
            return Ok(());
        }
        _ => return bad_param("unknown operation on the root"),
    }
    let id = input.get(field!(mlx5_ifc_set_flow_table_root_in_bits, table_id));
    hca.net.steering.tables.find(id)?;
    hca.net.steering.root = Some(id);
    Ok(())
}

fn create_group(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_create_flow_group_in_bits);
    let table = input.get(field!(mlx5_ifc_create_flow_group_in_bits, table_id));
    let first = input.get(field!(mlx5_ifc_create_flow_group_in_bits, start_flow_index));
    let last = input.get(field!(mlx5_ifc_create_flow_group_in_bits, end_flow_index));
    let log_size = hca.net.steering.tables.find(table)?.log_size;
    if first > last || last >> log_size != 0 {
        return Err(CmdError::new(
            Status::BadIndex,
            "flow group outside of its table",
        ));
    }
    let groups = hca.net.steering.groups.iter();
    let overlap = groups
        .filter(|(_, group)| group.table == table)
        .any(|(_, group)| group.range.0 <= last && first <= group.range.1);
    if overlap {
        return Err(CmdError::new(Status::BadIndex, "flow groups overlap"));
    }
    let mask = field!(mlx5_ifc_create_flow_group_in_bits, match_criteria);
    let mask = Box::new(input.copy::<MATCH_LEN>(mask));
    if !is_known(&mask) {
        return bad_param("flow group by fields that are not offered");
    }
    let id = hca.net.steering.groups.insert(Group {
        table,
        range: (first, last),
        mask,
    })?;
    hca.net.steering.tables.hold(table)?;
    out.set(field!(mlx5_ifc_create_flow_group_out_bits, group_id), id);
    Ok(())
}

fn destroy_group(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_destroy_flow_group_in_bits);
    let id = input.get(field!(mlx5_ifc_destroy_flow_group_in_bits, group_id));
    let group = hca.net.steering.groups.remove(id)?;
    hca.net.steering.tables.release(group.table);
    Ok(())
}

/// Destinations of an entry of a table of this level; each exists.
fn destinations(hca: &Hca, input: Input<'_>, level: u32) -> CmdResult<Vec<Destination>> {
    let count = field!(mlx5_ifc_set_fte_in_bits, flow_context.destination_list_size);
    let count = input.get(count) as usize;
    if count > MAX_DESTINATIONS {
        return Err(CmdError::new(Status::BadSize, "too many destinations"));
    }
    let list = input.tail(field!(mlx5_ifc_set_fte_in_bits, flow_context.destination));
    let size = size!(mlx5_ifc_dest_format_struct_bits);
    if list.len() / size < count {
        return Err(CmdError::new(
            Status::BadInputLen,
            "destination list is too short",
        ));
    }
    let mut destinations = Vec::with_capacity(count);
    for raw in list.chunks_exact(size).take(count) {
        let id = ifc::get(
            raw,
            field!(mlx5_ifc_dest_format_struct_bits, destination_id),
        );
        let kind = field!(mlx5_ifc_dest_format_struct_bits, destination_type);
        destinations.push(match ifc::get(raw, kind) {
            DEST_FLOW_TABLE => {
                check_next(hca, level, id)?;
                Destination::Table(id)
            }
            DEST_TIR => {
                hca.net.tirs.find(id)?;
                Destination::Tir(id)
            }
            _ => return bad_param("unknown type of destination"),
        });
    }
    Ok(destinations)
}

fn set_entry(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_set_fte_in_bits);
    let table = input.get(field!(mlx5_ifc_set_fte_in_bits, table_id));
    let index = input.get(field!(mlx5_ifc_set_fte_in_bits, flow_index));
    let modify = match op_mod(input) {
        0 => false,
        1 => true,
        _ => return bad_param("unknown operation on a flow table entry"),
    };
    if input.flag(field!(mlx5_ifc_set_fte_in_bits, ignore_flow_level)) {
        return bad_param("levels of flow tables count");
    }
    let found = hca.net.steering.tables.find(table)?;
    let level = found.level;
    if found.entries.contains_key(&index) != modify {
        return Err(CmdError::new(
            Status::BadIndex,
            "flow table entry is in use, or is not",
        ));
    }
    let action = input.get(field!(mlx5_ifc_set_fte_in_bits, flow_context.action));
    if action & !ACTIONS != 0 {
        return bad_param("unknown action of a flow table entry");
    }
    let value = field!(mlx5_ifc_set_fte_in_bits, flow_context.match_value);
    let entry = Entry {
        group: input.get(field!(mlx5_ifc_set_fte_in_bits, flow_context.group_id)),
        action,
        value: Box::new(input.copy::<MATCH_LEN>(value)),
        destinations: destinations(hca, input, level)?,
    };
    let held = entry.clone();
    let old = hca.net.steering.set_entry(table, index, entry)?;
    hold(hca, &held)?;
    if let Some(old) = old {
        release(hca, &old);
    }
    Ok(())
}

fn delete_entry(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    check_side!(input, mlx5_ifc_delete_fte_in_bits);
    let table = input.get(field!(mlx5_ifc_delete_fte_in_bits, table_id));
    let index = input.get(field!(mlx5_ifc_delete_fte_in_bits, flow_index));
    let entry = hca.net.steering.remove_entry(table, index)?;
    release(hca, &entry);
    Ok(())
}

/// An entry keeps its group and its destinations alive.
fn hold(hca: &mut Hca, entry: &Entry) -> CmdResult {
    hca.net.steering.groups.hold(entry.group)?;
    for destination in &entry.destinations {
        match destination {
            Destination::Table(id) => hca.net.steering.tables.hold(*id)?,
            Destination::Tir(id) => hca.net.tirs.hold(*id)?,
        }
    }
    Ok(())
}

fn release(hca: &mut Hca, entry: &Entry) {
    hca.net.steering.groups.release(entry.group);
    for destination in &entry.destinations {
        match destination {
            Destination::Table(id) => hca.net.steering.tables.release(*id),
            Destination::Tir(id) => hca.net.tirs.release(*id),
        }
    }
}
