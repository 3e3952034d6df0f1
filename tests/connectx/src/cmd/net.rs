// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of the netdev's queues: SQ and RQ.

use super::{bad_param, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::hca::Hca;
use crate::ifc::{self, Field};
use crate::net::rq::{self, Rq};
use crate::net::sq::{Sq, State};
use crate::net::wq::WorkQueue;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    command!(
        0x904,
        "CREATE_SQ",
        mlx5_ifc_create_sq_in_bits,
        0x10,
        create_sq
    ),
    command!(0x905, "MODIFY_SQ", mlx5_ifc_modify_sq_in_bits, 8, modify_sq),
    command!(
        0x906,
        "DESTROY_SQ",
        mlx5_ifc_destroy_sq_in_bits,
        8,
        destroy_sq
    ),
    command!(
        0x907,
        "QUERY_SQ",
        mlx5_ifc_query_sq_in_bits,
        0x110,
        query_sq
    ),
    command!(
        0x908,
        "CREATE_RQ",
        mlx5_ifc_create_rq_in_bits,
        0x10,
        create_rq
    ),
    command!(0x909, "MODIFY_RQ", mlx5_ifc_modify_rq_in_bits, 8, modify_rq),
    command!(
        0x90a,
        "DESTROY_RQ",
        mlx5_ifc_destroy_rq_in_bits,
        8,
        destroy_rq
    ),
    command!(
        0x90b,
        "QUERY_RQ",
        mlx5_ifc_query_rq_in_bits,
        0x110,
        query_rq
    ),
];

/// The `wq` structure with its page list: the end of CREATE_SQ and CREATE_RQ.
fn work_queue(input: Input<'_>, wq: Field) -> CmdResult<WorkQueue> {
    WorkQueue::parse(input.0.get(wq.byte_offset()..).unwrap_or(&[]))
}

fn create_sq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = input.copy::<0x30>(field!(mlx5_ifc_create_sq_in_bits, ctx));
    let wq = work_queue(input, field!(mlx5_ifc_create_sq_in_bits, ctx.wq))?;
    if wq.stride() != 64 {
        return Err(CmdError::new(Status::BadSize, "stride of an SQ is not 64"));
    }
    if ifc::get(&context, field!(mlx5_ifc_sqc_bits, hairpin)) != 0 {
        return bad_param("hairpin queue");
    }
    let cqn = ifc::get(&context, field!(mlx5_ifc_sqc_bits, cqn));
    let uar = input.get(field!(mlx5_ifc_create_sq_in_bits, ctx.wq.uar_page));
    let tis = match ifc::get(&context, field!(mlx5_ifc_sqc_bits, tis_lst_sz)) {
        0 => None,
        1 => Some(ifc::get(&context, field!(mlx5_ifc_sqc_bits, tis_num_0))),
        _ => return bad_param("more than one TIS"),
    };
    let pd = wq.pd;
    hca.cqs.table.find(cqn)?;
    hca.uars.find(uar)?;
    if pd != 0 {
        hca.pds.find(pd)?;
    }
    if let Some(tis) = tis {
        hca.net.tiss.find(tis)?;
    }
    let sqn = hca.net.sqs.insert(Sq::new(wq, cqn, uar, tis, context))?;
    hca.cqs.table.hold(cqn)?;
    hca.uars.hold(uar)?;
    if pd != 0 {
        hca.pds.hold(pd)?;
    }
    if let Some(tis) = tis {
        hca.net.tiss.hold(tis)?;
    }
    out.set(field!(mlx5_ifc_create_sq_out_bits, sqn), sqn);
    Ok(())
}

/// Moves a queue on. The driver names the state that it believes the queue to be in.
fn next_state(current: State, believed: u32, wanted: u32) -> CmdResult<State> {
    if State::from_number(believed) != Some(current) {
        return Err(CmdError::new(
            Status::BadResState,
            "queue is in another state",
        ));
    }
    match (current, State::from_number(wanted)) {
        (State::Reset, Some(State::Ready | State::Reset))
        | (State::Ready, Some(State::Ready | State::Error | State::Reset))
        | (State::Error, Some(State::Reset | State::Error)) => {}
        _ => return Err(CmdError::new(Status::BadResState, "no such transition")),
    }
    State::from_number(wanted).ok_or(CmdError::new(Status::BadParam, "unknown state"))
}

fn modify_sq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let sqn = input.get(field!(mlx5_ifc_modify_sq_in_bits, sqn));
    if input.get64(field!(mlx5_ifc_modify_sq_in_bits, modify_bitmask)) != 0 {
        return bad_param("rate limit or priority of a send queue");
    }
    let sq = hca.net.sqs.find_mut(sqn)?;
    let believed = input.get(field!(mlx5_ifc_modify_sq_in_bits, sq_state));
    let wanted = input.get(field!(mlx5_ifc_modify_sq_in_bits, ctx.state));
    let next = next_state(sq.state, believed, wanted)?;
    sq.set_state(next);
    if next == State::Error {
        hca.net.schedule(sqn);
    }
    Ok(())
}

