// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packets of a peer that is nobody's queue pair: requests in order and out of it, and answers to what a function asked.
//!
//! What the functions send goes nowhere but to the forger, who answers as it likes.

use std::cell::RefCell;
use std::rc::Rc;

use connectx::dma::Kind as Purpose;
use connectx::wire::{
    psn_add, AckSyndrome, Aeth, AtomicEth, Bth, Deth, Extensions, NakCode, Op, Opcode, Packet,
    PacketBuilder, Path, Reth, RoceVersion, Tail, Transport,
};
use connectx::wqe::atomic::Atomic;
use connectx::wqe::opcode::Opcode as Work;
use rand::{rngs::SmallRng, Rng};

use super::stage::{Stage, BYTES, XRC};
use super::{one_of, service, Reached};
use crate::bench::*;

/// The byte on the wire.
pub type Kind = u8;

/// Payload of a whole packet, by the MTU of [`Link::default`].
const MTU: usize = 1024;

/// What must have an effect now and then.
pub fn defined() -> impl Iterator<Item = Kind> {
    (0..=u8::MAX).filter(|byte| Opcode::from_byte(*byte).is_some())
}

/// A packet to be.
struct Forged {
    opcode: Opcode,
    to_qp: u32,
    psn: u32,
    payload: usize,
    reth_len: u32,
    syndrome: AckSyndrome,
}

