// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands as a well-behaved driver sends them: where the hostile one starts from.

use crate::driver::{command, Driver, FREE};
use crate::{field, ifc, size};

/// The GID that the function has, and that its queue pairs connect to.
pub(super) const GID: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Pages of queues: entries, then a page of doorbell records.
const PAGES: u64 = FREE;
/// Pages that are handed out in turn.
const COUNT: u64 = 64;
/// log2 of the number of entries or basic blocks of a queue.
const LOG_SIZE: u64 = 4;

/// Objects that everything else refers to.
#[derive(Debug, Default)]
pub(super) struct Base {
    uar: u32,
    pd: u32,
    td: u32,
    eqn: u32,
    cqn: u32,
    xrcd: u32,
    next_page: u64,
}

/// A command with fields set: `build!(opcode, structure, extra bytes; path = value, ...)`.
macro_rules! build {
    ($opcode:literal, $structure:ident; $($($name:ident).+ = $value:expr),+ $(,)?) => {{
        let mut input = command($opcode, 0, size!($structure));
        $(ifc::set64(&mut input, field!($structure, $($name).+), u64::from($value));)+
        input
    }};
}

impl Base {
    /// Creates the objects.
    pub(super) fn create(driver: &mut Driver) -> Self {
        let mut base = Self {
            uar: driver.create(&command(0x802, 0, 16)),
            pd: driver.create(&command(0x800, 0, 16)),
            td: driver.create(&command(0x816, 0, 16)),
            xrcd: driver.create(&command(0x80e, 0, 16)),
            ..Self::default()
        };
        base.eqn = driver.create(&base.eq());
        base.cqn = driver.create(&base.cq());
        driver.create(&base.mkey());
        for input in [Self::roce(), base.gid()] {
            driver.execute(&input, 16);
        }
        base
    }

    /// Objects to refer to, and where doorbells go.
    pub(super) fn numbers(&self) -> [u32; 4] {
        [self.uar, self.pd, self.td, self.cqn]
    }

    /// The next page for a queue, and its doorbell record in the page behind all of them.
    fn page(&mut self) -> (u64, u64) {
        let n = self.next_page;
        self.next_page = (n + 1) % COUNT;
        (PAGES + 0x1000 * n, PAGES + 0x1000 * COUNT + 64 * n)
    }

    fn eq(&mut self) -> Vec<u8> {
        let mut input = build!(0x301, mlx5_ifc_create_eq_in_bits;
            eq_context_entry.log_eq_size = LOG_SIZE,
            eq_context_entry.uar_page = self.uar,
        );
        // All events.
        input[0x58..0x78].fill(0xff);
        input.extend(self.page().0.to_be_bytes());
        input
    }

    fn cq(&mut self) -> Vec<u8> {
        let (page, record) = self.page();
        let mut input = build!(0x400, mlx5_ifc_create_cq_in_bits;
            cq_context.log_cq_size = LOG_SIZE,
            cq_context.uar_page = self.uar,
            cq_context.c_eqn_or_apu_element = self.eqn,
            cq_context.dbr_addr = record,
        );
        input.extend(page.to_be_bytes());
        input
    }

    fn mkey(&self) -> Vec<u8> {
        build!(0x200, mlx5_ifc_create_mkey_in_bits;
            memory_key_mkey_entry.lr = 1u32,
            memory_key_mkey_entry.lw = 1u32,
            memory_key_mkey_entry.rr = 1u32,
            memory_key_mkey_entry.rw = 1u32,
            memory_key_mkey_entry.a = 1u32,
            memory_key_mkey_entry.umr_en = 1u32,
            memory_key_mkey_entry.length64 = 1u32,
            memory_key_mkey_entry.pd = self.pd,
            memory_key_mkey_entry.qpn = 0xff_ffffu32,
        )
    }

    /// RoCE on the virtual port.
    fn roce() -> Vec<u8> {
        build!(0x755, mlx5_ifc_modify_nic_vport_context_in_bits;
            field_select.roce_en = 1u32,
            nic_vport_context.roce_en = 1u32,
        )
    }

    fn gid(&self) -> Vec<u8> {
        let mut input = build!(0x761, mlx5_ifc_set_roce_address_in_bits;
            roce_address.roce_version = 2u32,
            roce_address.roce_l3_type = 1u32,
            roce_address.source_mac_31_0 = 0x0200_0001u32,
        );
        input[0x10..0x20].copy_from_slice(&GID);
        input
    }

    fn xrc_srq(&mut self) -> Vec<u8> {
        let (page, record) = self.page();
        let mut input = build!(0x705, mlx5_ifc_create_xrc_srq_in_bits;
            xrc_srq_context_entry.pd = self.pd,
            xrc_srq_context_entry.xrcd = self.xrcd,
            xrc_srq_context_entry.cqn = self.cqn,
            xrc_srq_context_entry.log_rq_stride = 1u32,
            xrc_srq_context_entry.log_xrc_srq_size = LOG_SIZE,
            xrc_srq_context_entry.db_record_addr_l = record >> 2,
        );
        input.extend(page.to_be_bytes());
        input
    }

    /// The responder of an extended reliable connection, with an XRC SRQ.
    fn xrc_target(&self, srqn: u32) -> Vec<u8> {
        build!(0x500, mlx5_ifc_create_qp_in_bits;
            qpc.st = 3u32,
            qpc.pd = self.pd,
            qpc.rq_type = 1u32,
            qpc.no_sq = 1u32,
            qpc.srqn_rmpn_xrqn = srqn,
            qpc.xrcd = self.xrcd,
            qpc.user_index = 0xff_ffffu32,
        )
    }

