// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues as the driver sees them.

use connectx::cqfmt::cqe::{self, Cqe, Failure, Success};
use connectx::cqfmt::syndrome::Syndrome;
use connectx::{field, ifc, size};

use super::{command, push_pages, Refused, Side};

/// A completion queue as the driver sees it.
pub struct CqHandle {
    pub cqn: u32,
    pub record: u64,
    pub ci: u32,
    base: u64,
    log_size: u8,
    entry_size: u64,
}

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

/// What a driver writes to arm a queue.
pub fn arm_word(cq: &CqHandle, sn: u32, solicited: bool) -> u32 {
    (sn << 28) | (u32::from(solicited) << 24) | (cq.ci & 0xff_ffff)
}

impl Side {
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
}
