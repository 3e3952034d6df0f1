// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of the virtual port: its context, addresses, state and counters.

use super::{bad_param, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::caps::{LOG_MAX_MAC_LIST, PKEYS};
use crate::hca::Hca;
use crate::ifc::{self, Field};
use crate::vport::RoceAddress;
use crate::wire::{Mac, RoceVersion};
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x50d,
        name: "MAD_IFC",
        min_in: size!(mlx5_ifc_mad_ifc_in_bits),
        min_out: size!(mlx5_ifc_mad_ifc_out_bits),
        handler: mad_ifc,
    },
    Command {
        opcode: 0x750,
        name: "QUERY_VPORT_STATE",
        min_in: 0x10,
        min_out: size!(mlx5_ifc_query_vport_state_out_bits),
        handler: query_vport_state,
    },
    Command {
        opcode: 0x754,
        name: "QUERY_NIC_VPORT_CONTEXT",
        min_in: size!(mlx5_ifc_query_nic_vport_context_in_bits),
        min_out: size!(mlx5_ifc_query_nic_vport_context_out_bits),
        handler: query_nic_vport_context,
    },
    Command {
        opcode: 0x755,
        name: "MODIFY_NIC_VPORT_CONTEXT",
        min_in: size!(mlx5_ifc_modify_nic_vport_context_in_bits),
        min_out: 8,
        handler: modify_nic_vport_context,
    },
    Command {
        opcode: 0x760,
        name: "QUERY_ROCE_ADDRESS",
        min_in: size!(mlx5_ifc_query_roce_address_in_bits),
        min_out: size!(mlx5_ifc_query_roce_address_out_bits),
        handler: query_roce_address,
    },
    Command {
        opcode: 0x761,
        name: "SET_ROCE_ADDRESS",
        min_in: size!(mlx5_ifc_set_roce_address_in_bits),
        min_out: 8,
        handler: set_roce_address,
    },
    Command {
        opcode: 0x765,
        name: "QUERY_HCA_VPORT_PKEY",
        min_in: size!(mlx5_ifc_query_hca_vport_pkey_in_bits),
        min_out: 0x14,
        handler: query_pkey,
    },
    Command {
        opcode: 0x770,
        name: "QUERY_VPORT_COUNTER",
        min_in: 0x10,
        min_out: 0x10,
        handler: query_vport_counter,
    },
];

/// The default P_Key: full membership.
const DEFAULT_PKEY: u32 = 0xffff;

/// There is one virtual port to a function, and no command reaches that of another.
fn own_vport(input: Input<'_>, other: Field) -> CmdResult {
    if input.flag(other) {
        return bad_param("another vport");
    }
    Ok(())
}

/// MAD_IFC: nothing but performance counters is asked for on an Ethernet port, and none are kept.
fn mad_ifc(_: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let mad = field!(mlx5_ifc_mad_ifc_out_bits, response_mad_packet);
    out.put_at(mad, &[0; 256]);
    Ok(())
}

fn query_vport_state(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_vport(
        input,
        field!(mlx5_ifc_query_vport_state_in_bits, other_vport),
    )?;
    out.set(field!(mlx5_ifc_query_vport_state_out_bits, max_tx_speed), 0);
    out.set(field!(mlx5_ifc_query_vport_state_out_bits, admin_state), 1);
    let up = hca.port.link_up();
    out.set(
        field!(mlx5_ifc_query_vport_state_out_bits, state),
        up.into(),
    );
    Ok(())
}

fn query_nic_vport_context(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_vport(
        input,
        field!(mlx5_ifc_query_nic_vport_context_in_bits, other_vport),
    )?;
    let list_type = field!(mlx5_ifc_query_nic_vport_context_in_bits, allowed_list_type);
    let list: &[Mac] = match input.get(list_type) {
        0 => &hca.vport.unicast,
        1 => &hca.vport.multicast,
        _ => &[],
    };
    let base = field!(mlx5_ifc_query_nic_vport_context_out_bits, nic_vport_context).byte_offset();
    let mut context = hca.vport.context;
    let list_type = input.get(list_type);
    ifc::set(
        &mut context,
        field!(mlx5_ifc_nic_vport_context_bits, allowed_list_type),
        list_type,
    );
    let size = field!(mlx5_ifc_nic_vport_context_bits, allowed_list_size);
    ifc::set(&mut context, size, list.len() as u32);
    out.put(base, &context);
    for (i, mac) in list.iter().enumerate() {
        out.put(base + context.len() + 8 * i, &[0, 0]);
        out.put(base + context.len() + 8 * i + 2, mac);
    }
    Ok(())
}

