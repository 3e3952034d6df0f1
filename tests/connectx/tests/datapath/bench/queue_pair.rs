// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs as the driver sees them.

use connectx::ifc::{self, Field};
use connectx::wqe::BB;
use connectx::{field, size};

use super::{command, gid, push_pages, CqHandle, Refused, Side};

/// A queue pair as the driver sees it.
pub struct QpHandle {
    pub qpn: u32,
    pub pd: u32,
    /// Send counter in blocks, receive counter.
    pub pi: u16,
    pub rq_pi: u16,
    pub sq: u64,
    pub(super) sq_blocks: u64,
    pub(super) rq: u64,
    pub(super) rq_stride: u64,
    pub(super) rq_size: u64,
    pub(super) record: u64,
}

/// What a queue pair is created with.
#[derive(Clone, Copy)]
pub struct QpSpec {
    pub service: u32,
    pub log_sq: u32,
    pub log_rq: u32,
    pub srqn: Option<u32>,
    pub xrcd: u32,
    /// May it register pages, as those of the kernel?
    pub registers: bool,
    /// Datagrams to a group do not come back to it.
    pub blocks_group_loopback: bool,
}

impl Default for QpSpec {
    fn default() -> Self {
        QpSpec {
            service: 0,
            log_sq: 6,
            log_rq: 4,
            srqn: None,
            xrcd: 0,
            registers: true,
            blocks_group_loopback: false,
        }
    }
}

/// Attributes of a connection; those of [`Default`] allow everything.
#[derive(Clone, Copy)]
pub struct Link {
    pub mtu: u32,
    pub psn: u32,
    pub ack_timeout: u32,
    pub retry_count: u32,
    pub rnr_retry: u32,
    pub min_rnr: u32,
    pub rights: (bool, bool, bool),
    pub log_reads: u32,
    /// Set of Q counters; 0 is none here.
    pub counters: u32,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            mtu: 3,
            psn: 0xff_fff0,
            ack_timeout: 10,
            retry_count: 3,
            rnr_retry: 3,
            min_rnr: 1,
            rights: (true, true, true),
            log_reads: 2,
            counters: 0,
        }
    }
}

