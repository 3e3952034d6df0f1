// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The stage of the tests: a function with everything a channel of the netdev has.

use connectx::config::Kind;
use connectx::driver::{command, Driver, FREE};
use connectx::ifc::{self, Field};
use connectx::uar::HOLD;
use connectx::{field, size};

/// Where things are in guest memory, by page.
const EQ: u64 = FREE;
pub const SEND_CQ: u64 = FREE + 0x1000;
pub const RECV_CQ: u64 = FREE + 0x2000;
pub const SQ: u64 = FREE + 0x3000;
pub const RQ: u64 = FREE + 0x4000;
pub const RECORDS: u64 = FREE + 0x5000;
/// The doorbell record of the receive queue.
pub const RECEIVE_RECORD: u64 = RECORDS + 192;
const SENT: u64 = FREE + 0x8000;
pub const RECEIVED: u64 = FREE + 0x1_0000;

pub fn set(input: &mut [u8], field: Field, value: u64) {
    ifc::set64(input, field, value);
}

/// The function and its objects.
pub struct Netdev {
    pub driver: Driver,
    pub uar: u32,
    pub pd: u32,
    pub key: u32,
    pub td: u32,
    pub eqn: u32,
    pub send_cq: u32,
    pub recv_cq: u32,
    pub tis: u32,
    pub sqn: u32,
    pub rqn: u32,
    pub tir: u32,
    pub table: u32,
    pub group: u32,
}

fn create_cq(driver: &mut Driver, uar: u32, eqn: u32, buffer: u64, record: u64) -> u32 {
    let mut input = command(0x400, 0, size!(mlx5_ifc_create_cq_in_bits));
    macro_rules! cqc {
        ($name:ident, $value:expr) => {
            set(
                &mut input,
                field!(mlx5_ifc_create_cq_in_bits, cq_context.$name),
                $value,
            )
        };
    }
    cqc!(log_cq_size, 6);
    cqc!(uar_page, uar.into());
    cqc!(c_eqn_or_apu_element, eqn.into());
    cqc!(dbr_addr, record);
    input.extend(buffer.to_be_bytes());
    driver.create(&input)
}

/// CREATE_SQ and CREATE_RQ have the same shape.
macro_rules! create_queue {
    ($driver:expr, $opcode:literal, $structure:ident, $cqn:expr, $uar:expr, $pd:expr, $stride:expr,
     $record:expr, $buffer:expr $(, $field:ident = $value:expr)*) => {{
        let mut input = command($opcode, 0, size!($structure));
        set(&mut input, field!($structure, ctx.cqn), $cqn.into());
        set(&mut input, field!($structure, ctx.wq.wq_type), 1);
        set(&mut input, field!($structure, ctx.wq.pd), $pd.into());
        set(&mut input, field!($structure, ctx.wq.uar_page), $uar.into());
        set(&mut input, field!($structure, ctx.wq.dbr_addr), $record);
        set(
            &mut input,
            field!($structure, ctx.wq.log_wq_stride),
            $stride,
        );
        set(&mut input, field!($structure, ctx.wq.log_wq_sz), 4);
        $(set(&mut input, field!($structure, ctx.$field), $value);)*
        input.extend(u64::to_be_bytes($buffer));
        $driver.create(&input)
    }};
}

impl Netdev {
    pub fn new() -> Self {
        Self::of(Kind::Pf)
    }

    pub fn of(kind: Kind) -> Self {
        Self::build(kind, RQ, RECEIVE_RECORD)
    }

    /// The receive queue has its ring and its doorbell record elsewhere.
    pub fn with_receive_queue_at(ring: u64, record: u64) -> Self {
        Self::build(Kind::Pf, ring, record)
    }

