// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of objects that are little more than a number: protection domains, UAR pages, XRC
//! and transport domains, Q counter sets.

use super::{CmdResult, Command, Input, OutputBox};
use crate::hca::{Hca, Pd, QCounters, TransportDomain, Uar, Xrcd};
use crate::ifc::Field;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    command!(0x800, "ALLOC_PD", mlx5_ifc_alloc_pd_in_bits, alloc_pd),
    command!(0x801, "DEALLOC_PD", mlx5_ifc_dealloc_pd_in_bits, dealloc_pd),
    command!(0x802, "ALLOC_UAR", mlx5_ifc_alloc_uar_in_bits, alloc_uar),
    command!(
        0x803,
        "DEALLOC_UAR",
        mlx5_ifc_dealloc_uar_in_bits,
        dealloc_uar
    ),
    command!(0x80e, "ALLOC_XRCD", mlx5_ifc_alloc_xrcd_in_bits, alloc_xrcd),
    command!(
        0x80f,
        "DEALLOC_XRCD",
        mlx5_ifc_dealloc_xrcd_in_bits,
        dealloc_xrcd
    ),
    command!(
        0x816,
        "ALLOC_TRANSPORT_DOMAIN",
        mlx5_ifc_alloc_transport_domain_in_bits,
        alloc_td
    ),
    command!(
        0x817,
        "DEALLOC_TRANSPORT_DOMAIN",
        mlx5_ifc_dealloc_transport_domain_in_bits,
        dealloc_td
    ),
    command!(
        0x771,
        "ALLOC_Q_COUNTER",
        mlx5_ifc_alloc_q_counter_in_bits,
        alloc_q_counter
    ),
    command!(
        0x772,
        "DEALLOC_Q_COUNTER",
        mlx5_ifc_dealloc_q_counter_in_bits,
        dealloc_q_counter
    ),
    Command {
        opcode: 0x773,
        name: "QUERY_Q_COUNTER",
        min_in: size!(mlx5_ifc_query_q_counter_in_bits),
        min_out: size!(mlx5_ifc_query_q_counter_out_bits),
        handler: query_q_counter,
    },
];

fn alloc_pd(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    out.set(field!(mlx5_ifc_alloc_pd_out_bits, pd), hca.pds.insert(Pd)?);
    Ok(())
}

fn dealloc_pd(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    hca.pds
        .remove(input.get(field!(mlx5_ifc_dealloc_pd_in_bits, pd)))?;
    Ok(())
}

fn alloc_uar(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let uar = hca.uars.insert(Uar::default())?;
    out.set(field!(mlx5_ifc_alloc_uar_out_bits, uar), uar);
    Ok(())
}

fn dealloc_uar(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    hca.uars
        .remove(input.get(field!(mlx5_ifc_dealloc_uar_in_bits, uar)))?;
    Ok(())
}

fn alloc_xrcd(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    out.set(
        field!(mlx5_ifc_alloc_xrcd_out_bits, xrcd),
        hca.xrcds.insert(Xrcd)?,
    );
    Ok(())
}

fn dealloc_xrcd(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    hca.xrcds
        .remove(input.get(field!(mlx5_ifc_dealloc_xrcd_in_bits, xrcd)))?;
    Ok(())
}

fn alloc_td(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let td = hca.transport_domains.insert(TransportDomain)?;
    out.set(
        field!(mlx5_ifc_alloc_transport_domain_out_bits, transport_domain),
        td,
    );
    Ok(())
}

fn dealloc_td(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let field = field!(mlx5_ifc_dealloc_transport_domain_in_bits, transport_domain);
    hca.transport_domains.remove(input.get(field))?;
    Ok(())
}

fn alloc_q_counter(hca: &mut Hca, _: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let set = hca.q_counters.insert(QCounters::default())?;
    out.set(
        field!(mlx5_ifc_alloc_q_counter_out_bits, counter_set_id),
        set,
    );
    Ok(())
}

fn dealloc_q_counter(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let field = field!(mlx5_ifc_dealloc_q_counter_in_bits, counter_set_id);
    hca.q_counters.remove(input.get(field))?;
    Ok(())
}

fn query_q_counter(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    // Everything from the first counter on is answered; what is not counted is zero.
    let len = out.len();
    out.put(0x10, &vec![0; len.saturating_sub(0x10)]);
    let mut total = QCounters::default();
    let field = field!(mlx5_ifc_query_q_counter_in_bits, counter_set_id);
    if input.flag(field!(mlx5_ifc_query_q_counter_in_bits, aggregate)) {
        for (_, set) in hca.q_counters.iter() {
            total.add(set);
        }
    } else {
        let set = hca.q_counters.find_mut(input.get(field))?;
        total.add(set);
        if input.flag(field!(mlx5_ifc_query_q_counter_in_bits, clear)) {
            *set = QCounters::default();
        }
    }
    for (field, value) in q_counter_fields(&total) {
        out.set(field, value);
    }
    Ok(())
}

/// Where each counter stands in the answer.
fn q_counter_fields(c: &QCounters) -> [(Field, u32); 12] {
    macro_rules! counter {
        ($name:ident) => {
            (field!(mlx5_ifc_query_q_counter_out_bits, $name), c.$name)
        };
    }
    [
        counter!(rx_write_requests),
        counter!(rx_read_requests),
        counter!(rx_atomic_requests),
        counter!(out_of_buffer),
        counter!(out_of_sequence),
        counter!(duplicate_request),
        counter!(rnr_nak_retry_err),
        counter!(packet_seq_err),
        counter!(implied_nak_seq_err),
        counter!(local_ack_timeout_err),
        counter!(req_remote_access_errors),
        counter!(resp_remote_access_errors),
    ]
}
