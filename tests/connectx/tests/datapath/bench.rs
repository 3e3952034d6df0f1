// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The stage of the tests: a driver's view of two functions.

use std::collections::VecDeque;

use connectx::cmd;
use connectx::config::{FunctionConfig, Kind as FunctionKind};
use connectx::cqfmt::cqe::{self, Cqe, Failure, Success};
use connectx::cqfmt::syndrome::Syndrome;
use connectx::dma::{GuestMemory, Kind};
use connectx::hca::{Hca, State};
use connectx::ifc::{self, Field};
use connectx::uar::Doorbell;
use connectx::vport::RoceAddress;
use connectx::wire::net::map_ipv4;
use connectx::wire::RoceVersion;
use connectx::wqe::ctrl::{Ctrl, Fence, Flags, Head, Signal};
use connectx::wqe::data::{inline_header, Data};
use connectx::wqe::opcode::Opcode;
use connectx::wqe::rdma::RemoteAddr;
use connectx::wqe::{blocks, BB};
use connectx::{field, qp, size};

/// Bytes of memory of each function.
const MEMORY: usize = 96 << 20;

/// Status byte of a refused command.
pub type Refused = u8;

/// A completion queue as the driver sees it.
pub struct CqHandle {
    pub cqn: u32,
    pub record: u64,
    pub ci: u32,
    base: u64,
    log_size: u8,
    entry_size: u64,
}

/// A queue pair as the driver sees it.
pub struct QpHandle {
    pub qpn: u32,
    pub pd: u32,
    /// Send counter in blocks, receive counter.
    pub pi: u16,
    pub rq_pi: u16,
    sq: u64,
    sq_blocks: u64,
    rq: u64,
    rq_stride: u64,
    rq_size: u64,
    record: u64,
}

/// What a queue pair is created with.
#[derive(Clone, Copy)]
pub struct QpSpec {
    pub service: u32,
    pub log_sq: u32,
    pub log_rq: u32,
    pub srqn: Option<u32>,
}

impl Default for QpSpec {
    fn default() -> Self {
        QpSpec {
            service: 0,
            log_sq: 6,
            log_rq: 4,
            srqn: None,
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
        }
    }
}

/// One function and its driver.
pub struct Side {
    pub hca: Hca,
    pub pd: u32,
    pub uar: u32,
    pub async_eq: Eq,
    pub completion_eq: Eq,
    brk: u64,
}

/// An event queue as the driver sees it.
pub struct Eq {
    pub eqn: u32,
    base: u64,
    ci: u32,
}

const EQ_LOG_SIZE: u32 = 8;

/// Completion, or failure with syndrome, of an entry.
pub fn success(entry: Option<Cqe>) -> Success {
    match entry {
        Some(Cqe::Success(success)) => success,
        other => panic!("expected a success, got {other:?}"),
    }
}

