// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state of one function.

use crate::config::FunctionConfig;
use crate::cq::Cqs;
use crate::eq::EventQueues;
use crate::io::{Io, Output};
use crate::mkey::Mkeys;
use crate::qp::Qps;
use crate::srq::Srqs;
use crate::table::Table;

/// A protection domain.
#[derive(Debug)]
pub struct Pd;

/// A UAR page.
#[derive(Debug)]
pub struct Uar;

/// An XRC domain.
#[derive(Debug)]
pub struct Xrcd;

/// One function (VHCA): no threads, no sockets. See the crate documentation.
#[derive(Debug)]
pub struct Hca {
    /// What the command line says about the function.
    pub config: FunctionConfig,
    /// The way to the outside.
    pub io: Io,
    /// Event queues.
    pub eqs: EventQueues,
    /// Protection domains.
    pub pds: Table<Pd>,
    /// UAR pages.
    pub uars: Table<Uar>,
    /// XRC domains.
    pub xrcds: Table<Xrcd>,
    /// Completion queues.
    pub cqs: Cqs,
    /// Memory keys.
    pub mkeys: Mkeys,
    /// Shared receive queues of all kinds.
    pub srqs: Srqs,
    /// Queue pairs.
    pub qps: Qps,
}

impl Hca {
    /// A function after power-on.
    pub fn new(config: FunctionConfig) -> Self {
        let io = Io::new(config.scramble);
        Self {
            config,
            io,
            eqs: EventQueues::default(),
            pds: Table::new("pd", 1, 1 << 16),
            uars: Table::new("uar", 16, 4096),
            xrcds: Table::new("xrcd", 1, 1 << 8),
            cqs: Table::new("cq", 0x80, 1 << 16),
            mkeys: Table::new("mkey", 0x10, 1 << 23),
            srqs: Table::new("srq", 1, 1 << 16),
            qps: Table::new("qp", 0x100, 1 << 17),
        }
    }

    /// Name in logs.
    pub fn name(&self) -> String {
        format!("{:?}{}", self.config.kind, self.config.index).to_lowercase()
    }

    /// The guest reads BAR0.
    pub fn mmio_read(&mut self, now: u64, _offset: u64, buf: &mut [u8]) {
        self.io.now = now;
        self.io.counters.mmio.reads += 1;
        buf.fill(0);
    }

    /// The guest writes BAR0.
    pub fn mmio_write(&mut self, now: u64, _offset: u64, _data: &[u8]) {
        self.io.now = now;
        self.io.counters.mmio.writes += 1;
    }

    /// A frame arrives from the wire.
    pub fn receive(&mut self, now: u64, frame: &[u8]) {
        self.io.now = now;
        self.io.counters.frames_received += 1;
        crate::qp::receive(self, frame);
    }

    /// Makes progress, at most `budget` steps; true if more could be done at once.
    pub fn run(&mut self, now: u64, budget: u32) -> bool {
        self.io.now = now;
        crate::cq::run(self);
        crate::qp::run(self, budget)
    }

    /// When [`run`](Self::run) must be called next even if nothing happens until then.
    pub fn next_deadline(&self) -> Option<u64> {
        [
            crate::cq::next_deadline(self),
            crate::qp::next_deadline(self),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes what waits for delivery.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.io.output)
    }
}
