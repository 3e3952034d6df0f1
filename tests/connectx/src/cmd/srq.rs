// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of shared receive queues: SRQ, XRC SRQ and RMP.

use super::{bad_param, op_mod, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::buffer::QueueBuffer;
use crate::caps::{LOG_MAX_SRQ_SIZE, MAX_WQE_SIZE_RQ};
use crate::hca::Hca;
use crate::ifc;
use crate::qp::context::NO_USER_INDEX;
use crate::srq::{Extended, Srq, SrqConfig, SrqKind};
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    command!(
        0x700,
        "CREATE_SRQ",
        mlx5_ifc_create_srq_in_bits,
        0x10,
        create_srq
    ),
    command!(
        0x701,
        "DESTROY_SRQ",
        mlx5_ifc_destroy_srq_in_bits,
        8,
        |hca, input, _| {
            let number = input.get(field!(mlx5_ifc_destroy_srq_in_bits, srqn));
            destroy(hca, number, SrqKind::Basic)
        }
    ),
    command!(
        0x702,
        "QUERY_SRQ",
        mlx5_ifc_query_srq_in_bits,
        size!(mlx5_ifc_query_srq_out_bits),
        query_srq
    ),
    command!(
        0x703,
        "ARM_RQ",
        mlx5_ifc_arm_rq_in_bits,
        8,
        |hca, input, _| {
            let number = input.get(field!(mlx5_ifc_arm_rq_in_bits, srq_number));
            let limit = input.get(field!(mlx5_ifc_arm_rq_in_bits, lwm));
            check_arming(input)?;
            arm(hca, number, SrqKind::Basic, limit)
        }
    ),
    command!(
        0x705,
        "CREATE_XRC_SRQ",
        mlx5_ifc_create_xrc_srq_in_bits,
        0x10,
        create_xrc_srq
    ),
    command!(
        0x706,
        "DESTROY_XRC_SRQ",
        mlx5_ifc_destroy_xrc_srq_in_bits,
        8,
        |hca, input, _| {
            let number = input.get(field!(mlx5_ifc_destroy_xrc_srq_in_bits, xrc_srqn));
            destroy(hca, number, SrqKind::Xrc)
        }
    ),
    command!(
        0x707,
        "QUERY_XRC_SRQ",
        mlx5_ifc_query_xrc_srq_in_bits,
        size!(mlx5_ifc_query_xrc_srq_out_bits),
        query_xrc_srq
    ),
    command!(
        0x708,
        "ARM_XRC_SRQ",
        mlx5_ifc_arm_xrc_srq_in_bits,
        8,
        |hca, input, _| {
            let number = input.get(field!(mlx5_ifc_arm_xrc_srq_in_bits, xrc_srqn));
            let limit = input.get(field!(mlx5_ifc_arm_xrc_srq_in_bits, lwm));
            check_arming(input)?;
            arm(hca, number, SrqKind::Xrc, limit)
        }
    ),
    command!(
        0x90c,
        "CREATE_RMP",
        mlx5_ifc_create_rmp_in_bits,
        0x10,
        create_rmp
    ),
    command!(
        0x90d,
        "MODIFY_RMP",
        mlx5_ifc_modify_rmp_in_bits,
        8,
        modify_rmp
    ),
    command!(
        0x90e,
        "DESTROY_RMP",
        mlx5_ifc_destroy_rmp_in_bits,
        8,
        |hca, input, _| {
            let number = input.get(field!(mlx5_ifc_destroy_rmp_in_bits, rmpn));
            destroy(hca, number, SrqKind::Rmp)
        }
    ),
    command!(
        0x90f,
        "QUERY_RMP",
        mlx5_ifc_query_rmp_in_bits,
        size!(mlx5_ifc_query_rmp_out_bits),
        query_rmp
    ),
];

/// What the three kinds of context have in common.
struct Common {
    kind: SrqKind,
    context: Vec<u8>,
    pd: u32,
    extended: Option<Extended>,
    log_size: u32,
    log_stride: u32,
    log_page_size: u32,
    page_offset: u64,
    record: u64,
    cyclic: bool,
    limit: u32,
}

fn create(hca: &mut Hca, common: Common, pages: &[u8]) -> CmdResult<u32> {
    if common.log_size > LOG_MAX_SRQ_SIZE || 1u64 << common.log_stride > MAX_WQE_SIZE_RQ.into() {
        return Err(CmdError::new(Status::BadSize, "SRQ is too large"));
    }
    let buffer = QueueBuffer::new(
        QueueBuffer::page_list(pages),
        common.log_page_size,
        common.page_offset,
        1 << (common.log_size + common.log_stride),
    )
    .map_err(|_| CmdError::new(Status::BadInputLen, "pages do not hold the SRQ"))?;
    if common.limit > 1 << common.log_size {
        return bad_param("limit is larger than the queue");
    }
    hca.pds.find(common.pd)?;
    if let Some(extended) = common.extended {
        hca.xrcds.find(extended.xrcd)?;
        hca.cqs.table.find(extended.cqn)?;
    }
    let config = SrqConfig {
        kind: common.kind,
        context: common.context,
        pd: common.pd,
        extended: common.extended,
        buffer,
        log_size: common.log_size as u8,
        stride: 1 << common.log_stride,
        record: common.record,
        cyclic: common.cyclic,
    };
    let number = hca
        .srqs
        .table
        .insert(Srq::new(config, common.limit as u16))?;
    hca.pds.hold(common.pd)?;
    if let Some(extended) = common.extended {
        hca.xrcds.hold(extended.xrcd)?;
        hca.cqs.table.hold(extended.cqn)?;
    }
    Ok(number)
}