pub fn failure(entry: Option<Cqe>) -> Failure {
    match entry {
        Some(Cqe::Failure(failure)) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

pub fn syndrome(entry: Option<Cqe>) -> Syndrome {
    failure(entry).syndrome
}

impl CqHandle {
    pub fn log_size(&self) -> u8 {
        self.log_size
    }

    /// Address of the 64 bytes of interest of the entry at a consumer index.
    pub fn place(&self, ci: u32) -> u64 {
        let index = u64::from(ci) & ((1 << self.log_size) - 1);
        self.base + (index + 1) * self.entry_size - 64
    }

    /// The queue after it moved to a buffer of 64-byte entries at `base`.
    pub fn moved(&self, base: u64, log_size: u8) -> CqHandle {
        CqHandle {
            base,
            log_size,
            entry_size: 64,
            ..*self
        }
    }
}

impl Side {
    fn new(index: u16, scramble: Option<u64>) -> Self {
        let mut config = FunctionConfig::new(index, FunctionKind::Pf);
        config.scramble = scramble;
        let mac = config.mac;
        let mut hca = Hca::new(config);
        hca.io.memory = GuestMemory::anonymous(0, MEMORY);
        hca.state = State::Initialized;
        let address = RoceAddress {
            gid: gid(index),
            mac,
            vlan: None,
            version: RoceVersion::V2,
        };
        assert!(hca.gids.set(&mut hca.io, 0, Some(address)));
        let mut side = Side {
            hca,
            pd: 0,
            uar: 0,
            async_eq: Eq {
                eqn: 0,
                base: 0,
                ci: 0,
            },
            completion_eq: Eq {
                eqn: 0,
                base: 0,
                ci: 0,
            },
            brk: 0x10_0000,
        };
        side.uar = side.alloc_object(0x802);
        side.pd = side.alloc_object(0x800);
        side.async_eq = side.create_eq(!(1 << 0xa));
        side.completion_eq = side.create_eq(0);
        side
    }

    /// Memory of whole pages.
    pub fn alloc(&mut self, len: u64) -> u64 {
        let addr = self.brk;
        self.brk += len.next_multiple_of(4096);
        assert!(self.brk <= MEMORY as u64, "out of memory");
        addr
    }

    pub fn write(&mut self, addr: u64, bytes: &[u8]) {
        self.hca
            .io
            .memory
            .write(Kind::Command, addr, bytes)
            .unwrap();
    }

    pub fn read(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.hca
            .io
            .memory
            .read(Kind::Command, addr, &mut out)
            .unwrap();
        out
    }

    /// Fills memory with a pattern that differs at every place, and returns it.
    pub fn pattern(&mut self, addr: u64, len: usize, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..len)
            .map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8 ^ seed)
            .collect();
        self.write(addr, &bytes);
        bytes
    }

    /// Executes a command and returns its output.
    pub fn cmd(&mut self, input: &[u8], out_len: usize) -> Result<Vec<u8>, Refused> {
        let out = cmd::execute(&mut self.hca, input, out_len);
        match out[0] {
            0 => Ok(out),
            status => Err(status),
        }
    }

    /// A command without parameters beyond one number.
    pub fn simple(&mut self, opcode: u16, number: u32) -> Result<Vec<u8>, Refused> {
        let mut input = vec![0; 0x110];
        input[..2].copy_from_slice(&opcode.to_be_bytes());
        input[8..12].copy_from_slice(&number.to_be_bytes());
        self.cmd(&input, 0x600)
    }

    /// One of the ALLOC commands.
    pub fn alloc_object(&mut self, opcode: u16) -> u32 {
        let out = self.simple(opcode, 0).expect("ALLOC");
        ifc::get(&out, field!(mlx5_ifc_alloc_pd_out_bits, pd))
    }

    fn create_eq(&mut self, mask: u64) -> Eq {
        let base = self.alloc(64 << EQ_LOG_SIZE);
        // The driver gives all entries to the hardware first.
        for i in 0..1 << EQ_LOG_SIZE {
            self.write(base + i * 64 + 63, &[1]);
        }
        let mut input = command(0x301, size!(mlx5_ifc_create_eq_in_bits));
        let mut set = |field, value| ifc::set(&mut input, field, value);
        set(
            field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.log_eq_size),
            EQ_LOG_SIZE,
        );
        set(
            field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.uar_page),
            self.uar,
        );
        let at = field!(mlx5_ifc_create_eq_in_bits, event_bitmask).byte_offset();
        input[at..at + 8].copy_from_slice(&mask.to_be_bytes());
        let pages = (64u64 << EQ_LOG_SIZE).div_ceil(4096);
        push_pages(&mut input, base, pages);
        let out = self.cmd(&input, 0x10).expect("CREATE_EQ");
        Eq {
            eqn: ifc::get(&out, field!(mlx5_ifc_create_eq_out_bits, eq_number)),
            base,
            ci: 0,
        }
    }

    /// The next event: its type and the number that it is about.
    fn next_event(&mut self, which: fn(&mut Side) -> &mut Eq) -> Option<(u8, u32)> {
        let eq = which(self);
        let (base, ci) = (eq.base, eq.ci);
        let entry = self.read(base + u64::from(ci & 0xff) * 64, 64);
        if u32::from(entry[63] & 1) != (ci >> EQ_LOG_SIZE) & 1 {
            return None;
        }
        which(self).ci += 1;
        let kind = entry[1];
        let at = if kind == 4 { 0x20 } else { 0x38 };
        let number = u32::from_be_bytes(entry[at..at + 4].try_into().unwrap());
        Some((kind, number & 0xff_ffff))
    }

    pub fn next_async(&mut self) -> Option<(u8, u32)> {
        self.next_event(|side| &mut side.async_eq)
    }

    pub fn next_completion(&mut self) -> Option<u32> {
        self.next_event(|side| &mut side.completion_eq)
            .map(|(_, cqn)| cqn)
    }

    /// A queue with entries of `entry_size` bytes.
    pub fn create_cq(&mut self, log_size: u8, entry_size: u64) -> CqHandle {
        self.create_cq_with(log_size, entry_size, |_| ())
    }

    pub fn create_cq_with(
        &mut self,
        log_size: u8,
        entry_size: u64,
        adjust: impl FnOnce(&mut [u8]),
    ) -> CqHandle {
        self.try_create_cq(log_size, entry_size, adjust)
            .expect("CREATE_CQ")
    }

    pub fn try_create_cq(
        &mut self,
        log_size: u8,
        entry_size: u64,
        adjust: impl FnOnce(&mut [u8]),
    ) -> Result<CqHandle, Refused> {
        let bytes = entry_size << log_size;
        let base = self.alloc(bytes);
        let record = self.alloc(8);
        // Not armed, as the driver starts.
        self.write(record + 4, &(2u32 << 28).to_be_bytes());
        for i in 0..1u64 << log_size {
            self.write(base + (i + 1) * entry_size - 1, &[cqe::OP_OWN_INIT]);
        }
        let mut input = command(0x400, size!(mlx5_ifc_create_cq_in_bits));
        let mut set = |field, value| ifc::set(&mut input, field, value);
        set(
            field!(mlx5_ifc_create_cq_in_bits, cq_context.log_cq_size),
            log_size.into(),
        );
        set(
            field!(mlx5_ifc_create_cq_in_bits, cq_context.cqe_sz),
            u32::from(entry_size == 128),
        );
        set(
            field!(mlx5_ifc_create_cq_in_bits, cq_context.uar_page),
            self.uar,
        );
        set(
            field!(mlx5_ifc_create_cq_in_bits, cq_context.c_eqn_or_apu_element),
            self.completion_eq.eqn,
        );
        ifc::set64(
            &mut input,
            field!(mlx5_ifc_create_cq_in_bits, cq_context.dbr_addr),
            record,
        );
        adjust(&mut input);
        push_pages(&mut input, base, bytes.div_ceil(4096));
        let out = self.cmd(&input, 0x10)?;
        Ok(CqHandle {
            cqn: ifc::get(&out, field!(mlx5_ifc_create_cq_out_bits, cqn)),
            record,
            ci: 0,
            base,
            log_size,
            entry_size,
        })
    }

    /// The entry at a consumer index, whosever it is.
    pub fn entry(&mut self, cq: &CqHandle, ci: u32) -> [u8; 64] {
        self.read(cq.place(ci), 64).try_into().unwrap()
    }

    /// The next completion, if there is one. The doorbell record is not moved.
    pub fn peek_cq(&mut self, cq: &CqHandle) -> Option<Cqe> {
        let entry = self.entry(cq, cq.ci);
        cqe::ready(entry[63], cq.ci, cq.log_size).then(|| Cqe::decode(&entry))
    }

    /// Takes the next completion and tells the device.
    pub fn poll(&mut self, cq: &mut CqHandle) -> Option<Cqe> {
        let entry = self.peek_cq(cq)?;
        cq.ci += 1;
        self.write(cq.record, &(cq.ci & 0xff_ffff).to_be_bytes());
        Some(entry)
    }

    pub fn arm(&mut self, cq: &CqHandle, sn: u32, solicited: bool) {
        let word = arm_word(cq, sn, solicited);
        self.write(cq.record + 4, &word.to_be_bytes());
        self.ring_cq(self.uar, word, cq.cqn);
    }

    /// Rings the CQ doorbell of a page; the record is left alone.
    pub fn ring_cq(&mut self, uar: u32, word: u32, cqn: u32) {
        let doorbell = (u64::from(word) << 32) | u64::from(cqn);
        let at = u64::from(uar) * 4096 + 0x20;
        let now = self.hca.io.now;
        self.hca.mmio_write(now, at, &doorbell.to_be_bytes());
    }

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
        set(field!(mlx5_ifc_create_qp_in_bits, qpc.fre), 1);
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
        let pd = qp.pd;
        self.modify(0x502, qp.qpn, 0, |input| {
            let mut set = |field: Field, value: u32| ifc::set(input, field, value);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.pd), pd);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.cqn_snd), cqs.0);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.cqn_rcv), cqs.1);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rre), read.into());
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rwe), write.into());
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rae), atomic.into());
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rlky), 1);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.q_key), 0x1111);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.mtu), 5);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_msg_max), 12);
        })
    }

    pub fn move_to_rtr(
        &mut self,
        qp: &QpHandle,
        peer: (u16, u32),
        link: &Link,
    ) -> Result<(), Refused> {
        self.modify(0x503, qp.qpn, 0, |input| {
            let mut set = |field: Field, value: u32| ifc::set(input, field, value);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.mtu), link.mtu);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_msg_max), 30);
            set(field!(mlx5_ifc_rst2init_qp_in_bits, qpc.remote_qpn), peer.1);
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.next_rcv_psn),
                link.psn,
            );
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_rra_max),
                link.log_reads,
            );
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.min_rnr_nak),
                link.min_rnr,
            );
            let at = field!(
                mlx5_ifc_rst2init_qp_in_bits,
                qpc.primary_address_path.rgid_rip
            )
            .byte_offset();
            input[at..at + 16].copy_from_slice(&gid(peer.0));
        })
    }

    pub fn move_to_rts(&mut self, qp: &QpHandle, link: &Link) -> Result<(), Refused> {
        self.modify(0x504, qp.qpn, 0, |input| {
            let mut set = |field: Field, value: u32| ifc::set(input, field, value);
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.next_send_psn),
                link.psn,
            );
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.log_sra_max),
                link.log_reads,
            );
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.retry_count),
                link.retry_count,
            );
            set(
                field!(mlx5_ifc_rst2init_qp_in_bits, qpc.rnr_retry),
                link.rnr_retry,
            );
            set(
                field!(
                    mlx5_ifc_rst2init_qp_in_bits,
                    qpc.primary_address_path.ack_timeout
                ),
                link.ack_timeout,
            );
        })
    }

    /// Writes a WQE of these segments into the ring and the doorbell record; does not ring.
    pub fn place(
        &mut self,
        qp: &mut QpHandle,
        opcode: Opcode,
        flags: Flags,
        imm: u32,
        segments: &[u8],
    ) -> (u16, [u8; 8]) {
        let index = qp.pi;
        let ds = (16 + segments.len()).div_ceil(16) as u8;
        let ctrl = Ctrl {
            head: Head {
                opmod: 0,
                index,
                opcode,
                qpn: qp.qpn,
                ds,
            },
            signature: 0,
            flags,
            imm,
        };
        let mut wqe = ctrl.encode().to_vec();
        wqe.extend_from_slice(segments);
        for (i, block) in wqe.chunks(BB).enumerate() {
            let slot = (u64::from(index) + i as u64) % qp.sq_blocks;
            self.write(qp.sq + slot * BB as u64, block);
        }
        qp.pi = index.wrapping_add(blocks(ds));
        self.write(qp.record + 4, &u32::from(qp.pi).to_be_bytes());
        (index, ctrl.head.encode())
    }

    /// Writes the send counter of the doorbell record alone.
    pub fn set_send_counter(&mut self, qp: &QpHandle, counter: u16) {
        self.write(qp.record + 4, &u32::from(counter).to_be_bytes());
    }

    pub fn ring(&mut self, qp: &QpHandle, index: u16) {
        let doorbell = Doorbell {
            qpn: qp.qpn,
            wqe_index: index,
            blueflame: None,
        };
        qp::doorbell(&mut self.hca, doorbell);
    }

    /// Posts a signaled WQE and rings.
    pub fn post(&mut self, qp: &mut QpHandle, opcode: Opcode, imm: u32, segments: &[u8]) -> u16 {
        self.post_with(qp, opcode, SIGNALED, imm, segments)
    }

    pub fn post_with(
        &mut self,
        qp: &mut QpHandle,
        opcode: Opcode,
        flags: Flags,
        imm: u32,
        segments: &[u8],
    ) -> u16 {
        let (index, _) = self.place(qp, opcode, flags, imm, segments);
        self.ring(qp, index);
        index
    }

    /// Posts a receive of these segments.
    pub fn post_receive(&mut self, qp: &mut QpHandle, segments: &[[u8; 16]]) {
        let slot = u64::from(qp.rq_pi) % qp.rq_size;
        let mut wqe = segments.concat();
        if wqe.len() < qp.rq_stride as usize {
            wqe.extend(data(0, 0x100, 0));
        }
        self.write(qp.rq + slot * qp.rq_stride, &wqe);
        qp.rq_pi = qp.rq_pi.wrapping_add(1);
        self.write(qp.record, &u32::from(qp.rq_pi).to_be_bytes());
    }

    /// A key of pages of this side's memory with all rights, less those in `without`.
    pub fn create_mkey(&mut self, addr: u64, va: u64, len: u64, without: &[Field]) -> u32 {
        let pd = self.pd;
        self.create_mkey_with(addr, va, len, |context| {
            ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
            for field in without {
                ifc::set(context, *field, 0);
            }
        })
        .expect("CREATE_MKEY")
    }

    pub fn create_mkey_with(
        &mut self,
        addr: u64,
        va: u64,
        len: u64,
        adjust: impl FnOnce(&mut [u8]),
    ) -> Result<u32, Refused> {
        let pages = ((va & 0xfff) + len).div_ceil(4096);
        let octwords = pages.div_ceil(2) as u32;
        let mut context = [0; size!(mlx5_ifc_mkc_bits)];
        for (field, value) in [
            (field!(mlx5_ifc_mkc_bits, access_mode_1_0), 1),
            (field!(mlx5_ifc_mkc_bits, lr), 1),
            (field!(mlx5_ifc_mkc_bits, lw), 1),
            (field!(mlx5_ifc_mkc_bits, rr), 1),
            (field!(mlx5_ifc_mkc_bits, rw), 1),
            (field!(mlx5_ifc_mkc_bits, a), 1),
            (field!(mlx5_ifc_mkc_bits, umr_en), 1),
            (field!(mlx5_ifc_mkc_bits, en_rinval), 1),
            (field!(mlx5_ifc_mkc_bits, qpn), 0xff_ffff),
            (field!(mlx5_ifc_mkc_bits, mkey_7_0), 0x5a),
            (field!(mlx5_ifc_mkc_bits, log_page_size), 12),
            (
                field!(mlx5_ifc_mkc_bits, translations_octword_size),
                octwords,
            ),
        ] {
            ifc::set(&mut context, field, value);
        }
        ifc::set64(&mut context, field!(mlx5_ifc_mkc_bits, start_addr), va);
        ifc::set64(&mut context, field!(mlx5_ifc_mkc_bits, len), len);
        adjust(&mut context);
        let mut input = command(0x200, size!(mlx5_ifc_create_mkey_in_bits));
        let at = field!(mlx5_ifc_create_mkey_in_bits, memory_key_mkey_entry).byte_offset();
        input[at..at + context.len()].copy_from_slice(&context);
        ifc::set(
            &mut input,
            field!(
                mlx5_ifc_create_mkey_in_bits,
                translations_octword_actual_size
            ),
            octwords,
        );
        for page in 0..u64::from(octwords) * 2 {
            let entry = ((addr & !0xfff) + page * 4096) | 3;
            input.extend(entry.to_be_bytes());
        }
        let out = self.cmd(&input, 0x10)?;
        let index = ifc::get(&out, field!(mlx5_ifc_create_mkey_out_bits, mkey_index));
        Ok((index << 8) | 0x5a)
    }
}

