// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of completion queues.

use super::{bad_param, op_mod, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::buffer::QueueBuffer;
use crate::caps::LOG_MAX_CQ_SIZE;
use crate::cq::{self, Cq, CqConfig, MiniFormat, Moderation, ResizeError};
use crate::hca::Hca;
use crate::ifc;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x400,
        name: "CREATE_CQ",
        min_in: size!(mlx5_ifc_create_cq_in_bits),
        min_out: size!(mlx5_ifc_create_cq_out_bits),
        handler: create_cq,
    },
    Command {
        opcode: 0x401,
        name: "DESTROY_CQ",
        min_in: size!(mlx5_ifc_destroy_cq_in_bits),
        min_out: 8,
        handler: destroy_cq,
    },
    Command {
        opcode: 0x402,
        name: "QUERY_CQ",
        min_in: size!(mlx5_ifc_query_cq_in_bits),
        min_out: size!(mlx5_ifc_query_cq_out_bits),
        handler: query_cq,
    },
    Command {
        opcode: 0x403,
        name: "MODIFY_CQ",
        min_in: size!(mlx5_ifc_modify_cq_in_bits),
        min_out: 8,
        handler: modify_cq,
    },
];

/// Bytes of a CQ context.
const CONTEXT_LEN: usize = size!(mlx5_ifc_cqc_bits);

/// Bits of `modify_field_select` (`MLX5_CQ_MODIFY_*`).
const MODIFY_PERIOD: u32 = 1 << 0;
const MODIFY_COUNT: u32 = 1 << 1;
const MODIFY_OVERRUN: u32 = 1 << 2;
const MODIFY_EQN: u32 = 1 << 3;
const MODIFY_PERIOD_MODE: u32 = 1 << 4;

/// `op_mod` of MODIFY_CQ: fields, or another buffer.
const OP_MOD_MODIFY: u32 = 0;
const OP_MOD_RESIZE: u32 = 1;
/// `resize_field_select` of the latter (`MLX5_MODIFY_CQ_MASK_*`): size, offset and size of the pages.
const RESIZE_ALL: u32 = 7;

/// Buffer and entry size that a context describes.
fn geometry(context: &[u8], pages: &[u8]) -> CmdResult<(QueueBuffer, u8, usize)> {
    let log_size = ifc::get(context, field!(mlx5_ifc_cqc_bits, log_cq_size));
    if log_size > LOG_MAX_CQ_SIZE {
        return Err(CmdError::new(Status::BadSize, "CQ is too large"));
    }
    let entry_size = match ifc::get(context, field!(mlx5_ifc_cqc_bits, cqe_sz)) {
        0 => 64,
        1 => 128,
        _ => return bad_param("unknown size of CQ entries"),
    };
    let buffer = QueueBuffer::new(
        QueueBuffer::page_list(pages),
        ifc::get(context, field!(mlx5_ifc_cqc_bits, log_page_size)),
        ifc::get(context, field!(mlx5_ifc_cqc_bits, page_offset)).into(),
        (entry_size as u64) << log_size,
    )
    .map_err(|_| CmdError::new(Status::BadInputLen, "pages do not hold the CQ"))?;
    Ok((buffer, log_size as u8, entry_size))
}

fn moderation(context: &[u8]) -> CmdResult<Moderation> {
    let mode = ifc::get(context, field!(mlx5_ifc_cqc_bits, cq_period_mode));
    if mode > 1 {
        return bad_param("unknown start of the period");
    }
    Ok(Moderation::new(
        ifc::get(context, field!(mlx5_ifc_cqc_bits, cq_period)),
        ifc::get(context, field!(mlx5_ifc_cqc_bits, cq_max_count)),
        mode,
    ))
}

/// Format of compressed completions, if they are asked for.
fn compression(context: &[u8]) -> CmdResult<Option<MiniFormat>> {
    let get = |field| ifc::get(context, field);
    if get(field!(mlx5_ifc_cqc_bits, cqe_comp_en)) == 0 {
        return Ok(None);
    }
    if get(field!(mlx5_ifc_cqc_bits, cqe_compression_layout)) != 0 {
        return bad_param("only the basic layout of compressed CQEs");
    }
    if get(field!(mlx5_ifc_cqc_bits, cqe_sz)) != 0 {
        return bad_param("only CQEs of 64 bytes are compressed");
    }
    let format = get(field!(mlx5_ifc_cqc_bits, mini_cqe_res_format));
    match MiniFormat::from_bits(format) {
        Some(format) => Ok(Some(format)),
        None => bad_param("unknown format of compressed CQEs"),
    }
}

fn create_cq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context: [u8; CONTEXT_LEN] = input.copy(field!(mlx5_ifc_create_cq_in_bits, cq_context));
    let pages = input.tail(field!(mlx5_ifc_create_cq_in_bits, pas));
    let (buffer, log_size, entry_size) = geometry(&context, pages)?;
    if ifc::flag(&context, field!(mlx5_ifc_cqc_bits, cc)) {
        return bad_param("collapsed CQs are not supported");
    }
    let compression = compression(&context)?;
    let moderation = moderation(&context)?;
    let eqn = ifc::get(&context, field!(mlx5_ifc_cqc_bits, c_eqn_or_apu_element));
    let uar = ifc::get(&context, field!(mlx5_ifc_cqc_bits, uar_page));
    hca.eqs.table.find(eqn)?;
    hca.uars.find(uar)?;
    let cqn = hca.cqs.table.insert(Cq::new(CqConfig {
        context,
        // EQ numbers have 8 bits, and this one exists.
        eqn: eqn as u8,
        uar,
        log_size,
        entry_size,
        buffer,
        record: ifc::get64(&context, field!(mlx5_ifc_cqc_bits, dbr_addr)),
        ignore_overrun: ifc::flag(&context, field!(mlx5_ifc_cqc_bits, oi)),
        moderation,
        compression,
    }))?;
    hca.eqs.table.hold(eqn)?;
    hca.uars.hold(uar)?;
    out.set(field!(mlx5_ifc_create_cq_out_bits, cqn), cqn);
    Ok(())
}

