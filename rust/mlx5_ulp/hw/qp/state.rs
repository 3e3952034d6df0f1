// SPDX-License-Identifier: GPL-2.0

//! States of a queue pair.
//!
//! RESET when created, INIT ([`QueuePair::to_init`]), ready to receive
//! ([`QueuePair::to_ready_to_receive`]), ready to send ([`QueuePair::to_ready_to_send`]); ERROR
//! by [`QueuePair::to_error`] or by itself, RESET again by [`QueuePair::to_reset`].
//! Which fields each change takes is that of `__mlx5_ib_modify_qp()` in
//! `drivers/infiniband/hw/mlx5/qp.c`.

use super::QueuePair;
use crate::{
    errno::eopnotsupp,
    hw::{
        access::RemoteAccess,
        cmd::{
            field,
            Mailbox, //
        },
        path::Path, //
    },
};
use core::mem::offset_of;
use kernel::prelude::*;
use mlx5_ulp_bindings as bindings;

/// The only port of a function that has one.
const PORT: u32 = 1;
/// The requester asks for an acknowledgement every 2^8 packets (`MLX5_IB_ACK_REQ_FREQ`).
const LOG_ACK_REQ_FREQ: u32 = 8;
/// The default partition.
const PKEY_INDEX: u32 = 0;

impl QueuePair {
    /// RESET to INIT. Sleeps.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for atomics on a device without; those of [`cmd::exec`](crate::hw::cmd::exec);
    /// `EINVAL` in a wrong state.
    pub(crate) fn to_init(&self, access: RemoteAccess) -> Result {
        if access.atomic && !self.hold.caps().atomic {
            return Err(eopnotsupp());
        }
        let mut inbox = Mailbox::new()?;
        inbox
            .set(
                field!(rst2init_qp_in, opcode),
                bindings::MLX5_CMD_OP_RST2INIT_QP,
            )
            .set(field!(rst2init_qp_in, qpn), self.number)
            .set(field!(rst2init_qp_in, qpc.st), bindings::MLX5_QP_ST_RC)
            .set(
                field!(rst2init_qp_in, qpc.pm_state),
                bindings::MLX5_QP_PM_MIGRATED,
            )
            .set(field!(rst2init_qp_in, qpc.pd), self.config.pd.number())
            .set(
                field!(rst2init_qp_in, qpc.cqn_snd),
                self.config.send_cq.number(),
            )
            .set(
                field!(rst2init_qp_in, qpc.cqn_rcv),
                self.config.recv_cq.number(),
            )
            .set(field!(rst2init_qp_in, qpc.dbr_addr), self.record.dma())
            .set(field!(rst2init_qp_in, qpc.rlky), 1u32)
            .set(
                field!(rst2init_qp_in, qpc.log_ack_req_freq),
                LOG_ACK_REQ_FREQ,
            )
            .set(
                field!(rst2init_qp_in, qpc.primary_address_path.pkey_index),
                PKEY_INDEX,
            )
            .set(
                field!(rst2init_qp_in, qpc.primary_address_path.vhca_port_num),
                PORT,
            )
            .set(field!(rst2init_qp_in, qpc.rre), access.read)
            .set(field!(rst2init_qp_in, qpc.rwe), access.write)
            .set(field!(rst2init_qp_in, qpc.rae), access.atomic);
        if access.atomic {
            inbox.set(
                field!(rst2init_qp_in, qpc.atomic_mode),
                bindings::MLX5_ATOMIC_MODE_IB_COMP,
            );
        }
        self.modify::<_, bindings::mlx5_ifc_rst2init_qp_out_bits>(&mut inbox)
    }