/// The queue with this number, if it is of this kind.
fn find(hca: &mut Hca, number: u32, kind: SrqKind) -> CmdResult<&mut Srq> {
    let srq = hca.srqs.table.find_mut(number)?;
    if srq.config.kind == kind {
        Ok(srq)
    } else {
        Err(CmdError::new(
            Status::BadRes,
            "shared queue of another kind",
        ))
    }
}

fn destroy(hca: &mut Hca, number: u32, kind: SrqKind) -> CmdResult {
    find(hca, number, kind)?;
    let config = hca.srqs.table.remove(number)?.config;
    hca.pds.release(config.pd);
    if let Some(extended) = config.extended {
        // No completion of the queue comes after it is gone.
        let Hca { cqs, eqs, io, .. } = &mut *hca;
        cqs.drain(extended.cqn, eqs, io);
        hca.cqs.table.release(extended.cqn);
        hca.xrcds.release(extended.xrcd);
    }
    Ok(())
}

/// What is armed is a shared queue (`op_mod` 1, `MLX5_ARM_RQ_IN_OP_MOD_SRQ` and its like), not one with tag matching.
fn check_arming(input: Input<'_>) -> CmdResult {
    if op_mod(input) != 1 {
        return bad_param("unknown kind of shared queue");
    }
    Ok(())
}

fn arm(hca: &mut Hca, number: u32, kind: SrqKind, limit: u32) -> CmdResult {
    let srq = find(hca, number, kind)?;
    if limit > 1 << srq.config.log_size {
        return bad_param("limit is larger than the queue");
    }
    srq.set_limit(limit as u16);
    let Hca { srqs, eqs, io, .. } = hca;
    if let Some(srq) = srqs.table.get_mut(number) {
        srq.check_limit(number, eqs, io);
    }
    Ok(())
}

fn create_srq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = input.bytes(field!(mlx5_ifc_create_srq_in_bits, srq_context_entry));
    let get = |field| ifc::get(context, field);
    let common = Common {
        kind: SrqKind::Basic,
        context: context.to_vec(),
        pd: get(field!(mlx5_ifc_srqc_bits, pd)),
        extended: None,
        log_size: get(field!(mlx5_ifc_srqc_bits, log_srq_size)),
        log_stride: get(field!(mlx5_ifc_srqc_bits, log_rq_stride)) + 4,
        log_page_size: get(field!(mlx5_ifc_srqc_bits, log_page_size)),
        page_offset: get(field!(mlx5_ifc_srqc_bits, page_offset)).into(),
        record: ifc::get64(context, field!(mlx5_ifc_srqc_bits, dbr_addr)),
        cyclic: false,
        limit: get(field!(mlx5_ifc_srqc_bits, lwm)),
    };
    let pages = input.tail(field!(mlx5_ifc_create_srq_in_bits, pas));
    let number = create(hca, common, pages)?;
    out.set(field!(mlx5_ifc_create_srq_out_bits, srqn), number);
    Ok(())
}

fn create_xrc_srq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let field = field!(mlx5_ifc_create_xrc_srq_in_bits, xrc_srq_context_entry);
    let context = input.bytes(field);
    let get = |field| ifc::get(context, field);
    let high = get(field!(mlx5_ifc_xrc_srqc_bits, db_record_addr_h));
    let low = get(field!(mlx5_ifc_xrc_srqc_bits, db_record_addr_l));
    let user_index = get(field!(mlx5_ifc_xrc_srqc_bits, user_index));
    let record = (u64::from(high) << 32) | (u64::from(low) << 2);
    let common = Common {
        kind: SrqKind::Xrc,
        context: context.to_vec(),
        pd: get(field!(mlx5_ifc_xrc_srqc_bits, pd)),
        extended: Some(Extended {
            xrcd: get(field!(mlx5_ifc_xrc_srqc_bits, xrcd)),
            cqn: get(field!(mlx5_ifc_xrc_srqc_bits, cqn)),
            user_index: (user_index != NO_USER_INDEX).then_some(user_index),
        }),
        log_size: get(field!(mlx5_ifc_xrc_srqc_bits, log_xrc_srq_size)),
        log_stride: get(field!(mlx5_ifc_xrc_srqc_bits, log_rq_stride)) + 4,
        log_page_size: get(field!(mlx5_ifc_xrc_srqc_bits, log_page_size)),
        page_offset: get(field!(mlx5_ifc_xrc_srqc_bits, page_offset)).into(),
        record,
        cyclic: get(field!(mlx5_ifc_xrc_srqc_bits, basic_cyclic_rcv_wqe)) != 0,
        limit: get(field!(mlx5_ifc_xrc_srqc_bits, lwm)),
    };
    let pages = input.tail(field!(mlx5_ifc_create_xrc_srq_in_bits, pas));
    let number = create(hca, common, pages)?;
    out.set(field!(mlx5_ifc_create_xrc_srq_out_bits, xrc_srqn), number);
    Ok(())
}