/// What a driver writes to arm a queue.
pub fn arm_word(cq: &CqHandle, sn: u32, solicited: bool) -> u32 {
    (sn << 28) | (u32::from(solicited) << 24) | (cq.ci & 0xff_ffff)
}

/// A signaled WQE without fence.
pub const SIGNALED: Flags = Flags::new(Fence::None, Signal::Always, false);

/// One that completes silently.
pub const SILENT: Flags = Flags::new(Fence::None, Signal::OnError, false);

/// A data segment.
pub fn data(len: u32, lkey: u32, addr: u64) -> [u8; 16] {
    Data {
        byte_count: len,
        lkey,
        addr,
    }
    .encode()
}

/// Data inside the WQE.
pub fn inline(bytes: &[u8]) -> Vec<u8> {
    let mut out = inline_header(bytes.len() as u16).to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(16), 0);
    out
}

/// A remote address segment.
pub fn remote(addr: u64, rkey: u32) -> [u8; 16] {
    RemoteAddr { addr, rkey }.encode()
}

/// Input of a command with its opcode.
pub fn command(opcode: u16, len: usize) -> Vec<u8> {
    let mut input = vec![0; len];
    input[..2].copy_from_slice(&opcode.to_be_bytes());
    input
}

fn push_pages(input: &mut Vec<u8>, base: u64, count: u64) {
    for page in 0..count {
        input.extend((base + page * 4096).to_be_bytes());
    }
}

