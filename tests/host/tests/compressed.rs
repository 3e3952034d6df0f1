// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compressed completions: a model of the HCA writes a queue, the consumer of the module's code reads
//! it, over many rounds, and gets what the HCA meant. And hostile bytes.

use mlx5_ulp_host_tests::cq::compressed::{
    encode_title, is_title, released_op_own, Block, Malformed, Mini, MINIS,
};
use mlx5_ulp_host_tests::cq::cqe::{ready, Cqe, Failure, Opcode, Success, Tail, OP_OWN_INIT, SIZE};
use mlx5_ulp_host_tests::cq::syndrome::Syndrome;
use proptest::collection::vec;
use proptest::prelude::*;

const MAX: u32 = 40;

/// A queue in memory, with its two sides.
struct Queue {
    log_size: u8,
    places: Vec<[u8; SIZE]>,
    producer: u32,
    consumer: u32,
    block: Option<Block>,
}

/// What a completion says, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    opcode: Opcode,
    wqe_opcode: u8,
    counter: u16,
    byte_cnt: u32,
    syndrome: u8,
}

impl Queue {
    fn new(log_size: u8, start: u32) -> Queue {
        let mut empty = [0; SIZE];
        // As the consumer leaves it before the HCA knows the queue: as if the round before had been
        // taken.
        empty[SIZE - 1] = OP_OWN_INIT;
        let mut queue = Queue {
            log_size,
            places: vec![empty; 1 << log_size],
            producer: start,
            consumer: start,
            block: None,
        };
        for back in 1..=1u32 << log_size {
            let ci = start.wrapping_sub(back);
            queue.place(ci)[SIZE - 1] = released_op_own(ci, log_size);
        }
        queue
    }

    fn place(&mut self, counter: u32) -> &mut [u8; SIZE] {
        let mask = (1 << self.log_size) - 1;
        &mut self.places[(counter & mask) as usize]
    }

    fn room(&self) -> u32 {
        (1 << self.log_size) - self.producer.wrapping_sub(self.consumer)
    }

    fn tail(&self, said: &Said) -> Tail {
        Tail {
            wqe_opcode: said.wqe_opcode,
            qpn: 0x77,
            wqe_counter: said.counter,
            signature: 0,
            op_own: Tail::op_own(said.opcode, false, self.producer, self.log_size),
        }
    }

    fn success(&self, said: &Said) -> Success {
        Success {
            tail: self.tail(said),
            srqn: 0,
            imm: 0,
            byte_cnt: said.byte_cnt,
            timestamp: 1,
            flags_rqpn: 0,
            slid: 0,
            ml_path: 0,
        }
    }

    /// The HCA: one full entry.
    fn write_one(&mut self, said: &Said) {
        let bytes = if said.syndrome == 0 {
            self.success(said).encode()
        } else {
            let failure = Failure {
                tail: self.tail(said),
                srqn: 0,
                syndrome: Syndrome(said.syndrome),
                vendor_syndrome: 0,
            };
            failure.encode()
        };
        *self.place(self.producer) = bytes;
        self.producer = self.producer.wrapping_add(1);
    }

    /// The HCA: a block.
    fn write_block(&mut self, all: &[Said]) {
        let start = self.producer;
        for (n, minis) in all.chunks(MINIS).enumerate() {
            // Places that are not used keep what they have, as do bytes behind the last mini.
            let at = if n == 0 { 1 } else { n as u32 * 8 };
            let place = self.place(start.wrapping_add(at));
            for (i, said) in minis.iter().enumerate() {
                let mini = Mini {
                    wqe_counter: said.counter,
                    wqe_opcode: said.wqe_opcode,
                    byte_cnt: said.byte_cnt,
                };
                let bytes = if said.opcode == Opcode::REQ {
                    mini.encode_requester()
                } else {
                    mini.encode_responder()
                };
                place[i * 8..][..8].copy_from_slice(&bytes);
            }
        }
        let title = encode_title(&self.success(&all[0]), all.len() as u32);
        *self.place(start) = title;
        self.producer = start.wrapping_add(all.len() as u32);
    }

    /// The consumer: takes up to `budget` completions.
    fn poll(&mut self, budget: usize) -> Result<Vec<Said>, Malformed> {
        let mut got = Vec::new();
        while got.len() < budget {
            let ci = self.consumer;
            if self.block.is_none() {
                let bytes = *self.place(ci);
                if !ready(bytes[SIZE - 1], ci, self.log_size) {
                    break;
                }
                if is_title(bytes[SIZE - 1]) {
                    self.block = Some(Block::open(&bytes, ci, self.log_size, MAX)?);
                } else {
                    got.push(said(&Cqe::decode(&bytes)));
                    self.consumer = ci.wrapping_add(1);
                    continue;
                }
            }
            let mut block = self.block.take().unwrap();
            let Some(success) = block.next(|at| *self.place(at)) else {
                continue;
            };
            got.push(said(&Cqe::Success(success)));
            self.place(ci)[SIZE - 1] = released_op_own(ci, self.log_size);
            self.consumer = ci.wrapping_add(1);
            self.block = (block.left() > 0).then_some(block);
        }
        Ok(got)
    }
}

