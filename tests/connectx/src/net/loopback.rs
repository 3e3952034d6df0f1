// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames that a function sends to itself.
//!
//! A frame to an Ethernet address of the function's own, or to a group that would come to it from others, too
//! ([`NicVport::is_for`](crate::vport::NicVport::is_for)), is brought to the function's own receive side, unless its virtual port has that switched off (`nic_vport_context.disable_uc_local_lb` and
//! `disable_mc_local_lb`). A TIR does not take what comes from its own transport domain, unless it says so by
//! `self_lb_block`. The name of that field says the opposite, but the drivers set its bits to let frames in
//! (`MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC` in `drivers/infiniband/hw/mlx5/qp.c`, the loopback test in `en_selftest.c`).
//! `mlx5_core` switches the virtual port's loopback off; `mlx5_ib` switches it on for as long as there are two user
//! contexts, or a queue pair that asked for it (`mlx5_ib_enable_lb`).

use super::frame::Headers;
use super::{deliver, Origin};
use crate::field;
use crate::hca::Hca;
use crate::ifc;
use crate::wire::net::is_group;

/// What becomes of a frame after the function's own receive side has had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Onward {
    /// It goes to the wire, too.
    Wire,
    /// It was for the function alone.
    Nowhere,
}

/// Brings a frame of a send queue to the receive side of the function, if it is for that.
pub(super) fn send(hca: &mut Hca, sqn: u32, frame: &[u8]) -> Onward {
    let Some(headers) = Headers::parse(frame) else {
        return Onward::Wire;
    };
    let group = is_group(&headers.dmac);
    let off = if group {
        field!(mlx5_ifc_nic_vport_context_bits, disable_mc_local_lb)
    } else {
        field!(mlx5_ifc_nic_vport_context_bits, disable_uc_local_lb)
    };
    if ifc::flag(&hca.vport.context, off) || !hca.vport.is_for(headers.dmac) {
        return Onward::Wire;
    }
    let tis = hca.net.sqs.get(sqn).and_then(|sq| sq.tis);
    let domain = tis.and_then(|tis| hca.net.tiss.get(tis));
    let from = Origin::Own {
        transport_domain: domain.map(|tis| tis.transport_domain),
        group,
    };
    deliver(hca, &headers, frame, from);
    if group {
        Onward::Wire
    } else {
        Onward::Nowhere
    }
}
