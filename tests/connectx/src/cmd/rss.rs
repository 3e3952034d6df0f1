// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of what spreads frames over the netdev's queues: TIS, TIR and RQT.

use super::{bad_param, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::caps::LOG_MAX_RQT_SIZE;
use crate::hca::Hca;
use crate::ifc::{self, Field};
use crate::net::rss::{Rqt, Target, Tir};
use crate::net::Tis;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[
    command!(
        0x900,
        "CREATE_TIR",
        mlx5_ifc_create_tir_in_bits,
        0x10,
        create_tir
    ),
    command!(
        0x901,
        "MODIFY_TIR",
        mlx5_ifc_modify_tir_in_bits,
        8,
        modify_tir
    ),
    command!(
        0x902,
        "DESTROY_TIR",
        mlx5_ifc_destroy_tir_in_bits,
        8,
        destroy_tir
    ),
    command!(
        0x912,
        "CREATE_TIS",
        mlx5_ifc_create_tis_in_bits,
        0x10,
        create_tis
    ),
    command!(
        0x914,
        "DESTROY_TIS",
        mlx5_ifc_destroy_tis_in_bits,
        8,
        destroy_tis
    ),
    command!(
        0x916,
        "CREATE_RQT",
        mlx5_ifc_create_rqt_in_bits,
        0x10,
        create_rqt
    ),
    command!(
        0x917,
        "MODIFY_RQT",
        mlx5_ifc_modify_rqt_in_bits,
        8,
        modify_rqt
    ),
    command!(
        0x918,
        "DESTROY_RQT",
        mlx5_ifc_destroy_rqt_in_bits,
        8,
        destroy_rqt
    ),
];

fn create_tis(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let field = field!(mlx5_ifc_create_tis_in_bits, ctx.transport_domain);
    let transport_domain = input.get(field);
    hca.transport_domains.find(transport_domain)?;
    let tisn = hca.net.tiss.insert(Tis { transport_domain })?;
    hca.transport_domains.hold(transport_domain)?;
    out.set(field!(mlx5_ifc_create_tis_out_bits, tisn), tisn);
    Ok(())
}

fn destroy_tis(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let tisn = input.get(field!(mlx5_ifc_destroy_tis_in_bits, tisn));
    let tis = hca.net.tiss.remove(tisn)?;
    hca.transport_domains.release(tis.transport_domain);
    Ok(())
}

fn create_tir(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let tir = Tir {
        context: input.copy(field!(mlx5_ifc_create_tir_in_bits, ctx)),
    };
    let get = |field| ifc::get(&tir.context, field);
    if get(field!(mlx5_ifc_tirc_bits, packet_merge_mask)) != 0
        || get(field!(mlx5_ifc_tirc_bits, tunneled_offload_en)) != 0
        || get(field!(mlx5_ifc_tirc_bits, tls_en)) != 0
    {
        return bad_param("LRO, tunnels or TLS of a TIR");
    }
    let td = tir.transport_domain();
    hca.transport_domains.find(td)?;
    match tir.target() {
        Target::Rq(rqn) => hca.net.rqs.hold(rqn)?,
        Target::Rqt(rqtn) => hca.net.rqts.hold(rqtn)?,
    }
    let target = tir.target();
    let tirn = match hca.net.tirs.insert(tir) {
        Ok(tirn) => tirn,
        Err(error) => {
            release_target(hca, target);
            return Err(error);
        }
    };
    hca.transport_domains.hold(td)?;
    out.set(field!(mlx5_ifc_create_tir_out_bits, tirn), tirn);
    Ok(())
}

fn release_target(hca: &mut Hca, target: Target) {
    match target {
        Target::Rq(rqn) => hca.net.rqs.release(rqn),
        Target::Rqt(rqtn) => hca.net.rqts.release(rqtn),
    }
}

fn modify_tir(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let tirn = input.get(field!(mlx5_ifc_modify_tir_in_bits, tirn));
    let tir = hca.net.tirs.find_mut(tirn)?;
    let new = input.bytes(field!(mlx5_ifc_modify_tir_in_bits, ctx));
    let merge = field!(mlx5_ifc_modify_tir_in_bits, bitmask.packet_merge);
    if input.flag(merge) && ifc::flag(new, field!(mlx5_ifc_tirc_bits, packet_merge_mask)) {
        return bad_param("LRO of a TIR");
    }
    macro_rules! take {
        ($($($name:ident).+),+) => {$(
            let field = field!(mlx5_ifc_tirc_bits, $($name).+);
            ifc::set64(&mut tir.context, field, ifc::get64(new, field));
        )+};
    }
    if input.flag(field!(mlx5_ifc_modify_tir_in_bits, bitmask.self_lb_en)) {
        take!(self_lb_block);
    }
    if input.flag(field!(mlx5_ifc_modify_tir_in_bits, bitmask.hash)) {
        take!(
            rx_hash_fn,
            rx_hash_symmetric,
            rx_hash_field_selector_outer.l3_prot_type,
            rx_hash_field_selector_outer.l4_prot_type,
            rx_hash_field_selector_outer.selected_fields
        );
        let key = field!(mlx5_ifc_tirc_bits, rx_hash_toeplitz_key);
        let places = tir.context.iter_mut().skip(key.byte_offset());
        for (to, from) in places.zip(ifc::bytes(new, key)) {
            *to = *from;
        }
    }
    Ok(())
}

fn destroy_tir(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let tirn = input.get(field!(mlx5_ifc_destroy_tir_in_bits, tirn));
    let tir = hca.net.tirs.remove(tirn)?;
    hca.transport_domains.release(tir.transport_domain());
    release_target(hca, tir.target());
    Ok(())
}

/// Bytes of an entry of an RQT: an RQ number in the low 24 bits.
const RQT_ENTRY: usize = size!(mlx5_ifc_rq_num_bits);

/// The RQ list at the end of an RQT context that starts at `context`. Nothing is held yet.
fn rqt_list(hca: &Hca, input: Input<'_>, context: Field) -> CmdResult<Vec<u32>> {
    let at = context.byte_offset();
    let size = field!(mlx5_ifc_rqtc_bits, rqt_actual_size).shifted(at);
    let size = input.get(size) as usize;
    if size > 1 << LOG_MAX_RQT_SIZE {
        return Err(CmdError::new(Status::BadSize, "RQT is too large"));
    }
    let list = input.0.get(at + size!(mlx5_ifc_rqtc_bits)..).unwrap_or(&[]);
    if list.len() / RQT_ENTRY < size {
        return Err(CmdError::new(Status::BadInputLen, "RQ list is too short"));
    }
    let rq_num = field!(mlx5_ifc_rq_num_bits, rq_num);
    let rqs: Vec<u32> = list
        .chunks_exact(RQT_ENTRY)
        .take(size)
        .map(|entry| ifc::get(entry, rq_num))
        .collect();
    for rqn in &rqs {
        hca.net.rqs.find(*rqn)?;
    }
    Ok(rqs)
}

fn create_rqt(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let context = field!(mlx5_ifc_create_rqt_in_bits, rqt_context);
    let rqs = rqt_list(hca, input, context)?;
    let max_size = field!(mlx5_ifc_create_rqt_in_bits, rqt_context.rqt_max_size);
    let max_size = input.get(max_size) as usize;
    if rqs.len() > max_size || max_size > 1 << LOG_MAX_RQT_SIZE {
        return Err(CmdError::new(Status::BadSize, "RQT is too large"));
    }
    for rqn in &rqs {
        hca.net.rqs.hold(*rqn)?;
    }
    match hca.net.rqts.insert(Rqt { rqs, max_size }) {
        Ok(rqtn) => {
            out.set(field!(mlx5_ifc_create_rqt_out_bits, rqtn), rqtn);
            Ok(())
        }
        Err(error) => {
            for rqn in rqt_list(hca, input, context)? {
                hca.net.rqs.release(rqn);
            }
            Err(error)
        }
    }
}

fn modify_rqt(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let rqtn = input.get(field!(mlx5_ifc_modify_rqt_in_bits, rqtn));
    let rqs = rqt_list(hca, input, field!(mlx5_ifc_modify_rqt_in_bits, ctx))?;
    if rqs.len() > hca.net.rqts.find(rqtn)?.max_size {
        return Err(CmdError::new(Status::BadSize, "RQT is too large"));
    }
    for rqn in &rqs {
        hca.net.rqs.hold(*rqn)?;
    }
    let old = std::mem::replace(&mut hca.net.rqts.find_mut(rqtn)?.rqs, rqs);
    for rqn in old {
        hca.net.rqs.release(rqn);
    }
    Ok(())
}

fn destroy_rqt(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let rqtn = input.get(field!(mlx5_ifc_destroy_rqt_in_bits, rqtn));
    for rqn in hca.net.rqts.remove(rqtn)?.rqs {
        hca.net.rqs.release(rqn);
    }
    Ok(())
}
