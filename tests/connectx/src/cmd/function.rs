// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands that bring a function up and down: enabling, capabilities, pages.

use super::{bad_param, op_mod, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::caps;
use crate::hca::{Hca, State};
use crate::mkey;
use crate::pages::Phase;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x100,
        name: "QUERY_HCA_CAP",
        min_in: size!(mlx5_ifc_query_hca_cap_in_bits),
        min_out: 0x10 + caps::CAP_SIZE,
        handler: query_hca_cap,
    },
    Command {
        opcode: 0x101,
        name: "QUERY_ADAPTER",
        min_in: size!(mlx5_ifc_query_adapter_in_bits),
        min_out: size!(mlx5_ifc_query_adapter_out_bits),
        handler: query_adapter,
    },
    Command {
        opcode: 0x102,
        name: "INIT_HCA",
        min_in: 0x10,
        min_out: 8,
        handler: init_hca,
    },
    Command {
        opcode: 0x103,
        name: "TEARDOWN_HCA",
        min_in: size!(mlx5_ifc_teardown_hca_in_bits),
        min_out: 8,
        handler: teardown_hca,
    },
    Command {
        opcode: 0x104,
        name: "ENABLE_HCA",
        min_in: 0xc,
        min_out: 8,
        handler: enable_hca,
    },
    Command {
        opcode: 0x105,
        name: "DISABLE_HCA",
        min_in: 0xc,
        min_out: 8,
        handler: disable_hca,
    },
    Command {
        opcode: 0x107,
        name: "QUERY_PAGES",
        min_in: size!(mlx5_ifc_query_pages_in_bits),
        min_out: size!(mlx5_ifc_query_pages_out_bits),
        handler: query_pages,
    },
    Command {
        opcode: 0x108,
        name: "MANAGE_PAGES",
        min_in: size!(mlx5_ifc_manage_pages_in_bits),
        min_out: 8,
        handler: manage_pages,
    },
    Command {
        opcode: 0x109,
        name: "SET_HCA_CAP",
        min_in: 0x10 + caps::CAP_SIZE,
        min_out: 8,
        handler: set_hca_cap,
    },
    Command {
        opcode: 0x10a,
        name: "QUERY_ISSI",
        min_in: size!(mlx5_ifc_query_issi_in_bits),
        min_out: size!(mlx5_ifc_query_issi_out_bits),
        handler: query_issi,
    },
    Command {
        opcode: 0x10b,
        name: "SET_ISSI",
        min_in: 0xc,
        min_out: 8,
        handler: set_issi,
    },
    Command {
        opcode: 0x203,
        name: "QUERY_SPECIAL_CONTEXTS",
        min_in: size!(mlx5_ifc_query_special_contexts_in_bits),
        min_out: size!(mlx5_ifc_query_special_contexts_out_bits),
        handler: query_special_contexts,
    },
];

/// Commands here name the function they are for; only the own one can be named.
fn own_function(function_id: u32) -> CmdResult {
    if function_id != 0 {
        return bad_param("another function");
    }
    Ok(())
}

fn enable_hca(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    own_function(input.get(field!(mlx5_ifc_enable_hca_in_bits, function_id)))?;
    if hca.state != State::Disabled {
        return Err(CmdError::new(Status::BadSysState, "function is enabled"));
    }
    hca.state = State::Enabled;
    Ok(())
}

fn disable_hca(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    own_function(input.get(field!(mlx5_ifc_disable_hca_in_bits, function_id)))?;
    if hca.state == State::Initialized {
        return Err(CmdError::new(
            Status::BadSysState,
            "function is not torn down",
        ));
    }
    hca.report_leaks("DISABLE_HCA");
    hca.state = State::Disabled;
    Ok(())
}

fn init_hca(hca: &mut Hca, _: Input<'_>, _: &mut OutputBox) -> CmdResult {
    if hca.state != State::Enabled {
        return Err(CmdError::new(
            Status::BadSysState,
            "function is initialized",
        ));
    }
    if hca.pages.wanted(Phase::Init) != 0 {
        return Err(CmdError::new(
            Status::NoResources,
            "pages for the initialization are missing",
        ));
    }
    hca.state = State::Initialized;
    Ok(())
}

fn teardown_hca(hca: &mut Hca, _: Input<'_>, _: &mut OutputBox) -> CmdResult {
    hca.report_leaks("TEARDOWN_HCA");
    hca.clear_objects();
    hca.state = State::Enabled;
    Ok(())
}