fn said(cqe: &Cqe) -> Said {
    let (tail, byte_cnt, syndrome) = match cqe {
        Cqe::Success(s) => (s.tail, s.byte_cnt, 0),
        Cqe::Failure(f) => (f.tail, 0, f.syndrome.0),
        Cqe::Other(tail) => (*tail, 0, 0xff),
    };
    Said {
        opcode: tail.opcode(),
        wqe_opcode: tail.wqe_opcode,
        counter: tail.wqe_counter,
        byte_cnt,
        syndrome,
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// A block of so many, of requester or responder.
    Block(u32, bool, u32),
    One(bool, u32),
    /// A failure, which the HCA puts behind the block that it ends.
    Error(u8),
    Poll(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (2..=MAX, any::<bool>(), any::<u32>()).prop_map(|(n, r, b)| Act::Block(n, r, b)),
        2 => (any::<bool>(), any::<u32>()).prop_map(|(r, b)| Act::One(r, b)),
        1 => (1u8..0x23).prop_map(Act::Error),
        5 => (0usize..60).prop_map(Act::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_consumer_gets_what_the_hca_meant(
        acts in vec(act(), 1..200),
        log_size in 1u8..7,
        start in prop_oneof![Just(0u32), Just(u32::MAX - 20), any::<u32>()],
    ) {
        let mut queue = Queue::new(log_size, start);
        let mut meant = Vec::new();
        let mut got = Vec::new();
        let mut counter = 0xfff0u16;
        for act in acts {
            let mut next = |requester: bool, byte_cnt: u32, syndrome| {
                counter = counter.wrapping_add(1);
                let opcode = match (requester, syndrome) {
                    (true, 0) => Opcode::REQ,
                    (false, 0) => Opcode::RESP_SEND,
                    _ => Opcode::REQ_ERR,
                };
                let wqe_opcode = if requester { byte_cnt as u8 | 8 } else { 0 };
                let byte_cnt = if syndrome == 0 { byte_cnt } else { 0 };
                Said { opcode, wqe_opcode, counter, byte_cnt, syndrome }
            };
            match act {
                Act::Block(n, requester, seed) if n <= queue.room() => {
                    let all: Vec<_> =
                        (0..n).map(|i| next(requester, seed.wrapping_mul(i | 1), 0)).collect();
                    queue.write_block(&all);
                    meant.extend(all);
                }
                Act::One(requester, bytes) if queue.room() > 0 => {
                    let one = next(requester, bytes, 0);
                    queue.write_one(&one);
                    meant.push(one);
                }
                Act::Error(syndrome) if queue.room() > 0 => {
                    let one = next(true, 0, syndrome);
                    queue.write_one(&one);
                    meant.push(one);
                }
                Act::Poll(budget) => got.extend(queue.poll(budget).unwrap()),
                _ => {}
            }
            prop_assert!(got.len() <= meant.len());
        }
        got.extend(queue.poll(usize::MAX).unwrap());
        prop_assert_eq!(&got, &meant);
        prop_assert!(queue.poll(1).unwrap().is_empty());
        prop_assert_eq!(queue.consumer, queue.producer);
    }

    /// A queue of any bytes: each poll ends, and no place is read outside of the queue (the model would
    /// panic), and what was taken is not taken again.
    #[test]
    fn any_bytes(
        places in vec(any::<[u8; 32]>(), 16),
        op_own in vec(any::<u8>(), 16),
        count in prop_oneof![0u32..20, any::<u32>()],
        start in any::<u32>(),
    ) {
        let mut queue = Queue::new(4, start);
        for (i, half) in places.iter().enumerate() {
            let place = &mut queue.places[i];
            place[..32].copy_from_slice(half);
            place[32..].copy_from_slice(half);
            if i % 2 == 0 {
                place[0x2c..0x30].copy_from_slice(&count.to_be_bytes());
            }
            place[SIZE - 1] = op_own[i];
        }
        let mut taken = 0;
        loop {
            match queue.poll(5) {
                Ok(got) if got.is_empty() => break,
                Ok(got) => taken += got.len(),
                Err(_) => break,
            }
            // What was taken is not taken again: the last block may reach into the second round.
            prop_assert!(taken <= 2 * 16, "more completions than places");
        }
    }
}

/// The places between title and minis, and behind, hold valid entries of the round before: the next
/// round must not take them for its own.
#[test]
fn old_entries_in_the_gaps_are_not_taken_again() {
    let mut queue = Queue::new(4, 0);
    let one = |n| Said {
        opcode: Opcode::REQ,
        wqe_opcode: 8,
        counter: n,
        byte_cnt: 0,
        syndrome: 0,
    };
    for round in 0..6u16 {
        if round % 2 == 0 {
            (0..16).for_each(|n| queue.write_one(&one(round * 16 + n)));
        } else {
            let all: Vec<_> = (0..16).map(|n| one(round * 16 + n)).collect();
            queue.write_block(&all);
        }
        let got = queue.poll(100).unwrap();
        let counters: Vec<_> = got.iter().map(|s| s.counter).collect();
        let want: Vec<_> = (0..16).map(|n| round * 16 + n).collect();
        assert_eq!(counters, want, "round {round}");
        assert!(queue.poll(1).unwrap().is_empty(), "round {round}");
    }
}