fn destroy_cq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let cqn = input.get(field!(mlx5_ifc_destroy_cq_in_bits, cqn));
    let config = hca.cqs.remove(cqn)?.config;
    hca.eqs.table.release(config.eqn.into());
    hca.uars.release(config.uar);
    Ok(())
}

fn query_cq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let cqn = input.get(field!(mlx5_ifc_query_cq_in_bits, cqn));
    let cq = hca.cqs.table.find(cqn)?;
    let mut context = cq.config.context;
    for (field, value) in [
        (field!(mlx5_ifc_cqc_bits, status), cq.status()),
        (field!(mlx5_ifc_cqc_bits, st), cq.arm_state()),
        (
            field!(mlx5_ifc_cqc_bits, log_cq_size),
            cq.config.log_size.into(),
        ),
        (
            field!(mlx5_ifc_cqc_bits, last_notified_index),
            cq.last_notified(),
        ),
        (field!(mlx5_ifc_cqc_bits, producer_counter), cq.producer()),
        (field!(mlx5_ifc_cqc_bits, consumer_counter), cq.consumer()),
    ] {
        ifc::set(&mut context, field, value);
    }
    out.put_at(field!(mlx5_ifc_query_cq_out_bits, cq_context), &context);
    let pas = field!(mlx5_ifc_query_cq_out_bits, pas);
    out.put_u64s(pas, cq.config.buffer.pages());
    Ok(())
}

fn modify_cq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let cqn = input.get(field!(mlx5_ifc_modify_cq_in_bits, cqn));
    let given: [u8; CONTEXT_LEN] = input.copy(field!(mlx5_ifc_modify_cq_in_bits, cq_context));
    let select = input.get(field!(
        mlx5_ifc_modify_cq_in_bits,
        modify_field_select_resize_field_select.bindgen_union_field
    ));
    match op_mod(input) {
        OP_MOD_MODIFY => {}
        OP_MOD_RESIZE if select == RESIZE_ALL => return resize_cq(hca, cqn, &given, input),
        OP_MOD_RESIZE => return bad_param("a buffer comes with its size and that of its pages"),
        _ => return bad_param("unknown operation on a CQ"),
    }
    let known = MODIFY_PERIOD | MODIFY_COUNT | MODIFY_OVERRUN | MODIFY_EQN | MODIFY_PERIOD_MODE;
    if select & !known != 0 {
        return bad_param("modify_field_select names an unknown field");
    }
    let cq = hca.cqs.table.find_mut(cqn)?;
    let config = &mut cq.config;
    let mut context = config.context;
    for (bit, field) in [
        (MODIFY_PERIOD, field!(mlx5_ifc_cqc_bits, cq_period)),
        (MODIFY_COUNT, field!(mlx5_ifc_cqc_bits, cq_max_count)),
        (MODIFY_OVERRUN, field!(mlx5_ifc_cqc_bits, oi)),
        (
            MODIFY_PERIOD_MODE,
            field!(mlx5_ifc_cqc_bits, cq_period_mode),
        ),
    ] {
        if select & bit != 0 {
            ifc::set(&mut context, field, ifc::get(&given, field));
        }
    }
    let moderation = moderation(&context)?;
    if select & MODIFY_EQN != 0 {
        let field = field!(mlx5_ifc_cqc_bits, c_eqn_or_apu_element);
        let eqn = ifc::get(&given, field);
        hca.eqs.table.hold(eqn)?;
        hca.eqs.table.release(config.eqn.into());
        config.eqn = eqn as u8;
        ifc::set(&mut context, field, eqn);
    }
    config.ignore_overrun = ifc::flag(&context, field!(mlx5_ifc_cqc_bits, oi));
    config.moderation = moderation;
    config.context = context;
    // What waited by the old values may be due by the new ones.
    cq::settle(hca, cqn);
    Ok(())
}

fn resize_cq(hca: &mut Hca, cqn: u32, given: &[u8; CONTEXT_LEN], input: Input<'_>) -> CmdResult {
    let Hca { cqs, io, .. } = hca;
    let cq = cqs.table.find_mut(cqn)?;
    if cq.failed() {
        return Err(CmdError::new(Status::BadResState, "CQ is in error"));
    }
    let pages = input.tail(field!(mlx5_ifc_modify_cq_in_bits, pas));
    let mut context = *given;
    let entry = field!(mlx5_ifc_cqc_bits, cqe_sz);
    let old_entry = ifc::get(&cq.config.context, entry);
    ifc::set(&mut context, entry, old_entry);
    let (buffer, log_size, _) = geometry(&context, pages)?;
    cq.resize(io, buffer, log_size)
        .map_err(|error| match error {
            ResizeError::OldFull => {
                CmdError::new(Status::BadResState, "no room for the last entry")
            }
            ResizeError::NewTooSmall => {
                CmdError::new(Status::BadSize, "more completions wait than fit")
            }
        })?;
    for field in [
        field!(mlx5_ifc_cqc_bits, log_cq_size),
        field!(mlx5_ifc_cqc_bits, log_page_size),
        field!(mlx5_ifc_cqc_bits, page_offset),
    ] {
        let value = ifc::get(given, field);
        ifc::set(&mut cq.config.context, field, value);
    }
    Ok(())
}
