// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of event queues.

use super::{bad_param, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::eq::{Eq, EqConfig};
use crate::hca::Hca;
use crate::ifc;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x301,
        name: "CREATE_EQ",
        min_in: size!(mlx5_ifc_create_eq_in_bits),
        min_out: size!(mlx5_ifc_create_eq_out_bits),
        handler: create_eq,
    },
    Command {
        opcode: 0x302,
        name: "DESTROY_EQ",
        min_in: size!(mlx5_ifc_destroy_eq_in_bits),
        min_out: 8,
        handler: destroy_eq,
    },
    Command {
        opcode: 0x303,
        name: "QUERY_EQ",
        min_in: size!(mlx5_ifc_query_eq_in_bits),
        min_out: size!(mlx5_ifc_query_eq_out_bits),
        handler: query_eq,
    },
];

fn create_eq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = input.copy::<0x40>(field!(mlx5_ifc_create_eq_in_bits, eq_context_entry));
    let Some(needed) = Eq::pages_needed(&context) else {
        return Err(CmdError::new(Status::BadSize, "EQ is too large"));
    };
    let mut pages = input.tail_u64(field!(mlx5_ifc_create_eq_in_bits, pas));
    if pages.len() < needed {
        return Err(CmdError::new(Status::BadInputLen, "page list is too short"));
    }
    pages.truncate(needed);
    if pages.iter().any(|page| page % 4096 != 0) {
        return bad_param("page of an EQ is not aligned");
    }
    let vectors = hca.config.pci.vectors;
    if ifc::get(&context, field!(mlx5_ifc_eqc_bits, intr)) >= u32::from(vectors) {
        return Err(CmdError::new(Status::BadIndex, "no such interrupt vector"));
    }
    let uar = ifc::get(&context, field!(mlx5_ifc_eqc_bits, uar_page));
    hca.uars.find(uar)?;
    let bitmask = field!(mlx5_ifc_create_eq_in_bits, event_bitmask);
    let mut mask = [0; 4];
    for (word, bytes) in mask.iter_mut().zip(input.bytes(bitmask).chunks_exact(8)) {
        *word = bytes.iter().fold(0, |v, b| (v << 8) | u64::from(*b));
    }
    let eqn = hca.eqs.table.insert(Eq::new(EqConfig {
        context,
        mask,
        pages,
    }))?;
    hca.uars.hold(uar)?;
    out.set(field!(mlx5_ifc_create_eq_out_bits, eq_number), eqn);
    Ok(())
}

fn destroy_eq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let eqn = input.get(field!(mlx5_ifc_destroy_eq_in_bits, eq_number));
    let context = hca.eqs.table.remove(eqn)?.context();
    hca.uars
        .release(ifc::get(&context, field!(mlx5_ifc_eqc_bits, uar_page)));
    Ok(())
}

fn query_eq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let eqn = input.get(field!(mlx5_ifc_query_eq_in_bits, eq_number));
    let context = hca.eqs.table.find(eqn)?.context();
    out.put_at(
        field!(mlx5_ifc_query_eq_out_bits, eq_context_entry),
        &context,
    );
    Ok(())
}
