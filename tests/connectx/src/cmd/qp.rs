// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of queue pairs.

use super::{bad_param, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::buffer::QueueBuffer;
use crate::caps::{LOG_MAX_QP_SIZE, MAX_WQE_SIZE_RQ};
use crate::hca::Hca;
use crate::ifc;
use crate::qp::context::{unsupported, Attributes, Context, ReceiveKind, Service};
use crate::qp::receive::ReceiveRing;
use crate::qp::ring::SendRing;
use crate::qp::state::{self, State, Transition};
use crate::qp::{env, Qp, Uses};
use crate::{field, size};

macro_rules! modify {
    ($opcode:literal, $name:literal, $transition:path) => {
        Command {
            opcode: $opcode,
            name: $name,
            // All of them have the layout of RST2INIT_QP.
            min_in: size!(mlx5_ifc_rst2init_qp_in_bits),
            min_out: 8,
            handler: |hca, input, out| modify(hca, input, out, &$transition),
        }
    };
}

pub(super) const COMMANDS: &[Command] = &[
    Command {
        opcode: 0x500,
        name: "CREATE_QP",
        min_in: size!(mlx5_ifc_create_qp_in_bits),
        min_out: size!(mlx5_ifc_create_qp_out_bits),
        handler: create_qp,
    },
    Command {
        opcode: 0x501,
        name: "DESTROY_QP",
        min_in: size!(mlx5_ifc_destroy_qp_in_bits),
        min_out: 8,
        handler: destroy_qp,
    },
    modify!(0x502, "RST2INIT_QP", state::RST2INIT),
    modify!(0x503, "INIT2RTR_QP", state::INIT2RTR),
    modify!(0x504, "RTR2RTS_QP", state::RTR2RTS),
    modify!(0x505, "RTS2RTS_QP", state::RTS2RTS),
    modify!(0x506, "SQERR2RTS_QP", state::SQERR2RTS),
    Command {
        opcode: 0x507,
        name: "2ERR_QP",
        min_in: size!(mlx5_ifc_qp_2err_in_bits),
        min_out: 8,
        handler: |hca, input, out| modify(hca, input, out, &state::TO_ERROR),
    },
    Command {
        opcode: 0x50a,
        name: "2RST_QP",
        min_in: size!(mlx5_ifc_qp_2rst_in_bits),
        min_out: 8,
        handler: |hca, input, out| modify(hca, input, out, &state::TO_RESET),
    },
    Command {
        opcode: 0x50b,
        name: "QUERY_QP",
        min_in: size!(mlx5_ifc_query_qp_in_bits),
        min_out: size!(mlx5_ifc_create_qp_in_bits),
        handler: query_qp,
    },
    modify!(0x50c, "SQD_RTS_QP", state::SQD2RTS),
    modify!(0x50e, "INIT2INIT_QP", state::INIT2INIT),
];

/// Send and receive ring that a context describes, and their buffer.
fn rings(
    context: &Context,
    attributes: &Attributes,
    pages: &[u8],
) -> CmdResult<(QueueBuffer, Option<SendRing>, Option<ReceiveRing>)> {
    let get = |field| ifc::get(context, field);
    let log_rq = get(field!(mlx5_ifc_qpc_bits, log_rq_size));
    let log_sq = get(field!(mlx5_ifc_qpc_bits, log_sq_size));
    if log_rq.max(log_sq) > LOG_MAX_QP_SIZE {
        return Err(CmdError::new(Status::BadSize, "queue is too large"));
    }
    let stride = 16u32 << get(field!(mlx5_ifc_qpc_bits, log_rq_stride));
    let receive = (attributes.receive == ReceiveKind::Own)
        .then(|| ReceiveRing::new(log_rq as u8, stride as usize));
    if receive.is_some() && stride > MAX_WQE_SIZE_RQ {
        return Err(CmdError::new(Status::BadSize, "receive WQE is too large"));
    }
    let receive_len = receive.as_ref().map_or(0, ReceiveRing::bytes);
    let send = (get(field!(mlx5_ifc_qpc_bits, no_sq)) == 0)
        .then(|| SendRing::new(log_sq as u8, receive_len));
    let buffer = QueueBuffer::new(
        QueueBuffer::page_list(pages),
        get(field!(mlx5_ifc_qpc_bits, log_page_size)),
        get(field!(mlx5_ifc_qpc_bits, page_offset)).into(),
        receive_len + send.as_ref().map_or(0, SendRing::bytes),
    )
    .map_err(|_| CmdError::new(Status::BadInputLen, "pages do not hold the queues"))?;
    Ok((buffer, send, receive))
}

/// Objects that a queue pair with these attributes uses.
fn uses(uar: u32, attributes: &Attributes, has_send: bool) -> Uses {
    // The driver's own queue pair for UMR is created before it has a domain.
    let homeless = attributes.service == Service::RegUmr && attributes.pd == 0;
    // An XRC responder has no doorbell, and the driver names no page (`create_xrc_tgt_qp`). What an XRC queue pair
    // receives completes where the shared receive queue says; its own receive CQ number is zero from RST2INIT on
    // (`get_cqs`, both in `drivers/infiniband/hw/mlx5/qp.c`).
    let xrc = attributes.service == Service::Xrc;
    Uses {
        uar: (has_send || !xrc).then_some(uar),
        pd: (!homeless).then_some(attributes.pd),
        send_cq: has_send.then_some(attributes.send_cq),
        receive_cq: (attributes.receive != ReceiveKind::None && !xrc)
            .then_some(attributes.receive_cq),
        xrcd: xrc.then_some(attributes.xrcd),
        srq: match attributes.receive {
            ReceiveKind::Shared(number) => Some(number),
            _ => None,
        },
    }
}

/// Takes references on what is used; all or none.
fn hold(hca: &mut Hca, uses: &Uses) -> CmdResult {
    let mut held = Uses::default();
    let result = (|| {
        if let Some(uar) = uses.uar {
            hca.uars.hold(uar)?;
            held.uar = uses.uar;
        }
        if let Some(pd) = uses.pd {
            hca.pds.hold(pd)?;
            held.pd = uses.pd;
        }
        if let Some(cqn) = uses.send_cq {
            hca.cqs.table.hold(cqn)?;
            held.send_cq = uses.send_cq;
        }
        if let Some(cqn) = uses.receive_cq {
            hca.cqs.table.hold(cqn)?;
            held.receive_cq = uses.receive_cq;
        }
        if let Some(number) = uses.srq {
            hca.srqs.table.hold(number)?;
            held.srq = uses.srq;
        }
        if let Some(number) = uses.xrcd {
            hca.xrcds.hold(number)?;
            held.xrcd = uses.xrcd;
        }
        Ok(())
    })();
    if result.is_err() {
        release(hca, &held);
    }
    result
}

fn release(hca: &mut Hca, uses: &Uses) {
    if let Some(uar) = uses.uar {
        hca.uars.release(uar);
    }
    if let Some(pd) = uses.pd {
        hca.pds.release(pd);
    }
    for cqn in [uses.send_cq, uses.receive_cq].into_iter().flatten() {
        hca.cqs.table.release(cqn);
    }
    if let Some(number) = uses.srq {
        hca.srqs.table.release(number);
    }
    if let Some(number) = uses.xrcd {
        hca.xrcds.release(number);
    }
}

fn decode(context: &Context) -> CmdResult<Attributes> {
    if let Some(what) = unsupported(context) {
        return bad_param(what);
    }
    Attributes::decode(context).ok_or(CmdError::new(Status::BadParam, "unknown transport service"))
}

/// An XRC SRQ serves XRC queue pairs alone: it says itself where its receives complete.
fn check_srq(hca: &Hca, attributes: &Attributes) -> CmdResult {
    match attributes.receive {
        ReceiveKind::Shared(number) if attributes.service != Service::Xrc => {
            let srq = hca.srqs.table.find(number)?;
            match srq.config.extended {
                Some(_) => Err(CmdError::new(Status::BadRes, "XRC SRQ")),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn create_qp(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context: Context = input.copy(field!(mlx5_ifc_create_qp_in_bits, qpc));
    let pages = input.tail(field!(mlx5_ifc_create_qp_in_bits, pas));
    let attributes = decode(&context)?;
    check_srq(hca, &attributes)?;
    let (buffer, send, receive) = rings(&context, &attributes, pages)?;
    let uar = ifc::get(&context, field!(mlx5_ifc_qpc_bits, uar_page));
    let uses = uses(uar, &attributes, send.is_some());
    hold(hca, &uses)?;
    let mut qp = Qp::new(context, attributes, buffer, send, receive);
    qp.uses = uses;
    match hca.qps.insert(qp) {
        Ok(number) => {
            out.set(field!(mlx5_ifc_create_qp_out_bits, qpn), number);
            out.set(field!(mlx5_ifc_create_qp_out_bits, ece), 0);
            Ok(())
        }
        Err(error) => {
            release(hca, &uses);
            Err(error)
        }
    }
}

fn destroy_qp(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_destroy_qp_in_bits, qpn));
    let qp = hca.qps.remove(number)?;
    drain(hca, &qp.uses);
    release(hca, &qp.uses);
    Ok(())
}

/// Writes the completions that are still on their way: none of a queue pair comes after it is gone.
fn drain(hca: &mut Hca, uses: &Uses) {
    let Hca { cqs, eqs, io, .. } = hca;
    for cqn in [uses.send_cq, uses.receive_cq].into_iter().flatten() {
        cqs.drain(cqn, eqs, io);
    }
}

fn modify(
    hca: &mut Hca,
    input: Input<'_>,
    out: &mut OutputBox,
    transition: &Transition,
) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_rst2init_qp_in_bits, qpn));
    let optional = input.get(field!(mlx5_ifc_rst2init_qp_in_bits, opt_param_mask));
    let given: Context = input.copy(field!(mlx5_ifc_rst2init_qp_in_bits, qpc));
    let qp = hca.qps.table.find(number)?;
    // 2ERR and 2RST have no mask: what stands there is reserved.
    let optional = match transition.to {
        State::Error | State::Reset => 0,
        _ => optional,
    };
    let context = transition.apply(qp.state, &qp.context, &given, optional)?;
    let attributes = decode(&context)?;
    check_path(hca, transition, &attributes)?;
    let qp = hca.qps.table.find(number)?;
    check_indices(hca, &context, &attributes, &qp.attributes)?;
    let old = qp.uses;
    let new = uses(qp.uar, &attributes, qp.send.is_some());
    if old != new {
        hold(hca, &new)?;
        release(hca, &old);
    }
    let (qps, mut env) = env::split(hca);
    if let Some(qp) = qps.table.get_mut(number) {
        qp.uses = new;
        qp.enter(&mut env, transition.to, context, attributes);
    }
    qps.schedule(number);
    if transition.to == State::Reset {
        drain(hca, &old);
    }
    out.set(field!(mlx5_ifc_rst2init_qp_out_bits, ece), 0);
    Ok(())
}