    fn build(kind: Kind, ring: u64, record: u64) -> Self {
        let mut driver = Driver::initialized(kind);
        let uar = driver.create(&command(0x802, 0, 16));
        let pd = driver.create(&command(0x800, 0, 16));
        let td = driver.create(&command(0x816, 0, 16));

        let mut input = command(0x301, 0, size!(mlx5_ifc_create_eq_in_bits));
        let context = field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.log_eq_size);
        set(&mut input, context, 6);
        let context = field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.uar_page);
        set(&mut input, context, uar.into());
        input.extend(EQ.to_be_bytes());
        let eqn = driver.create(&input);

        // A key for all memory, read and write.
        let mut input = command(0x200, 0, size!(mlx5_ifc_create_mkey_in_bits));
        macro_rules! mkc {
            ($name:ident, $value:expr) => {
                set(
                    &mut input,
                    field!(mlx5_ifc_create_mkey_in_bits, memory_key_mkey_entry.$name),
                    $value,
                )
            };
        }
        mkc!(lr, 1);
        mkc!(lw, 1);
        mkc!(length64, 1);
        mkc!(pd, pd.into());
        mkc!(qpn, 0xff_ffff);
        let key = driver.create(&input) << 8;

        let send_cq = create_cq(&mut driver, uar, eqn, SEND_CQ, RECORDS);
        let recv_cq = create_cq(&mut driver, uar, eqn, RECV_CQ, RECORDS + 64);
        // Not read yet: the first entries are invalid.
        for cq in [SEND_CQ, RECV_CQ] {
            for entry in 0..64 {
                driver.write(cq + 64 * entry + 63, &[0xf1]);
            }
        }

        let mut input = command(0x912, 0, size!(mlx5_ifc_create_tis_in_bits));
        let context = field!(mlx5_ifc_create_tis_in_bits, ctx.transport_domain);
        set(&mut input, context, td.into());
        let tis = driver.create(&input);

        let sqn = create_queue!(
            driver,
            0x904,
            mlx5_ifc_create_sq_in_bits,
            send_cq,
            uar,
            pd,
            6,
            RECORDS + 128,
            SQ,
            tis_lst_sz = 1,
            tis_num_0 = tis.into(),
            flush_in_error_en = 1
        );
        let rqn = create_queue!(
            driver,
            0x908,
            mlx5_ifc_create_rq_in_bits,
            recv_cq,
            uar,
            pd,
            5,
            record,
            ring,
            flush_in_error_en = 1
        );

        let mut input = command(0x900, 0, size!(mlx5_ifc_create_tir_in_bits));
        let context = field!(mlx5_ifc_create_tir_in_bits, ctx.inline_rqn);
        set(&mut input, context, rqn.into());
        let context = field!(mlx5_ifc_create_tir_in_bits, ctx.transport_domain);
        set(&mut input, context, td.into());
        let tir = driver.create(&input);

        let input = command(0x930, 0, size!(mlx5_ifc_create_flow_table_in_bits));
        let table = driver.create(&input);
        let mut input = command(0x933, 0, size!(mlx5_ifc_create_flow_group_in_bits));
        let context = field!(mlx5_ifc_create_flow_group_in_bits, table_id);
        set(&mut input, context, table.into());
        let group = driver.create(&input);
        let mut input = command(0x936, 0, size!(mlx5_ifc_set_fte_in_bits));
        macro_rules! fte {
            ($($name:ident).+, $value:expr) => {
                set(&mut input, field!(mlx5_ifc_set_fte_in_bits, $($name).+), $value)
            };
        }
        fte!(table_id, table.into());
        fte!(flow_context.group_id, group.into());
        fte!(flow_context.action, 4);
        fte!(flow_context.destination_list_size, 1);
        input.extend([2, 0]);
        input.extend((tir as u16).to_be_bytes());
        input.extend([0; 4]);
        assert_eq!(driver.execute(&input, 16)[0], 0);
        let mut input = command(0x92f, 0, size!(mlx5_ifc_set_flow_table_root_in_bits));
        let context = field!(mlx5_ifc_set_flow_table_root_in_bits, table_id);
        set(&mut input, context, table.into());
        assert_eq!(driver.execute(&input, 16)[0], 0);

        let mut netdev = Self {
            driver,
            uar,
            pd,
            key,
            td,
            eqn,
            send_cq,
            recv_cq,
            tis,
            sqn,
            rqn,
            tir,
            table,
            group,
        };
        assert_eq!(netdev.modify_sq(0, 1), 0);
        assert_eq!(netdev.modify_rq(0, 1), 0);
        netdev
    }

    pub fn modify_sq(&mut self, from: u64, to: u64) -> u8 {
        let mut input = command(0x905, 0, size!(mlx5_ifc_modify_sq_in_bits));
        set(
            &mut input,
            field!(mlx5_ifc_modify_sq_in_bits, sq_state),
            from,
        );
        set(
            &mut input,
            field!(mlx5_ifc_modify_sq_in_bits, sqn),
            self.sqn.into(),
        );
        set(
            &mut input,
            field!(mlx5_ifc_modify_sq_in_bits, ctx.state),
            to,
        );
        self.driver.execute(&input, 16)[0]
    }

    pub fn modify_rq(&mut self, from: u64, to: u64) -> u8 {
        self.modify_rq_with(from, to, |_| ())
    }

    pub fn modify_rq_with(&mut self, from: u64, to: u64, adjust: impl Fn(&mut [u8])) -> u8 {
        let mut input = command(0x909, 0, size!(mlx5_ifc_modify_rq_in_bits));
        set(
            &mut input,
            field!(mlx5_ifc_modify_rq_in_bits, rq_state),
            from,
        );
        set(
            &mut input,
            field!(mlx5_ifc_modify_rq_in_bits, rqn),
            self.rqn.into(),
        );
        set(
            &mut input,
            field!(mlx5_ifc_modify_rq_in_bits, ctx.state),
            to,
        );
        adjust(&mut input);
        self.driver.execute(&input, 16)[0]
    }

    /// Control segment of a WQE.
    pub fn ctrl(&self, index: u16, opcode: u8, ds: u8) -> [u8; 16] {
        let mut ctrl = [0; 16];
        ctrl[1..3].copy_from_slice(&index.to_be_bytes());
        ctrl[3] = opcode;
        ctrl[4..8].copy_from_slice(&((self.sqn << 8) | u32::from(ds)).to_be_bytes());
        // A completion, please.
        ctrl[11] = 8;
        ctrl
    }

    /// A WQE for `index` that sends `frame`: 18 bytes inline, the rest by key.
    pub fn frame_wqe(&mut self, index: u16, frame: &[u8], key: u32) -> Vec<u8> {
        let mut wqe = self.ctrl(index, 0x0a, 4).to_vec();
        wqe.extend([0; 12]);
        wqe.extend(18u16.to_be_bytes());
        wqe.extend(&frame[..18]);
        wqe.resize(48, 0);
        wqe.extend((frame.len() as u32 - 18).to_be_bytes());
        wqe.extend(key.to_be_bytes());
        wqe.extend(SENT.to_be_bytes());
        self.driver.write(SENT, &frame[18..]);
        wqe
    }

    /// Posts a WQE of one block at `index`.
    pub fn post(&mut self, index: u16, wqe: &[u8]) {
        self.driver.write(SQ + 64 * u64::from(index % 16), wqe);
        let counter = u32::from(index.wrapping_add(1)).to_be_bytes();
        self.driver.write(RECORDS + 132, &counter);
        // Whatever the WQE says.
        let head = self.ctrl(index, 0, 0);
        self.ring(&head[..8]);
    }

    /// Posts a WQE at `index` that sends `frame`.
    pub fn post_frame(&mut self, index: u16, frame: &[u8], key: u32) {
        let wqe = self.frame_wqe(index, frame, key);
        self.post(index, &wqe);
    }

    pub fn ring(&mut self, head: &[u8]) {
        let offset = u64::from(self.uar) * 4096 + 0x800;
        self.driver.hca.mmio_write(self.driver.now, offset, head);
        self.driver.now += 2 * HOLD;
        self.driver.hca.run(self.driver.now, 64);
    }

    /// Posts a receive WQE of one segment.
    pub fn post_receive(&mut self, index: u16, len: u32) {
        self.post_receive_by(index, len, self.key);
    }

    pub fn post_receive_by(&mut self, index: u16, len: u32, key: u32) {
        let mut wqe = len.to_be_bytes().to_vec();
        wqe.extend(key.to_be_bytes());
        wqe.extend((RECEIVED + 0x1000 * u64::from(index)).to_be_bytes());
        // The end of the list.
        wqe.extend([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.driver.write(RQ + 32 * u64::from(index % 16), &wqe);
        let counter = u32::from(index.wrapping_add(1)).to_be_bytes();
        self.driver.write(RECEIVE_RECORD, &counter);
    }

    pub fn cqe(&mut self, cq: u64, index: u64) -> [u8; 64] {
        self.driver.read(cq + 64 * index)
    }

    pub fn destroy(&mut self, opcode: u16, number: u32) -> u8 {
        let mut input = command(opcode, 0, 0x40);
        input[8..12].copy_from_slice(&number.to_be_bytes());
        self.driver.execute(&input, 16)[0]
    }

    /// A flow command that names table and, at `at`, something in it.
    pub fn destroy_flow(&mut self, opcode: u16, at: usize, number: u32) -> u8 {
        let mut input = command(opcode, 0, 0x40);
        input[0x14..0x18].copy_from_slice(&self.table.to_be_bytes());
        input[at..at + 4].copy_from_slice(&number.to_be_bytes());
        self.driver.execute(&input, 16)[0]
    }
}

/// A frame to the function, or to everybody.
pub fn frame(dmac: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [dmac, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([0x88, 0xb5]);
    frame.extend((frame.len()..len).map(|i| i as u8));
    frame
}