impl Side {
    pub fn create_qp(&mut self, spec: QpSpec, send: &CqHandle, receive: &CqHandle) -> QpHandle {
        let rq_stride = 64u64;
        let rq_bytes = if spec.srqn.is_some() {
            0
        } else {
            rq_stride << spec.log_rq
        };
        let bytes = rq_bytes + ((BB as u64) << spec.log_sq);
        let base = self.alloc(bytes);
        let record = self.alloc(8);
        let mut input = command(0x500, size!(mlx5_ifc_create_qp_in_bits));
        let mut set = |field, value| ifc::set(&mut input, field, value);
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.st), spec.service);
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.pd), self.pd);
        set(
            field!(mlx5_ifc_create_qp_in_bits, qpc.log_sq_size),
            spec.log_sq,
        );
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.xrcd), spec.xrcd);
        match spec.srqn {
            Some(srqn) => {
                set(field!(mlx5_ifc_create_qp_in_bits, qpc.rq_type), 1);
                set(field!(mlx5_ifc_create_qp_in_bits, qpc.srqn_rmpn_xrqn), srqn);
            }
            None => {
                set(
                    field!(mlx5_ifc_create_qp_in_bits, qpc.log_rq_size),
                    spec.log_rq,
                );
                set(field!(mlx5_ifc_create_qp_in_bits, qpc.log_rq_stride), 2);
            }
        }
        set(
            field!(mlx5_ifc_create_qp_in_bits, qpc.fre),
            spec.registers.into(),
        );
        set(
            field!(mlx5_ifc_create_qp_in_bits, qpc.block_lb_mc),
            spec.blocks_group_loopback.into(),
        );
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.uar_page), self.uar);
        set(
            field!(mlx5_ifc_create_qp_in_bits, qpc.user_index),
            0xff_ffff,
        );
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.cqn_snd), send.cqn);
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.cqn_rcv), receive.cqn);
        ifc::set64(
            &mut input,
            field!(mlx5_ifc_create_qp_in_bits, qpc.dbr_addr),
            record,
        );
        push_pages(&mut input, base, bytes.div_ceil(4096));
        let out = self.cmd(&input, 0x10).expect("CREATE_QP");
        QpHandle {
            qpn: ifc::get(&out, field!(mlx5_ifc_create_qp_out_bits, qpn)),
            pd: self.pd,
            pi: 0,
            rq_pi: 0,
            sq: base + rq_bytes,
            sq_blocks: 1 << spec.log_sq,
            rq: base,
            rq_stride,
            rq_size: 1 << spec.log_rq,
            record,
        }
    }

    /// The responder of an extended reliable connection, as the driver makes it: no send queue, no pages, no UAR page.
    pub fn create_xrc_target(&mut self, pd: u32, srqn: u32, xrcd: u32) -> QpHandle {
        let mut input = command(0x500, size!(mlx5_ifc_create_qp_in_bits));
        for (field, value) in [
            (field!(mlx5_ifc_create_qp_in_bits, qpc.st), 3),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.pd), pd),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.rq_type), 1),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.no_sq), 1),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.srqn_rmpn_xrqn), srqn),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.xrcd), xrcd),
            (field!(mlx5_ifc_create_qp_in_bits, qpc.user_index), 0x55),
        ] {
            ifc::set(&mut input, field, value);
        }
        let out = self.cmd(&input, 0x10).expect("CREATE_QP");
        QpHandle {
            qpn: ifc::get(&out, field!(mlx5_ifc_create_qp_out_bits, qpn)),
            pd,
            pi: 0,
            rq_pi: 0,
            sq: 0,
            sq_blocks: 0,
            rq: 0,
            rq_stride: 0,
            rq_size: 0,
            record: 0,
        }
    }

    /// A state change with a whole context.
    pub fn modify(
        &mut self,
        opcode: u16,
        qpn: u32,
        optional: u32,
        adjust: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Refused> {
        let mut input = command(opcode, size!(mlx5_ifc_rst2init_qp_in_bits));
        ifc::set(&mut input, field!(mlx5_ifc_rst2init_qp_in_bits, qpn), qpn);
        ifc::set(
            &mut input,
            field!(mlx5_ifc_rst2init_qp_in_bits, opt_param_mask),
            optional,
        );
        adjust(&mut input);
        self.cmd(&input, 0x10).map(|_| ())
    }

    /// RST2INIT with the attributes of a link.
    pub fn move_to_init(
        &mut self,
        qp: &QpHandle,
        cqs: (u32, u32),
        link: &Link,
    ) -> Result<(), Refused> {
        let (read, write, atomic) = link.rights;
        self.step(
            0x502,
            qp,
            &[
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.pd), qp.pd),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.cqn_snd), cqs.0),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.cqn_rcv), cqs.1),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rre), read.into()),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rwe), write.into()),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rae), atomic.into()),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.atomic_mode),
                    atomic.into(),
                ),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rlky), 1),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.q_key), 0x1111),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.mtu), 5),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_msg_max), 12),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.counter_set_id),
                    link.counters,
                ),
            ],
            None,
        )
    }

    /// INIT2RTR to a peer: function and QPN.
    pub fn move_to_rtr(
        &mut self,
        qp: &QpHandle,
        peer: (u16, u32),
        link: &Link,
    ) -> Result<(), Refused> {
        self.step(
            0x503,
            qp,
            &[
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.mtu), link.mtu),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_msg_max), 30),
                (field!(mlx5_ifc_rst2init_qp_in_bits, qpc.remote_qpn), peer.1),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.next_rcv_psn),
                    link.psn,
                ),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_rra_max),
                    link.log_reads,
                ),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.min_rnr_nak),
                    link.min_rnr,
                ),
            ],
            Some(gid(peer.0)),
        )
    }

    /// RTR2RTS.
    pub fn move_to_rts(&mut self, qp: &QpHandle, link: &Link) -> Result<(), Refused> {
        let timeout = field!(
            mlx5_ifc_rst2init_qp_in_bits,
            qpc.primary_address_path.ack_timeout
        );
        self.step(
            0x504,
            qp,
            &[
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.next_send_psn),
                    link.psn,
                ),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_sra_max),
                    link.log_reads,
                ),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.retry_count),
                    link.retry_count,
                ),
                (
                    field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rnr_retry),
                    link.rnr_retry,
                ),
                (timeout, link.ack_timeout),
            ],
            None,
        )
    }

    /// A state change that sets these fields, and the peer's address.
    fn step(
        &mut self,
        opcode: u16,
        qp: &QpHandle,
        fields: &[(Field, u32)],
        peer: Option<[u8; 16]>,
    ) -> Result<(), Refused> {
        self.modify(opcode, qp.qpn, 0, |input| {
            for (field, value) in fields {
                ifc::set(input, *field, *value);
            }
            if let Some(gid) = peer {
                let at = field!(
                    mlx5_ifc_rst2init_qp_in_bits,
                    qpc.primary_address_path.rgid_rip
                )
                .byte_offset();
                input[at..at + 16].copy_from_slice(&gid);
            }
        })
    }
}