fn query_issi(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    out.set(field!(mlx5_ifc_query_issi_out_bits, current_issi), hca.issi);
    // Only revision 1 and, implied, 0.
    out.set(
        field!(mlx5_ifc_query_issi_out_bits, supported_issi_dw0),
        1 << 1,
    );
    Ok(())
}

fn set_issi(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let issi = input.get(field!(mlx5_ifc_set_issi_in_bits, current_issi));
    if issi > 1 {
        return bad_param("unknown ISSI");
    }
    hca.issi = issi;
    Ok(())
}

fn query_hca_cap(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    if input.flag(field!(mlx5_ifc_query_hca_cap_in_bits, other_function)) {
        return bad_param("another function");
    }
    out.put(0x10, hca.caps.query(op_mod(input))?);
    Ok(())
}

fn set_hca_cap(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    if input.flag(field!(mlx5_ifc_set_hca_cap_in_bits, other_function)) {
        return bad_param("another function");
    }
    if hca.state == State::Initialized {
        return Err(CmdError::new(
            Status::BadSysState,
            "function is initialized",
        ));
    }
    let wanted = input.0.get(0x10..0x10 + caps::CAP_SIZE).unwrap_or(&[]);
    hca.caps.set(op_mod(input), wanted)
}

fn query_adapter(_: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let base = field!(mlx5_ifc_query_adapter_out_bits, query_adapter_struct).byte_offset();
    out.put(base, &[0; size!(mlx5_ifc_query_adapter_param_block_bits)]);
    let vendor = field!(mlx5_ifc_query_adapter_param_block_bits, ieee_vendor_id);
    out.set(vendor.shifted(base), 0x2c9);
    let psid = field!(mlx5_ifc_query_adapter_param_block_bits, vsd_contd_psid);
    out.put_at(psid.shifted(base), b"MLX5ULP_SOFT_HCA");
    Ok(())
}

fn query_pages(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_function(input.get(field!(mlx5_ifc_query_pages_in_bits, function_id)))?;
    let phase = match op_mod(input) {
        1 => Phase::Boot,
        2 => Phase::Init,
        3 => Phase::Regular,
        _ => return bad_param("unknown phase"),
    };
    out.set(
        field!(mlx5_ifc_query_pages_out_bits, embedded_cpu_function),
        0,
    );
    out.set(field!(mlx5_ifc_query_pages_out_bits, function_id), 0);
    out.set(
        field!(mlx5_ifc_query_pages_out_bits, num_pages),
        hca.pages.wanted(phase),
    );
    Ok(())
}

fn manage_pages(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    own_function(input.get(field!(mlx5_ifc_manage_pages_in_bits, function_id)))?;
    let entries = input.get(field!(mlx5_ifc_manage_pages_in_bits, input_num_entries)) as usize;
    let pas = field!(mlx5_ifc_manage_pages_out_bits, pas);
    match op_mod(input) {
        // The driver has no pages to give.
        0 => Ok(()),
        1 => {
            let pages = input.tail_u64(field!(mlx5_ifc_manage_pages_in_bits, pas));
            match pages.get(..entries) {
                Some(pages) => hca.pages.give(&mut hca.io, pages),
                None => Err(CmdError::new(
                    Status::BadInputLen,
                    "fewer pages than announced",
                )),
            }
        }
        2 => {
            // While the function runs it needs all it has.
            let most = match hca.state {
                State::Initialized => 0,
                _ => entries.min(out.len().saturating_sub(pas.byte_offset()) / 8),
            };
            let pages = hca.pages.take(&mut hca.io, most);
            let count = field!(mlx5_ifc_manage_pages_out_bits, output_num_entries);
            out.set(count, pages.len() as u32);
            out.put_u64s(pas, &pages);
            Ok(())
        }
        _ => bad_param("unknown operation on pages"),
    }
}

fn query_special_contexts(_: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let mut set = |field, value| out.set(field, value);
    set(
        field!(mlx5_ifc_query_special_contexts_out_bits, dump_fill_mkey),
        mkey::DUMP_FILL_MKEY,
    );
    set(
        field!(mlx5_ifc_query_special_contexts_out_bits, resd_lkey),
        mkey::RESERVED_LKEY,
    );
    set(
        field!(mlx5_ifc_query_special_contexts_out_bits, null_mkey),
        mkey::NULL_MKEY,
    );
    set(
        field!(
            mlx5_ifc_query_special_contexts_out_bits,
            terminate_scatter_list_mkey
        ),
        mkey::RESERVED_LKEY,
    );
    Ok(())
}