fn modify_nic_vport_context(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    own_vport(
        input,
        field!(mlx5_ifc_modify_nic_vport_context_in_bits, other_vport),
    )?;
    let new = field!(mlx5_ifc_modify_nic_vport_context_in_bits, nic_vport_context);
    let new = input.0.get(new.byte_offset()..).unwrap_or(&[]);
    macro_rules! selected {
        ($name:ident) => {
            input.flag(field!(
                mlx5_ifc_modify_nic_vport_context_in_bits,
                field_select.$name
            ))
        };
    }
    macro_rules! take {
        ($($name:ident),+) => {$({
            let field = field!(mlx5_ifc_nic_vport_context_bits, $name);
            let value = ifc::get64(new, field);
            ifc::set64(&mut hca.vport.context, field, value);
        })+};
    }
    if selected!(roce_en) {
        take!(roce_en);
    }
    if selected!(addresses_list) {
        let size = field!(mlx5_ifc_nic_vport_context_bits, allowed_list_size);
        let size = ifc::get(new, size) as usize;
        let list = field!(mlx5_ifc_nic_vport_context_bits, current_uc_mac_address);
        let list = new.get(list.byte_offset()..).unwrap_or(&[]);
        if list.len() / 8 < size {
            return Err(CmdError::new(Status::BadInputLen, "address list is cut"));
        }
        if size > 1 << LOG_MAX_MAC_LIST {
            return Err(CmdError::new(Status::ExceedLim, "address list is too long"));
        }
        let list = list.chunks_exact(8).take(size).map(|entry| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&entry[2..]);
            mac
        });
        match ifc::get(
            new,
            field!(mlx5_ifc_nic_vport_context_bits, allowed_list_type),
        ) {
            0 => hca.vport.unicast = list.collect(),
            1 => hca.vport.multicast = list.collect(),
            // VLANs: filtered by the flow tables.
            2 => {}
            _ => return bad_param("unknown type of address list"),
        }
    }
    if selected!(permanent_address) {
        take!(permanent_address);
    }
    if selected!(promisc) {
        take!(promisc_uc, promisc_mc, promisc_all);
    }
    if selected!(change_event) {
        take!(arm_change_event);
    }
    if selected!(mtu) {
        take!(mtu);
    }
    if selected!(min_inline) {
        take!(min_wqe_inline_mode);
    }
    if selected!(port_guid) {
        take!(port_guid);
    }
    if selected!(node_guid) {
        take!(node_guid);
    }
    if selected!(disable_mc_local_lb) {
        take!(disable_mc_local_lb);
    }
    if selected!(disable_uc_local_lb) {
        take!(disable_uc_local_lb);
    }
    Ok(())
}

fn set_roce_address(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    macro_rules! address {
        ($name:ident) => {
            field!(mlx5_ifc_set_roce_address_in_bits, roce_address.$name)
        };
    }
    let index = input.get(field!(
        mlx5_ifc_set_roce_address_in_bits,
        roce_address_index
    ));
    let gid = input.copy::<16>(address!(source_l3_address));
    let version = match input.get(address!(roce_version)) {
        0 => RoceVersion::V1,
        2 => RoceVersion::V2,
        _ => return bad_param("unknown RoCE version"),
    };
    let mac = (u64::from(input.get(address!(source_mac_47_32))) << 32)
        | u64::from(input.get(address!(source_mac_31_0)));
    let [_, _, mac @ ..] = mac.to_be_bytes();
    let vlan = input
        .flag(address!(vlan_valid))
        .then(|| input.get(address!(vlan_id)) as u16);
    // A GID of all zero deletes the entry.
    let entry = (gid != [0; 16]).then_some(RoceAddress {
        gid,
        mac,
        vlan,
        version,
    });
    if !hca.gids.set(&mut hca.io, index, entry) {
        return Err(CmdError::new(Status::BadIndex, "no such RoCE address"));
    }
    Ok(())
}

fn query_roce_address(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let index = input.get(field!(
        mlx5_ifc_query_roce_address_in_bits,
        roce_address_index
    ));
    if index >= crate::caps::ROCE_ADDRESS_TABLE_SIZE {
        return Err(CmdError::new(Status::BadIndex, "no such RoCE address"));
    }
    let mut layout = [0; size!(mlx5_ifc_roce_addr_layout_bits)];
    if let Some(entry) = hca.gids.get(index) {
        layout[..16].copy_from_slice(&entry.gid);
        let mut set = |field, value| ifc::set(&mut layout, field, value);
        if let Some(vlan) = entry.vlan {
            set(field!(mlx5_ifc_roce_addr_layout_bits, vlan_valid), 1);
            set(field!(mlx5_ifc_roce_addr_layout_bits, vlan_id), vlan.into());
        }
        let [a, b, c, d, e, f] = entry.mac.map(u32::from);
        set(
            field!(mlx5_ifc_roce_addr_layout_bits, source_mac_47_32),
            (a << 8) | b,
        );
        set(
            field!(mlx5_ifc_roce_addr_layout_bits, source_mac_31_0),
            (c << 24) | (d << 16) | (e << 8) | f,
        );
        let version = match entry.version {
            RoceVersion::V1 => 0,
            RoceVersion::V2 => 2,
        };
        set(
            field!(mlx5_ifc_roce_addr_layout_bits, roce_version),
            version,
        );
    }
    out.put_at(
        field!(mlx5_ifc_query_roce_address_out_bits, roce_address),
        &layout,
    );
    Ok(())
}

fn query_pkey(_: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_vport(
        input,
        field!(mlx5_ifc_query_hca_vport_pkey_in_bits, other_vport),
    )?;
    let index = input.get(field!(mlx5_ifc_query_hca_vport_pkey_in_bits, pkey_index));
    let table = field!(mlx5_ifc_query_hca_vport_pkey_out_bits, pkey).byte_offset();
    let word = |i| if i == 0 { DEFAULT_PKEY } else { 0 };
    match index {
        // The whole table.
        0xffff => {
            for i in 0..PKEYS {
                out.put(table + 4 * i as usize, &word(i).to_be_bytes());
            }
        }
        0..PKEYS => out.put(table, &word(index).to_be_bytes()),
        _ => return Err(CmdError::new(Status::BadIndex, "no such P_Key")),
    }
    Ok(())
}

/// QUERY_VPORT_COUNTER: frames are counted per function, not per vport class; all are zero.
fn query_vport_counter(_: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_vport(
        input,
        field!(mlx5_ifc_query_vport_counter_in_bits, other_vport),
    )?;
    let len = out.len();
    out.put(0x10, &vec![0; len.saturating_sub(0x10)]);
    Ok(())
}