struct Forger {
    stage: Stage,
    transport: Transport,
    /// Sequence number of the next request to each side.
    psn: [u32; 2],
    /// What the functions sent.
    sent: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Forger {
    fn new(stage: Stage, transport: Transport) -> Self {
        let mut forger = Forger {
            stage,
            transport,
            psn: [Link::default().psn; 2],
            sent: Rc::default(),
        };
        let sent = forger.sent.clone();
        forger.stage.b.set_fault(move |_, frame| {
            sent.borrow_mut().push(frame.to_vec());
            Vec::new()
        });
        forger
    }

    /// What a driver sees of a side, and the peer.
    fn effects(&self, side: usize) -> u64 {
        let io = &self.stage.b.sides[side].hca.io;
        let written = io.memory.writes(Purpose::Payload).accesses;
        io.counters.cqes + io.counters.recv_wqes + io.counters.frames_sent + written
    }

    /// Builds a packet, damaged now and then, and delivers it.
    fn deliver(
        &mut self,
        rng: &mut SmallRng,
        to: usize,
        mut packet: Forged,
        reached: &mut Reached<Kind>,
    ) {
        if rng.random_bool(0.08) {
            match rng.random_range(0..4) {
                0 => packet.psn = psn_add(packet.psn, rng.random_range(0..1 << 24)),
                1 => packet.psn = psn_add(packet.psn, rng.random_range(0..6)),
                2 => packet.payload = rng.random_range(0..3000),
                _ => {
                    let any = std::iter::repeat_with(|| Opcode::from_byte(rng.random()));
                    packet.opcode = any.flatten().next().expect("endless");
                }
            }
        }
        let mut frame = self.frame(rng, to, &packet);
        if rng.random_bool(0.03) {
            let at = rng.random_range(0..frame.len());
            frame[at] ^= 1 << rng.random_range(0..8);
        }
        if rng.random_bool(0.02) {
            frame.truncate(rng.random_range(0..frame.len()));
        }
        let before = self.effects(to);
        let now = self.stage.b.now;
        self.stage.b.sides[to].hca.receive(now, &frame);
        self.stage.b.settle();
        let counts = reached.entry(packet.opcode.to_byte()).or_default();
        counts[0] += 1;
        counts[1] += u64::from(self.effects(to) != before);
    }

    fn frame(&self, rng: &mut SmallRng, to: usize, packet: &Forged) -> Vec<u8> {
        let stage = &self.stage;
        let path = Path {
            version: RoceVersion::V2,
            dst_mac: [2; 6],
            src_mac: [2; 6],
            vlan: None,
            src: gid(1 - to as u16),
            dst: gid(to as u16),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 1,
            udp_src: 50_000,
        };
        let bth = Bth {
            opcode: packet.opcode,
            solicited: rng.random(),
            pad: 0,
            pkey: 0xffff,
            dest_qp: one_of(rng, &[packet.to_qp]) & 0xff_ffff,
            ack_req: rng.random_bool(0.7),
            psn: packet.psn,
        };
        let va = stage.memory[to] + (rng.random_range(0..BYTES / 2) & !7);
        let rkey = one_of(rng, &[stage.keys[to]]);
        let ext = Extensions {
            xrc_srq: Some(one_of(rng, &[stage.srqs[to]])),
            deth: Some(Deth {
                qkey: one_of(rng, &[0x1111]),
                src_qp: 1,
            }),
            reth: Some(Reth {
                va,
                rkey,
                length: packet.reth_len,
            }),
            atomic: Some(AtomicEth {
                va,
                rkey,
                swap_add: rng.random(),
                compare: 0,
                swap_add_mask: rng.random(),
                compare_mask: rng.random(),
            }),
            aeth: Some(Aeth {
                syndrome: packet.syndrome,
                msn: 0,
            }),
            atomic_ack: Some(rng.random()),
            immediate: Some([1; 4]),
            invalidate: Some(one_of(rng, &[stage.spare[to]])),
        };
        PacketBuilder::new(&path, bth, &ext, packet.payload).finish()
    }

    fn reliable(&self) -> bool {
        matches!(self.transport, Transport::Rc | Transport::Xrc)
    }

    /// A request of one or several packets to a side.
    fn request(&mut self, rng: &mut SmallRng, to: usize, reached: &mut Reached<Kind>) {
        let tails = [Tail::None, Tail::Immediate, Tail::Invalidate];
        let tail = tails[rng.random_range(0..if self.reliable() { 3 } else { 2 })];
        let count = match self.transport {
            Transport::Ud => 1,
            _ => rng.random_range(1..4),
        };
        let write = self.transport != Transport::Ud && rng.random();
        let last = rng.random_range(usize::from(count > 1)..MTU);
        let len = (count - 1) * MTU + last;
        for i in 0..count {
            let (first, end) = (i == 0, i == count - 1);
            let op = if write {
                Op::write(first, end, tail != Tail::None)
            } else {
                Op::send(first, end, tail)
            };
            let packet = self.forge(to, op, if end { last } else { MTU }, len as u32);
            self.deliver(rng, to, packet, reached);
            self.psn[to] = psn_add(self.psn[to], 1);
        }
    }

    /// A READ or an atomic to a side.
    fn fetch(&mut self, rng: &mut SmallRng, to: usize, reached: &mut Reached<Kind>) {
        let masked = [Op::MaskedCompareSwap, Op::MaskedFetchAdd];
        let op = match rng.random_range(0..5) {
            0 | 1 => Op::ReadRequest,
            2 => Op::CompareSwap,
            3 => Op::FetchAdd,
            _ if self.transport == Transport::Rc => masked[rng.random_range(0..2)],
            _ => Op::FetchAdd,
        };
        let len = if op == Op::ReadRequest {
            rng.random_range(0..4000)
        } else {
            0
        };
        let packet = self.forge(to, op, 0, len);
        self.deliver(rng, to, packet, reached);
        let responses = len.div_ceil(MTU as u32).max(1);
        self.psn[to] = psn_add(self.psn[to], responses);
    }

    fn forge(&self, to: usize, op: Op, payload: usize, reth_len: u32) -> Forged {
        Forged {
            opcode: Opcode {
                transport: self.transport,
                op,
            },
            to_qp: self.stage.targets[to],
            psn: self.psn[to],
            payload,
            reth_len,
            syndrome: AckSyndrome::Ack,
        }
    }

    /// A WQE on a side, the packets of which nobody gets.
    fn ask(&mut self, rng: &mut SmallRng, from: usize) {
        let stage = &mut self.stage;
        let (key, addr) = (stage.keys[from], stage.memory[from]);
        let there = remote(stage.memory[1 - from], stage.keys[1 - from]);
        let mut segments = Vec::new();
        if stage.service == XRC {
            segments.extend(queue(stage.srqs[1 - from]));
        }
        let opcode = [
            Work::RDMA_READ,
            Work::ATOMIC_FA,
            Work::SEND,
            Work::RDMA_WRITE,
        ][rng.random_range(0..4)];
        if opcode != Work::SEND {
            segments.extend(there);
        }
        let mut len = rng.random_range(1..4000);
        if opcode == Work::ATOMIC_FA {
            let operands = Atomic {
                swap_add: 1,
                compare: 0,
            };
            segments.extend(operands.encode());
            len = 8;
        }
        segments.extend(data(len, key, addr));
        let qp = &mut stage.ends[from].qp;
        stage.b.sides[from].post(qp, opcode, 0, &segments);
        stage.b.settle();
    }

    /// Answers the oldest requests that a side sent and that are not answered.
    fn answer(&mut self, rng: &mut SmallRng, to: usize, reached: &mut Reached<Kind>) {
        let frames = self.sent.take();
        let requests = frames.iter().filter_map(|frame| Packet::parse(frame).ok());
        let mine: Vec<_> = requests
            .filter(|packet| packet.path.src == gid(to as u16))
            .filter(|packet| packet.bth.opcode.op.request().is_some())
            .map(|packet| (packet.bth, packet.ext.reth.map_or(0, |reth| reth.length)))
            .collect();
        for (bth, len) in mine {
            match bth.opcode.op {
                Op::ReadRequest => {
                    let count = (len as usize).div_ceil(MTU).max(1);
                    for i in 0..count {
                        let op = Op::read_response(i == 0, i == count - 1);
                        let left = len as usize - i * MTU;
                        self.reply(
                            rng,
                            to,
                            op,
                            psn_add(bth.psn, i as u32),
                            left.min(MTU),
                            reached,
                        );
                    }
                }
                op if op.has_atomic_eth() => {
                    self.reply(rng, to, Op::AtomicAcknowledge, bth.psn, 0, reached);
                }
                _ => self.reply(rng, to, Op::Acknowledge, bth.psn, 0, reached),
            }
        }
    }

    fn reply(
        &mut self,
        rng: &mut SmallRng,
        to: usize,
        op: Op,
        psn: u32,
        payload: usize,
        reached: &mut Reached<Kind>,
    ) {
        let syndromes = [
            AckSyndrome::RnrNak(1),
            AckSyndrome::Nak(NakCode::PsnSequence),
            AckSyndrome::Nak(NakCode::RemoteAccess),
        ];
        let mut packet = self.forge(to, op, payload, 0);
        packet.to_qp = self.stage.ends[to].qp.qpn;
        packet.psn = psn;
        if rng.random_bool(0.1) {
            packet.syndrome = syndromes[rng.random_range(0..syndromes.len())];
        }
        self.deliver(rng, to, packet, reached);
    }
}

/// Two functions and somebody between them who speaks for both.
pub fn episode(rng: &mut SmallRng, reached: &mut Reached<Kind>) {
    let transports = [Transport::Rc, Transport::Uc, Transport::Ud, Transport::Xrc];
    let service = loop {
        let service = service(rng);
        if (service as usize) < transports.len() {
            break service;
        }
    };
    let stage = Stage::new(rng, service);
    let mut forger = Forger::new(stage, transports[service as usize]);
    for _ in 0..60 {
        let to = rng.random_range(0..2);
        match rng.random_range(0..12) {
            0..=3 => {
                let key = forger.stage.keys[to];
                forger.stage.post_receive(to, 4096, key);
                forger.request(rng, to, reached);
            }
            4 => forger.request(rng, to, reached),
            5 | 6 if forger.reliable() => forger.fetch(rng, to, reached),
            7..=9 if forger.reliable() => {
                forger.ask(rng, to);
                forger.answer(rng, to, reached);
            }
            10 if rng.random_bool(0.2) => {
                forger.stage.b.pass(rng.random_range(0..20_000_000));
            }
            _ => {
                let (side, end) = (&mut forger.stage.b.sides[to], &mut forger.stage.ends[to]);
                while side.poll(&mut end.send).is_some() {}
                while side.poll(&mut end.receive).is_some() {}
            }
        }
    }
    forger.stage.b.pass(100_000_000);
}
