// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of the netdev that ask for what the capabilities do not offer.

use connectx::driver::command;
use connectx::{field, size};

use crate::stage::*;

/// Status byte of a refusal.
const BAD_PARAM: u8 = 0x3;

#[test]
fn what_is_not_offered_is_refused() {
    let mut n = Netdev::new();
    let mut input = command(0x905, 0, size!(mlx5_ifc_modify_sq_in_bits));
    let bitmask = field!(mlx5_ifc_modify_sq_in_bits, modify_bitmask);
    set(&mut input, bitmask, 1);
    set(
        &mut input,
        field!(mlx5_ifc_modify_sq_in_bits, sqn),
        n.sqn.into(),
    );
    set(&mut input, field!(mlx5_ifc_modify_sq_in_bits, sq_state), 1);
    set(&mut input, field!(mlx5_ifc_modify_sq_in_bits, ctx.state), 1);
    assert_eq!(n.driver.execute(&input, 16)[0], BAD_PARAM, "a rate limit");
    for (field, good) in [
        (
            field!(mlx5_ifc_create_tir_in_bits, ctx.packet_merge_mask),
            false,
        ),
        (
            field!(mlx5_ifc_create_tir_in_bits, ctx.tunneled_offload_en),
            false,
        ),
        (
            field!(mlx5_ifc_create_tir_in_bits, ctx.rx_hash_symmetric),
            true,
        ),
    ] {
        let mut input = command(0x900, 0, size!(mlx5_ifc_create_tir_in_bits));
        macro_rules! tirc {
            ($name:ident) => {
                field!(mlx5_ifc_create_tir_in_bits, ctx.$name)
            };
        }
        set(&mut input, tirc!(inline_rqn), n.rqn.into());
        set(&mut input, tirc!(transport_domain), n.td.into());
        set(&mut input, field, 1);
        let status = n.driver.execute(&input, 16)[0];
        assert_eq!(status, if good { 0 } else { BAD_PARAM }, "{field:?}");
    }
}

#[test]
fn flow_groups_look_at_what_the_device_looks_at() {
    let mut n = Netdev::new();
    let mut input = command(0x933, 0, size!(mlx5_ifc_create_flow_group_in_bits));
    macro_rules! group {
        ($($name:ident).+) => {
            field!(mlx5_ifc_create_flow_group_in_bits, $($name).+)
        };
    }
    let table = create_table(&mut n, 0);
    set(&mut input, group!(table_id), table.into());
    for (field, status) in [
        (group!(match_criteria.outer_headers.ip_dscp), BAD_PARAM),
        (group!(match_criteria.outer_headers.ip_protocol), 0),
    ] {
        set(&mut input, field, 1);
        assert_eq!(n.driver.execute(&input, 16)[0], status, "{field:?}");
        set(&mut input, field, 0);
    }
}

fn create_table(n: &mut Netdev, level: u64) -> u32 {
    let mut input = command(0x930, 0, size!(mlx5_ifc_create_flow_table_in_bits));
    let field = field!(mlx5_ifc_create_flow_table_in_bits, flow_table_context.level);
    set(&mut input, field, level);
    n.driver.create(&input)
}

#[test]
fn frames_go_on_to_tables_of_higher_levels() {
    let mut n = Netdev::new();
    let (low, high) = (create_table(&mut n, 0), create_table(&mut n, 1));
    for (next, ignore, status) in [
        (low, 0, BAD_PARAM),
        (n.table, 0, BAD_PARAM),
        (high, 1, BAD_PARAM),
        (high, 0, 0),
    ] {
        // The entry of the stage, with another destination.
        let mut input = command(0x936, 1, size!(mlx5_ifc_set_fte_in_bits));
        macro_rules! fte {
            ($($name:ident).+, $value:expr) => {
                set(&mut input, field!(mlx5_ifc_set_fte_in_bits, $($name).+), $value)
            };
        }
        fte!(table_id, n.table.into());
        fte!(ignore_flow_level, ignore);
        fte!(flow_context.group_id, n.group.into());
        fte!(flow_context.action, 4);
        fte!(flow_context.destination_list_size, 1);
        input.extend([1, 0]);
        input.extend((next as u16).to_be_bytes());
        input.extend([0; 4]);
        assert_eq!(n.driver.execute(&input, 16)[0], status, "{next} {ignore}");
        // And as the table for what matches nothing.
        let mut input = command(0x93c, 0, size!(mlx5_ifc_modify_flow_table_in_bits));
        macro_rules! table {
            ($($name:ident).+, $value:expr) => {
                set(
                    &mut input,
                    field!(mlx5_ifc_modify_flow_table_in_bits, $($name).+),
                    $value,
                )
            };
        }
        table!(table_id, n.table.into());
        table!(modify_field_select, 1);
        table!(flow_table_context.table_miss_action, 1);
        table!(flow_table_context.table_miss_id, next.into());
        let status = if next == high { 0 } else { BAD_PARAM };
        assert_eq!(n.driver.execute(&input, 16)[0], status, "miss to {next}");
    }
}

#[test]
fn no_command_reaches_another_virtual_port() {
    let mut n = Netdev::new();
    let own = [
        (0x750, size!(mlx5_ifc_query_vport_state_in_bits)),
        (0x754, size!(mlx5_ifc_query_nic_vport_context_in_bits)),
        (0x755, size!(mlx5_ifc_modify_nic_vport_context_in_bits)),
        (0x765, size!(mlx5_ifc_query_hca_vport_pkey_in_bits)),
        (0x770, size!(mlx5_ifc_query_vport_counter_in_bits)),
    ];
    for (opcode, len) in own {
        let mut input = command(opcode, 0, len);
        assert_eq!(n.driver.execute(&input, 0x300)[0], 0, "{opcode:#x}");
        // `other_vport` is the first bit behind the header.
        input[8] = 0x80;
        let status = n.driver.execute(&input, 0x300)[0];
        assert_eq!(status, BAD_PARAM, "{opcode:#x}");
    }
}