/// The address of a function.
pub fn gid(index: u16) -> [u8; 16] {
    map_ipv4([10, 0, 0, index as u8 + 1])
}

/// What the wire does with a frame: how often, and after how many others, it arrives.
pub type WireFault = Box<dyn FnMut(usize, &[u8]) -> Vec<usize>>;

/// Two functions, connected.
pub struct Bench {
    pub sides: [Side; 2],
    pub now: u64,
    wire: VecDeque<(usize, usize, Vec<u8>)>,
    fault: Option<WireFault>,
    pub frames: usize,
    /// Frames come back to the function that sent them.
    pub loopback: bool,
}

impl Bench {
    pub fn new() -> Self {
        Self::scrambled(None)
    }

    /// With random bytes in reserved fields.
    pub fn scrambled(seed: Option<u64>) -> Self {
        Bench {
            sides: [Side::new(0, seed), Side::new(1, seed)],
            now: 1,
            wire: VecDeque::new(),
            fault: None,
            frames: 0,
            loopback: false,
        }
    }

    /// From now on, `fault(number, frame)` tells for each frame after how many others it arrives; empty: never.
    pub fn set_fault(&mut self, fault: impl FnMut(usize, &[u8]) -> Vec<usize> + 'static) {
        self.fault = Some(Box::new(fault));
    }

