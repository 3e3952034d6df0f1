// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults by rule and by injection: each does what it says, and nothing else.

mod injections;
mod rules;

use connectx::cqfmt::syndrome::Syndrome;
use connectx::faults::{inject, Fault, Injection, Rule};
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// Bytes of the memory of either side.
pub const LEN: usize = 16384;

/// No completion.
pub const NONE: [u16; 0] = [];

pub fn pair() -> Pair {
    Pair::new(Link::default(), LEN as u64)
}

impl Pair {
    pub fn rule(&mut self, side: usize, rule: Rule) {
        self.b.sides[side].hca.io.faults.add(rule).unwrap();
    }

    pub fn inject(&mut self, what: Injection) {
        let hca = &mut self.b.sides[0].hca;
        hca.io.now = self.b.now;
        inject(hca, what).unwrap();
    }

    pub fn nops(&mut self, count: usize) {
        for _ in 0..count {
            self.b.sides[0].post(&mut self.a.qp, Opcode::NOP, 0, &[]);
        }
        self.b.settle();
    }

    /// Posts a WRITE of all the memory.
    pub fn write(&mut self) {
        let segments = [
            remote(self.dst, self.rkey),
            data(LEN as u32, self.lkey, self.src),
        ];
        self.b.sides[0].post(&mut self.a.qp, Opcode::RDMA_WRITE, 0, &segments.concat());
    }

    /// Counters of the WQEs that completed with success.
    pub fn done(&mut self) -> Vec<u16> {
        let (side, cq) = (&mut self.b.sides[0], &mut self.a.send);
        let all = std::iter::from_fn(|| side.poll(cq));
        all.map(|entry| success(Some(entry)).tail.wqe_counter)
            .collect()
    }

    pub fn failed(&mut self) -> Syndrome {
        syndrome(self.b.sides[0].poll(&mut self.a.send))
    }
}

/// Completions that are late.
pub fn delay(ns: u64, bunch: Option<usize>, count: u64) -> Rule {
    Rule {
        count,
        ..Rule::once(Fault::CqeDelay { ns, bunch })
    }
}