fn create_rmp(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = input.bytes(field!(mlx5_ifc_create_rmp_in_bits, ctx));
    let get = |field| ifc::get(context, field);
    if get(field!(mlx5_ifc_rmpc_bits, state)) != RMP_READY {
        return bad_param("an RMP has one state");
    }
    let cyclic = match get(field!(mlx5_ifc_rmpc_bits, wq.wq_type)) {
        WQ_LINKED_LIST => false,
        WQ_CYCLIC => true,
        _ => return bad_param("striding RMP"),
    };
    let common = Common {
        kind: SrqKind::Rmp,
        context: context.to_vec(),
        pd: get(field!(mlx5_ifc_rmpc_bits, wq.pd)),
        extended: None,
        log_size: get(field!(mlx5_ifc_rmpc_bits, wq.log_wq_sz)),
        log_stride: get(field!(mlx5_ifc_rmpc_bits, wq.log_wq_stride)),
        log_page_size: get(field!(mlx5_ifc_rmpc_bits, wq.log_wq_pg_sz)),
        page_offset: get(field!(mlx5_ifc_rmpc_bits, wq.page_offset)).into(),
        record: ifc::get64(context, field!(mlx5_ifc_rmpc_bits, wq.dbr_addr)),
        cyclic,
        limit: get(field!(mlx5_ifc_rmpc_bits, wq.lwm)),
    };
    let pages = input.tail(field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.pas));
    let number = create(hca, common, pages)?;
    out.set(field!(mlx5_ifc_create_rmp_out_bits, rmpn), number);
    Ok(())
}

/// `rmpc.state`: the only state that a queue can be in or set to.
const RMP_READY: u32 = 1;

/// `wq.wq_type` (`MLX5_WQ_TYPE_*`).
const WQ_LINKED_LIST: u32 = 0;
const WQ_CYCLIC: u32 = 1;

fn modify_rmp(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_modify_rmp_in_bits, rmpn));
    if input.get(field!(mlx5_ifc_modify_rmp_in_bits, ctx.state)) != RMP_READY {
        return bad_param("an RMP has one state");
    }
    find(hca, number, SrqKind::Rmp)?;
    if input.flag(field!(mlx5_ifc_modify_rmp_in_bits, bitmask.lwm)) {
        let limit = input.get(field!(mlx5_ifc_modify_rmp_in_bits, ctx.wq.lwm));
        arm(hca, number, SrqKind::Rmp, limit)?;
    }
    Ok(())
}

fn query_srq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_query_srq_in_bits, srqn));
    let srq = find(hca, number, SrqKind::Basic)?;
    let mut context = srq.config.context.clone();
    let limit = srq.limit().into();
    ifc::set(&mut context, field!(mlx5_ifc_srqc_bits, lwm), limit);
    let field = field!(mlx5_ifc_query_srq_out_bits, srq_context_entry);
    out.put_at(field, &context);
    Ok(())
}

fn query_xrc_srq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_query_xrc_srq_in_bits, xrc_srqn));
    let srq = find(hca, number, SrqKind::Xrc)?;
    let mut context = srq.config.context.clone();
    let limit = srq.limit().into();
    ifc::set(&mut context, field!(mlx5_ifc_xrc_srqc_bits, lwm), limit);
    let field = field!(mlx5_ifc_query_xrc_srq_out_bits, xrc_srq_context_entry);
    out.put_at(field, &context);
    Ok(())
}

fn query_rmp(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_query_rmp_in_bits, rmpn));
    let srq = find(hca, number, SrqKind::Rmp)?;
    let mut context = srq.config.context.clone();
    let limit = srq.limit().into();
    ifc::set(&mut context, field!(mlx5_ifc_rmpc_bits, wq.lwm), limit);
    // `rmpc.state`: 1 ready, 3 error.
    let state = if srq.failed() { 3 } else { RMP_READY };
    ifc::set(&mut context, field!(mlx5_ifc_rmpc_bits, state), state);
    out.put_at(field!(mlx5_ifc_query_rmp_out_bits, rmp_context), &context);
    Ok(())
}