    /// A queue pair on each side with completion queues of its own, connected.
    pub fn connect(&mut self, spec: QpSpec, link: Link) -> [Endpoint; 2] {
        let endpoints = self.endpoints(spec);
        self.link(endpoints, link)
    }

    /// Queue pairs in reset.
    pub fn endpoints(&mut self, spec: QpSpec) -> [Endpoint; 2] {
        [0, 1].map(|i| {
            let side = &mut self.sides[i];
            let send = side.create_cq(8, 64);
            let receive = side.create_cq(8, 64);
            let qp = side.create_qp(spec, &send, &receive);
            Endpoint { qp, send, receive }
        })
    }

    /// Brings queue pairs from reset to ready-to-send, each the other's peer.
    pub fn link(&mut self, endpoints: [Endpoint; 2], link: Link) -> [Endpoint; 2] {
        for i in 0..2 {
            let qpn = endpoints[1 - i].qp.qpn;
            let me = &endpoints[i];
            let side = &mut self.sides[i];
            side.move_to_init(&me.qp, (me.send.cqn, me.receive.cqn), &link)
                .expect("RST2INIT");
            side.move_to_rtr(&me.qp, (1 - i as u16, qpn), &link)
                .expect("INIT2RTR");
            side.move_to_rts(&me.qp, &link).expect("RTR2RTS");
        }
        endpoints
    }