/// Packets need a virtual port that speaks RoCE, and those of a connection a source address that can exist.
fn check_path(hca: &Hca, transition: &Transition, attributes: &Attributes) -> CmdResult {
    // The driver's own queue pair for UMR sends none.
    if transition.to != State::ReadyToReceive || attributes.service == Service::RegUmr {
        return Ok(());
    }
    if !hca.vport.speaks_roce() {
        return bad_param("RoCE is off on the virtual port");
    }
    if !attributes.service.is_connected() {
        return Ok(());
    }
    if hca.gids.get(attributes.path.src_index.into()).is_none() {
        return Err(CmdError::new(
            Status::BadIndex,
            "no source address at this index",
        ));
    }
    Ok(())
}

/// The set of counters, if it is another one now, and the P_Key have to be there. A RoCE port has one P_Key
/// (`pkey_tbl_len` of `mlx5_query_port_roce` in the kernel): the other entries of the table are empty.
fn check_indices(hca: &Hca, context: &Context, new: &Attributes, old: &Attributes) -> CmdResult {
    // Set 0 counts for nobody.
    if new.counter_set != old.counter_set && new.counter_set != 0 {
        hca.q_counters.find(new.counter_set)?;
    }
    let pkey = field!(mlx5_ifc_qpc_bits, primary_address_path.pkey_index);
    if ifc::get(context, pkey) != 0 {
        return Err(CmdError::new(Status::BadIndex, "no P_Key at this index"));
    }
    Ok(())
}