    /// INIT to ready to receive. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `path` has a number out of its range, if the port is not an Ethernet one, or in a
    /// wrong state; those of [`cmd::exec`](crate::hw::cmd::exec).
    pub(crate) fn to_ready_to_receive(&self, path: &Path) -> Result {
        path.check()?;
        if !self.hold.caps().ethernet {
            return Err(EINVAL);
        }
        let mut inbox = Mailbox::new()?;
        inbox
            .set(
                field!(init2rtr_qp_in, opcode),
                bindings::MLX5_CMD_OP_INIT2RTR_QP,
            )
            .set(field!(init2rtr_qp_in, qpn), self.number)
            .set(field!(init2rtr_qp_in, qpc.st), bindings::MLX5_QP_ST_RC)
            .set(
                field!(init2rtr_qp_in, qpc.pm_state),
                bindings::MLX5_QP_PM_MIGRATED,
            )
            .set(field!(init2rtr_qp_in, qpc.mtu), path.mtu as u32)
            .set(
                field!(init2rtr_qp_in, qpc.log_msg_max),
                self.hold.caps().log_max_msg,
            )
            .set(field!(init2rtr_qp_in, qpc.remote_qpn), path.remote_qpn)
            .set(field!(init2rtr_qp_in, qpc.next_rcv_psn), path.receive_psn)
            .set(field!(init2rtr_qp_in, qpc.min_rnr_nak), path.min_rnr_timer)
            .set(
                field!(init2rtr_qp_in, qpc.log_rra_max),
                log_ceil(path.max_peer_read_atomic),
            )
            .set(
                field!(init2rtr_qp_in, qpc.log_ack_req_freq),
                LOG_ACK_REQ_FREQ,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.vhca_port_num),
                PORT,
            );
        type In = bindings::mlx5_ifc_init2rtr_qp_in_bits;
        let route = &path.route;
        inbox
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.src_addr_index),
                route.gid_index,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.hop_limit),
                route.hop_limit,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.tclass),
                route.traffic_class,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.dscp),
                route.traffic_class >> 2,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.flow_label),
                route.flow_label,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.eth_prio),
                route.priority,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.udp_sport),
                path.udp_source_port(self.number),
            )
            .copy_from(
                offset_of!(In, qpc.primary_address_path.rgid_rip),
                &route.remote_gid,
            )
            .copy_from(
                offset_of!(In, qpc.primary_address_path.rmac_47_32),
                &route.remote_mac,
            );
        self.modify::<_, bindings::mlx5_ifc_init2rtr_qp_out_bits>(&mut inbox)
    }

    /// Ready to receive to ready to send. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `path` has a number out of its range, or in a wrong state; those of
    /// [`cmd::exec`](crate::hw::cmd::exec).
    pub(crate) fn to_ready_to_send(&self, path: &Path) -> Result {
        path.check()?;
        let mut inbox = Mailbox::new()?;
        inbox
            .set(
                field!(rtr2rts_qp_in, opcode),
                bindings::MLX5_CMD_OP_RTR2RTS_QP,
            )
            .set(field!(rtr2rts_qp_in, qpn), self.number)
            .set(field!(rtr2rts_qp_in, qpc.st), bindings::MLX5_QP_ST_RC)
            .set(
                field!(rtr2rts_qp_in, qpc.pm_state),
                bindings::MLX5_QP_PM_MIGRATED,
            )
            .set(field!(rtr2rts_qp_in, qpc.next_send_psn), path.send_psn)
            .set(
                field!(rtr2rts_qp_in, qpc.log_sra_max),
                log_ceil(path.max_read_atomic),
            )
            .set(field!(rtr2rts_qp_in, qpc.retry_count), path.retry_count)
            .set(field!(rtr2rts_qp_in, qpc.rnr_retry), path.rnr_retry)
            .set(
                field!(rtr2rts_qp_in, qpc.log_ack_req_freq),
                LOG_ACK_REQ_FREQ,
            )
            .set(
                field!(rtr2rts_qp_in, qpc.primary_address_path.ack_timeout),
                path.ack_timeout,
            )
            .set(
                field!(rtr2rts_qp_in, qpc.primary_address_path.vhca_port_num),
                PORT,
            );
        self.modify::<_, bindings::mlx5_ifc_rtr2rts_qp_out_bits>(&mut inbox)
    }

    /// Any state to ERROR: everything posted is flushed. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](crate::hw::cmd::exec).
    pub(crate) fn to_error(&self) -> Result {
        let mut inbox = Mailbox::new()?;
        inbox
            .set(field!(qp_2err_in, opcode), bindings::MLX5_CMD_OP_2ERR_QP)
            .set(field!(qp_2err_in, qpn), self.number);
        self.modify::<_, bindings::mlx5_ifc_qp_2err_out_bits>(&mut inbox)
    }

    /// Any state to RESET: the device forgets what was posted without completing it. The
    /// caller has to zero the [`DoorbellRecord`] and its own counters. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](crate::hw::cmd::exec).
    pub(crate) fn to_reset(&self) -> Result {
        let mut inbox = Mailbox::new()?;
        inbox
            .set(field!(qp_2rst_in, opcode), bindings::MLX5_CMD_OP_2RST_QP)
            .set(field!(qp_2rst_in, qpn), self.number);
        self.modify::<_, bindings::mlx5_ifc_qp_2rst_out_bits>(&mut inbox)
    }
}

/// Log2 of the power of two that is not less than `n`.
fn log_ceil(n: u8) -> u32 {
    u32::from(n).next_power_of_two().trailing_zeros()
}
