// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of memory keys.

use super::{CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::hca::Hca;
use crate::mkey::context::{BadContext, CONTEXT_LEN, OCTWORD};
use crate::mkey::Mkey;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x200,
        name: "CREATE_MKEY",
        min_in: size!(mlx5_ifc_create_mkey_in_bits),
        min_out: size!(mlx5_ifc_create_mkey_out_bits),
        handler: create_mkey,
    },
    Command {
        opcode: 0x201,
        name: "QUERY_MKEY",
        min_in: size!(mlx5_ifc_query_mkey_in_bits),
        min_out: size!(mlx5_ifc_query_mkey_out_bits),
        handler: query_mkey,
    },
    Command {
        opcode: 0x202,
        name: "DESTROY_MKEY",
        min_in: size!(mlx5_ifc_destroy_mkey_in_bits),
        min_out: 8,
        handler: destroy_mkey,
    },
];

impl From<BadContext> for CmdError {
    fn from(error: BadContext) -> Self {
        match error {
            BadContext::Mode => CmdError::new(Status::BadParam, "unknown access mode of a key"),
            BadContext::Signature => CmdError::new(Status::BadParam, "key with a signature"),
            BadContext::Translations => {
                CmdError::new(Status::ExceedLim, "translation entries do not fit the key")
            }
        }
    }
}

fn create_mkey(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let field = field!(mlx5_ifc_create_mkey_in_bits, memory_key_mkey_entry);
    let context: [u8; CONTEXT_LEN] = input.copy(field);
    // Entries come with the command only as far as it says; a key for UMR has room without entries.
    let count = input.get(field!(
        mlx5_ifc_create_mkey_in_bits,
        translations_octword_actual_size
    ));
    let list = input.tail(field!(mlx5_ifc_create_mkey_in_bits, klm_pas_mtt));
    let len = (count as usize).saturating_mul(OCTWORD);
    let entries = list.get(..len).ok_or(CmdError::new(
        Status::BadInputLen,
        "translation entries are cut short",
    ))?;
    let mkey = Mkey::new(context, entries)?;
    let pd = mkey.pd();
    hca.pds.find(pd)?;
    let index = hca.mkeys.insert(mkey)?;
    hca.pds.hold(pd)?;
    out.set(field!(mlx5_ifc_create_mkey_out_bits, mkey_index), index);
    Ok(())
}

fn query_mkey(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let index = input.get(field!(mlx5_ifc_query_mkey_in_bits, mkey_index));
    let mkey = hca.mkeys.table.find(index)?;
    out.put_at(
        field!(mlx5_ifc_query_mkey_out_bits, memory_key_mkey_entry),
        mkey.context(),
    );
    for (i, field) in [
        field!(mlx5_ifc_query_mkey_out_bits, bsf0_klm0_pas_mtt0_1),
        field!(mlx5_ifc_query_mkey_out_bits, bsf1_klm1_pas_mtt2_3),
    ]
    .into_iter()
    .enumerate()
    {
        out.put_at(field, mkey.entry(i).unwrap_or(&[0; OCTWORD]));
    }
    Ok(())
}

fn destroy_mkey(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let index = input.get(field!(mlx5_ifc_destroy_mkey_in_bits, mkey_index));
    let mkey = hca.mkeys.remove(index)?;
    hca.pds.release(mkey.held_pd());
    Ok(())
}