    /// RC, UC, UD or the requester of an extended reliable connection.
    fn qp(&mut self, service: u32) -> Vec<u8> {
        let (page, record) = self.page();
        let mut input = build!(0x500, mlx5_ifc_create_qp_in_bits;
            qpc.st = service,
            qpc.xrcd = self.xrcd,
            qpc.pd = self.pd,
            qpc.log_sq_size = LOG_SIZE,
            qpc.log_rq_size = LOG_SIZE,
            qpc.log_rq_stride = 2u32,
            qpc.fre = 1u32,
            qpc.uar_page = self.uar,
            qpc.user_index = 0xff_ffffu32,
            qpc.cqn_snd = self.cqn,
            qpc.cqn_rcv = self.cqn,
            qpc.dbr_addr = record,
        );
        input.extend(page.to_be_bytes());
        input
    }

    /// One of the steps of a queue pair to ready-to-send; it is its own peer.
    fn modify_qp(&self, qpn: u32, opcode: u16) -> Vec<u8> {
        let mut input = build!(0x502, mlx5_ifc_rst2init_qp_in_bits;
            qpn = qpn,
            qpc.pd = self.pd,
            qpc.cqn_snd = self.cqn,
            qpc.cqn_rcv = self.cqn,
            qpc.rre = 1u32,
            qpc.rwe = 1u32,
            qpc.rae = 1u32,
            qpc.atomic_mode = 1u32,
            qpc.rlky = 1u32,
            qpc.mtu = 1u32,
            qpc.log_msg_max = 20u32,
            qpc.remote_qpn = qpn,
            qpc.log_sra_max = 2u32,
            qpc.log_rra_max = 2u32,
            qpc.retry_count = 3u32,
            qpc.rnr_retry = 3u32,
            qpc.primary_address_path.ack_timeout = 1u32,
            qpc.primary_address_path.hop_limit = 64u32,
            qpc.primary_address_path.udp_sport = 0xc000u32,
        );
        input[..2].copy_from_slice(&opcode.to_be_bytes());
        let rgid = field!(
            mlx5_ifc_rst2init_qp_in_bits,
            qpc.primary_address_path.rgid_rip
        );
        let at = rgid.byte_offset();
        input[at..at + 16].copy_from_slice(&GID);
        input
    }

    fn sq(&mut self) -> Vec<u8> {
        let (page, record) = self.page();
        let mut input = build!(0x904, mlx5_ifc_create_sq_in_bits;
            ctx.cqn = self.cqn,
            ctx.wq.wq_type = 1u32,
            ctx.wq.pd = self.pd,
            ctx.wq.uar_page = self.uar,
            ctx.wq.dbr_addr = record,
            ctx.wq.log_wq_stride = 6u32,
            ctx.wq.log_wq_sz = LOG_SIZE,
        );
        input.extend(page.to_be_bytes());
        input
    }

    fn rq(&mut self) -> Vec<u8> {
        let (page, record) = self.page();
        let mut input = build!(0x908, mlx5_ifc_create_rq_in_bits;
            ctx.cqn = self.cqn,
            ctx.flush_in_error_en = 1u32,
            ctx.wq.wq_type = 1u32,
            ctx.wq.pd = self.pd,
            ctx.wq.uar_page = self.uar,
            ctx.wq.dbr_addr = record,
            ctx.wq.log_wq_stride = 5u32,
            ctx.wq.log_wq_sz = LOG_SIZE,
        );
        input.extend(page.to_be_bytes());
        input
    }

    fn ready(&self, opcode: u16, number: u32) -> Vec<u8> {
        // SQ and RQ have the same layout here.
        let mut input = build!(0x905, mlx5_ifc_modify_sq_in_bits;
            sqn = number,
            ctx.state = 1u32,
        );
        input[..2].copy_from_slice(&opcode.to_be_bytes());
        input
    }

    fn tir(&self, rqn: u32) -> Vec<u8> {
        build!(0x900, mlx5_ifc_create_tir_in_bits;
            ctx.inline_rqn = rqn,
            ctx.transport_domain = self.td,
        )
    }

    /// The command with a number, for an object that it may refer to.
    pub(super) fn command(&mut self, which: u8, object: u32) -> Vec<u8> {
        match which % 20 {
            0 => self.eq(),
            1 | 2 => self.cq(),
            3 => self.mkey(),
            4 | 5 => self.qp(u32::from(which) / 20 % 4),
            6 | 7 => self.modify_qp(object, 0x502),
            8 | 9 => self.modify_qp(object, 0x503),
            10 | 11 => self.modify_qp(object, 0x504),
            12 => self.sq(),
            13 => self.rq(),
            14 => self.ready(if object & 0x8_0000 == 0 { 0x905 } else { 0x909 }, object),
            15 => self.xrc_srq(),
            16 | 17 => self.xrc_target(object),
            18 => self.qp(0),
            _ => self.tir(object),
        }
    }

    /// Address of a WQE slot of some queue, and of some doorbell record.
    pub(super) fn slot(which: u16) -> (u64, u64) {
        let n = u64::from(which) % COUNT;
        let slot = u64::from(which) / COUNT % 32;
        (
            PAGES + 0x1000 * n + 64 * slot,
            PAGES + 0x1000 * COUNT + 64 * n,
        )
    }
}
