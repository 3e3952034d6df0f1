// SPDX-License-Identifier: GPL-2.0

//! Attributes of the verbs interface (`struct ib_qp_attr`), as `rdma_init_qp_attr()` fills them in.

use crate::{
    device::Hold,
    hw::path::{
        Mtu,
        Path,
        Route, //
    }, //
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// What has to be known for both steps, ready to receive and ready to send.
const NEEDED: u32 = bindings::ib_qp_attr_mask_IB_QP_AV
    | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
    | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN
    | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN
    | bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
    | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER
    | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN
    | bindings::ib_qp_attr_mask_IB_QP_TIMEOUT
    | bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
    | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
    | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;

/// What may be said, too, and means nothing here: the state, and what belongs to INIT, which a queue is in
/// from the beginning, with the rights and on the port that it was made for.
const WITHOUT_MEANING: u32 = bindings::ib_qp_attr_mask_IB_QP_STATE
    | bindings::ib_qp_attr_mask_IB_QP_CUR_STATE
    | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
    | bindings::ib_qp_attr_mask_IB_QP_PORT
    | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;

/// The path that `attr` describes, on the device of `hold`; `mask` tells what of it is valid.
///
/// What the peer may have a say in is reduced to what the device can do: READs and atomics under way. The
/// static rate is not used: on RoCE the connection manager has it from our own port.
///
/// # Errors
///
/// `EINVAL` if something is missing or is not known here (an alternate path), if the address is not one of
/// RoCE v2, or our end of it not on this device.
///
/// # Safety
///
/// `attr.ah_attr.grh.sgid_attr` must be null or valid.
pub(super) unsafe fn path(hold: &Hold, attr: &bindings::ib_qp_attr, mask: u32) -> Result<Path> {
    if mask & NEEDED != NEEDED || mask & !(NEEDED | WITHOUT_MEANING) != 0 {
        return Err(EINVAL);
    }
    let most = hold.caps().max_reads();
    Ok(Path {
        remote_qpn: attr.dest_qp_num,
        send_psn: attr.sq_psn,
        receive_psn: attr.rq_psn,
        // SAFETY: Guaranteed by the caller.
        route: unsafe { route(hold, &attr.ah_attr)? },
        mtu: Mtu::from_code(attr.path_mtu)?,
        ack_timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        min_rnr_timer: attr.min_rnr_timer,
        max_read_atomic: attr.max_rd_atomic.min(most),
        max_peer_read_atomic: attr.max_dest_rd_atomic.min(most),
    })
}

/// The network's part.
///
/// # Errors
///
/// `EINVAL` if it is not RoCE v2 from a GID of the device of `hold`.
///
/// # Safety
///
/// `ah.grh.sgid_attr` must be null or valid.
unsafe fn route(hold: &Hold, ah: &bindings::rdma_ah_attr) -> Result<Route> {
    const GRH: u8 = bindings::ib_ah_flags_IB_AH_GRH as u8;
    if ah.type_ != bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE || ah.ah_flags & GRH == 0 {
        return Err(EINVAL);
    }
    // SAFETY: Guaranteed by the caller.
    let local = unsafe { ah.grh.sgid_attr.as_ref() }.ok_or(EINVAL)?;
    if local.device != hold.ibdev()
        || local.gid_type != bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP
    {
        return Err(EINVAL);
    }
    Ok(Route {
        gid_index: ah.grh.sgid_index,
        // SAFETY: A GID is 16 bytes, whatever they mean.
        remote_gid: unsafe { ah.grh.dgid.raw },
        // SAFETY: The type says that this is the part that is valid.
        remote_mac: unsafe { ah.__bindgen_anon_1.roce.dmac },
        traffic_class: ah.grh.traffic_class,
        hop_limit: ah.grh.hop_limit,
        flow_label: ah.grh.flow_label,
        // As mlx5_ib: the frame has three bits for it.
        priority: ah.sl & 7,
    })
}