fn query_qp(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let number = input.get(field!(mlx5_ifc_query_qp_in_bits, qpn));
    let qp = hca.qps.table.find(number)?;
    out.set(field!(mlx5_ifc_query_qp_out_bits, opt_param_mask), 0);
    out.set(field!(mlx5_ifc_query_qp_out_bits, ece), 0);
    out.put_at(
        field!(mlx5_ifc_query_qp_out_bits, qpc),
        &current_context(qp),
    );
    // The page list follows where CREATE_QP has it.
    let pas = field!(mlx5_ifc_create_qp_in_bits, pas);
    out.put_u64s(pas, qp.buffer.pages());
    Ok(())
}

/// The context with what has changed since it was set.
fn current_context(qp: &Qp) -> Context {
    let mut context = qp.context;
    let mut set = |field, value| ifc::set(&mut context, field, value);
    set(field!(mlx5_ifc_qpc_bits, state), qp.state as u32);
    if qp.state.receives() {
        set(
            field!(mlx5_ifc_qpc_bits, next_rcv_psn),
            qp.responder.expected_psn,
        );
        set(field!(mlx5_ifc_qpc_bits, rmsn), qp.responder.msn);
    }
    if qp.state.sends() {
        set(
            field!(mlx5_ifc_qpc_bits, next_send_psn),
            qp.requester.next_psn,
        );
        set(
            field!(mlx5_ifc_qpc_bits, last_acked_psn),
            crate::wire::psn_add(qp.requester.unacked, u32::MAX),
        );
    }
    set(
        field!(mlx5_ifc_qpc_bits, cur_retry_count),
        qp.requester.retries,
    );
    set(
        field!(mlx5_ifc_qpc_bits, cur_rnr_retry),
        qp.requester.rnr_retries,
    );
    if let Some(ring) = &qp.send {
        set(
            field!(mlx5_ifc_qpc_bits, hw_sq_wqebb_counter),
            ring.fetched().into(),
        );
        set(
            field!(mlx5_ifc_qpc_bits, sw_sq_wqebb_counter),
            ring.posted().into(),
        );
    }
    if let Some(ring) = &qp.receive {
        set(
            field!(mlx5_ifc_qpc_bits, hw_rq_counter),
            ring.consumed().into(),
        );
        set(
            field!(mlx5_ifc_qpc_bits, sw_rq_counter),
            ring.posted().into(),
        );
    }
    context
}
