// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands that attach queue pairs to multicast groups.

use super::{bad_param, CmdResult, Command, Input, OutputBox};
use crate::field;
use crate::hca::Hca;
use crate::qp::context::Service;
use crate::wire::net::is_multicast;
use crate::wire::Gid;

pub(super) const COMMANDS: &[Command] = &[
    command!(
        0x806,
        "ATTACH_TO_MCG",
        mlx5_ifc_attach_to_mcg_in_bits,
        8,
        attach_to_mcg
    ),
    command!(
        0x807,
        "DETACH_FROM_MCG",
        mlx5_ifc_detach_from_mcg_in_bits,
        8,
        detach_from_mcg
    ),
];

/// Group and queue pair that ATTACH_TO_MCG or DETACH_FROM_MCG names; both have one layout.
///
/// Only datagrams have groups, and only addresses of groups are such (`ib_attach_mcast`, which asks for both before
/// the driver does).
fn membership(hca: &Hca, input: Input<'_>) -> CmdResult<(Gid, u32)> {
    let number = input.get(field!(mlx5_ifc_attach_to_mcg_in_bits, qpn));
    let group: Gid = input.copy(field!(mlx5_ifc_attach_to_mcg_in_bits, multicast_gid));
    if hca.qps.table.find(number)?.attributes.service != Service::Ud {
        return bad_param("only datagram queue pairs have multicast groups");
    }
    if !is_multicast(&group) {
        return bad_param("not the address of a multicast group");
    }
    Ok((group, number))
}

fn attach_to_mcg(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let (group, number) = membership(hca, input)?;
    if hca.qps.groups.attach(group, number)? {
        // `uverbs_free_qp` has it detached before it is destroyed.
        hca.qps.table.hold(number)?;
    }
    Ok(())
}

fn detach_from_mcg(hca: &mut Hca, input: Input<'_>, _: &mut OutputBox) -> CmdResult {
    let (group, number) = membership(hca, input)?;
    if !hca.qps.groups.detach(group, number) {
        return bad_param("the queue pair is not attached to the multicast group");
    }
    hca.qps.table.release(number);
    Ok(())
}