fn destroy_sq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let sqn = input.get(field!(mlx5_ifc_destroy_sq_in_bits, sqn));
    let sq = hca.net.sqs.remove(sqn)?;
    hca.cqs.table.release(sq.cqn);
    hca.uars.release(sq.uar);
    hca.pds.release(sq.wq.pd);
    if let Some(tis) = sq.tis {
        hca.net.tiss.release(tis);
    }
    Ok(())
}

fn query_sq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let sqn = input.get(field!(mlx5_ifc_query_sq_in_bits, sqn));
    let sq = hca.net.sqs.find(sqn)?;
    let base = field!(mlx5_ifc_query_sq_out_bits, sq_context).byte_offset();
    out.put(base, &[0; size!(mlx5_ifc_sqc_bits)]);
    out.put(base, &sq.context);
    let state = field!(mlx5_ifc_query_sq_out_bits, sq_context.state);
    out.set(state, sq.state as u32);
    Ok(())
}

fn create_rq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = input.copy::<0x30>(field!(mlx5_ifc_create_rq_in_bits, ctx));
    if ifc::get(&context, field!(mlx5_ifc_rqc_bits, mem_rq_type)) != 0 {
        return bad_param("receive queue without WQEs of its own");
    }
    if ifc::get(&context, field!(mlx5_ifc_rqc_bits, hairpin)) != 0 {
        return bad_param("hairpin queue");
    }
    if ifc::flag(&context, field!(mlx5_ifc_rqc_bits, scatter_fcs))
        || ifc::flag(&context, field!(mlx5_ifc_rqc_bits, delay_drop_en))
    {
        return bad_param("frames with FCS, or frames that wait for a WQE");
    }
    let wq = work_queue(input, field!(mlx5_ifc_create_rq_in_bits, ctx.wq))?;
    let cqn = ifc::get(&context, field!(mlx5_ifc_rqc_bits, cqn));
    let pd = wq.pd;
    hca.cqs.table.find(cqn)?;
    if pd != 0 {
        hca.pds.find(pd)?;
    }
    let rqn = hca.net.rqs.insert(Rq::new(wq, cqn, context))?;
    hca.cqs.table.hold(cqn)?;
    if pd != 0 {
        hca.pds.hold(pd)?;
    }
    out.set(field!(mlx5_ifc_create_rq_out_bits, rqn), rqn);
    Ok(())
}

/// The bit of `modify_rq_in.modify_bitmask` for VLAN stripping; the others are not offered.
const MODIFY_VSD: u64 = 1 << 1;

fn modify_rq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let rqn = input.get(field!(mlx5_ifc_modify_rq_in_bits, rqn));
    let select = input.get64(field!(mlx5_ifc_modify_rq_in_bits, modify_bitmask));
    if select & !MODIFY_VSD != 0 {
        return bad_param("counters or FCS of a receive queue");
    }
    let rq = hca.net.rqs.find_mut(rqn)?;
    let believed = input.get(field!(mlx5_ifc_modify_rq_in_bits, rq_state));
    let wanted = input.get(field!(mlx5_ifc_modify_rq_in_bits, ctx.state));
    let next = next_state(rq.state, believed, wanted)?;
    rq.set_state(next);
    if select & MODIFY_VSD != 0 {
        let vsd = input.get(field!(mlx5_ifc_modify_rq_in_bits, ctx.vsd));
        ifc::set(&mut rq.context, field!(mlx5_ifc_rqc_bits, vsd), vsd);
    }
    if next == State::Error {
        rq::fail(hca, rqn);
    }
    Ok(())
}

fn destroy_rq(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let rqn = input.get(field!(mlx5_ifc_destroy_rq_in_bits, rqn));
    let rq = hca.net.rqs.remove(rqn)?;
    hca.cqs.table.release(rq.cqn);
    hca.pds.release(rq.wq.pd);
    Ok(())
}

fn query_rq(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let rqn = input.get(field!(mlx5_ifc_query_rq_in_bits, rqn));
    let rq = hca.net.rqs.find(rqn)?;
    let base = field!(mlx5_ifc_query_rq_out_bits, rq_context).byte_offset();
    out.put(base, &[0; size!(mlx5_ifc_rqc_bits)]);
    out.put(base, &rq.context);
    let state = field!(mlx5_ifc_query_rq_out_bits, rq_context.state);
    out.set(state, rq.state as u32);
    Ok(())
}