    /// Lets both functions work and the wire carry until nothing more happens at this time.
    pub fn settle(&mut self) {
        loop {
            let mut busy = false;
            for i in 0..2 {
                busy |= self.sides[i].hca.run(self.now, 64);
                let output = self.sides[i].hca.take_output();
                for frame in output.frames {
                    let to = if self.loopback { i } else { 1 - i };
                    self.submit(to, frame);
                    busy = true;
                }
            }
            busy |= self.deliver();
            if !busy && self.wire.is_empty() {
                return;
            }
        }
    }

    fn submit(&mut self, to: usize, frame: Vec<u8>) {
        let number = self.frames;
        self.frames += 1;
        let delays = match &mut self.fault {
            Some(fault) => fault(number, &frame),
            None => vec![0],
        };
        for delay in delays {
            self.wire.push_back((delay, to, frame.clone()));
        }
    }

    /// Delivers what is due; what waits for others moves up.
    fn deliver(&mut self) -> bool {
        let mut delivered = false;
        let mut later = VecDeque::new();
        while let Some((delay, to, frame)) = self.wire.pop_front() {
            if delay > 0 && !(delivered && self.wire.is_empty()) {
                later.push_back((delay - 1, to, frame));
                continue;
            }
            self.sides[to].hca.receive(self.now, &frame);
            delivered = true;
        }
        self.wire = later;
        delivered
    }

    /// Settles, and goes on to the next deadline, until `done` or `limit` nanoseconds have passed.
    pub fn run_until(&mut self, limit: u64, mut done: impl FnMut(&mut Bench) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            let next = self
                .sides
                .iter()
                .filter_map(|side| side.hca.next_deadline())
                .min();
            match next {
                Some(time) if time <= end => self.now = self.now.max(time),
                _ => return false,
            }
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, nanoseconds: u64) {
        self.run_until(nanoseconds, |_| false);
        self.now += nanoseconds;
        self.settle();
    }
}

/// A queue pair with its completion queues.
pub struct Endpoint {
    pub qp: QpHandle,
    pub send: CqHandle,
    pub receive: CqHandle,
}
