// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Random WQEs, packets and doorbells: any answer is right but a panic or an access outside of memory, which the
//! memory itself refuses. Short and with fixed seeds here.

use connectx::faults::{inject, Fault, Injection, Refusal, Rule};
use connectx::wire::{
    AckSyndrome, Aeth, AtomicEth, Bth, Deth, Extensions, Opcode as WireOpcode, PacketBuilder, Path,
    Reth, RoceVersion,
};
use connectx::wqe::ctrl::Flags;
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc};
use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};

use crate::bench::*;

/// Mostly something that exists.
fn one_of(rng: &mut SmallRng, good: &[u32]) -> u32 {
    match rng.random_range(0..8) {
        0 => rng.next_u32(),
        _ => good[rng.random_range(0..good.len())],
    }
}

fn random_wqe(rng: &mut SmallRng, keys: &[u32], memory: u64) -> (Opcode, Flags, Vec<u8>) {
    let opcode = match rng.random_range(0..10) {
        0 => Opcode(rng.next_u32() as u8),
        _ => Opcode::KNOWN[rng.random_range(0..Opcode::KNOWN.len())],
    };
    let mut segments = Vec::new();
    for _ in 0..rng.random_range(0..8) {
        let addr = memory + rng.random_range(0..0x2_0000u64);
        let key = one_of(rng, keys);
        match rng.random_range(0..4) {
            0 => segments.extend(remote(addr, key)),
            1 => {
                let len = rng.random_range(0..60);
                segments.extend(inline(&vec![7; len]));
            }
            2 => segments.extend(data(rng.random_range(0..20_000), key, addr)),
            _ => {
                let mut noise = [0; 16];
                rng.fill_bytes(&mut noise);
                segments.extend(noise);
            }
        }
    }
    segments.truncate(62 * 16);
    (opcode, Flags(rng.next_u32() as u8), segments)
}

fn random_frame(rng: &mut SmallRng, to: usize, qpns: &[u32], keys: &[u32], memory: u64) -> Vec<u8> {
    let opcode = loop {
        if let Some(opcode) = WireOpcode::from_byte(rng.next_u32() as u8) {
            break opcode;
        }
    };
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
        opcode,
        solicited: rng.random(),
        pad: 0,
        pkey: 0xffff,
        dest_qp: one_of(rng, qpns) & 0xff_ffff,
        ack_req: rng.random(),
        psn: Link::default().psn.wrapping_add(rng.random_range(0..64)) & 0xff_ffff,
    };
    let va = memory + rng.random_range(0..0x2_0000u64);
    let syndromes = [
        AckSyndrome::Ack,
        AckSyndrome::RnrNak(1),
        AckSyndrome::Nak(connectx::wire::NakCode::PsnSequence),
        AckSyndrome::Nak(connectx::wire::NakCode::RemoteAccess),
    ];
    let ext = Extensions {
        xrc_srq: Some(rng.next_u32()),
        deth: Some(Deth {
            qkey: 0x1111,
            src_qp: 1,
        }),
        reth: Some(Reth {
            va,
            rkey: one_of(rng, keys),
            length: rng.random_range(0..100_000),
        }),
        atomic: Some(AtomicEth {
            va,
            rkey: one_of(rng, keys),
            swap_add: 1,
            compare: 2,
            swap_add_mask: 3,
            compare_mask: 4,
        }),
        aeth: Some(Aeth {
            syndrome: syndromes[rng.random_range(0..syndromes.len())],
            msn: 0,
        }),
        atomic_ack: Some(1),
        immediate: Some([1; 4]),
        invalidate: Some(one_of(rng, keys)),
    };
    let len = [0, 1, 1024, 1025, 4096][rng.random_range(0..5)];
    PacketBuilder::new(&path, bth, &ext, len).finish()
}

/// A fault by rule, or something that happens at once.
fn misfortune(rng: &mut SmallRng, side: &mut Side, end: &Endpoint) {
    let faults = [
        Fault::CqeDelay {
            ns: rng.random_range(0..3_000_000),
            bunch: Some(rng.random_range(1..9)),
        },
        Fault::CqeDrop {},
        Fault::CqeDouble {},
        Fault::SendError {
            syndrome: rng.random(),
            vendor: rng.random(),
        },
        Fault::ReceiveError {
            syndrome: rng.random(),
            vendor: rng.random(),
        },
        Fault::Nak {
            code: Refusal::NotReady,
        },
        Fault::Nak {
            code: Refusal::Sequence,
        },
        Fault::FrameDouble {},
        Fault::FrameLoss {},
        Fault::FrameDelay {
            frames: rng.random_range(0..9),
        },
    ];
    let rule = Rule {
        after: rng.random_range(0..4),
        every: rng.random_range(0..4),
        count: rng.random_range(1..9),
        ..Rule::once(faults[rng.random_range(0..faults.len())])
    };
    if rng.random_bool(0.7) {
        side.hca.io.faults.add(rule).unwrap();
        return;
    }
    let injections = [
        Injection::Cqe {
            cqn: end.send.cqn,
            qpn: rng.random(),
            index: rng.random(),
            opcode: rng.random_range(0..16),
            wrong_owner: rng.random(),
            garbage: rng.random_bool(0.5).then(|| rng.random()),
        },
        Injection::Eqe {
            eqn: side.async_eq.eqn,
            event: rng.random(),
            number: rng.random(),
            wrong_owner: rng.random(),
            garbage: None,
        },
        Injection::Port { up: rng.random() },
    ];
    // A queue that has overrun has no room.
    let _ = inject(
        &mut side.hca,
        injections[rng.random_range(0..injections.len())],
    );
}

fn episode(seed: u64, steps: u32) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut b = Bench::new();
    let spec = QpSpec {
        service: [0, 0, 0, 1, 2, 0xc][rng.random_range(0..6)],
        ..QpSpec::default()
    };
    // Some queues compress, some have a moderation.
    let (compresses, moderation) = (rng.random_bool(0.3), rng.random_range(0..4));
    let ends = b.endpoints_with(spec, |input| {
        for (field, value) in [
            (
                field!(mlx5_ifc_create_cq_in_bits, cq_context.cqe_comp_en),
                compresses.into(),
            ),
            (
                field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_period),
                moderation,
            ),
            (
                field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_max_count),
                moderation,
            ),
        ] {
            ifc::set(input, field, value);
        }
    });
    let mut ends = b.link(ends, Link::default());
    let memory = [0, 1].map(|i| b.sides[i].alloc(0x1_0000));
    let keys: Vec<u32> = (0..2)
        .map(|i| b.sides[i].create_mkey(memory[i], memory[i], 0x1_0000, &[]))
        .chain([0x100, 0x200])
        .collect();
    let qpns = [ends[0].qp.qpn, ends[1].qp.qpn, 1];
    for _ in 0..steps {
        let i = rng.random_range(0..2);
        let end = &mut ends[i];
        match rng.random_range(0..14) {
            0..=4 => {
                let (opcode, flags, segments) = random_wqe(&mut rng, &keys, memory[i]);
                let imm = one_of(&mut rng, &keys);
                b.sides[i].post_with(&mut end.qp, opcode, flags, imm, &segments);
            }
            5 | 6 => {
                let len = rng.random_range(0..5000);
                let segment = data(len, one_of(&mut rng, &keys), memory[i]);
                b.sides[i].post_receive(&mut end.qp, &[segment]);
            }
            7 => {
                let frame = random_frame(&mut rng, i, &qpns, &keys, memory[i]);
                let now = b.now;
                b.sides[i].hca.receive(now, &frame);
            }
            8 => {
                let word = rng.next_u32();
                let uar = b.sides[i].uar;
                b.sides[i].write(end.send.record + 4, &word.to_be_bytes());
                b.sides[i].ring_cq(uar, word, end.send.cqn);
            }
            9 => {
                let opcode = [0x507, 0x50a, 0x502, 0x503, 0x504, 0x505][rng.random_range(0..6)];
                let noise: u8 = rng.random();
                let _ = b.sides[i].modify(opcode, end.qp.qpn, rng.next_u32() & 0xff, |input| {
                    let at = rng.random_range(0x18..0x100);
                    input[at] = noise;
                });
            }
            10 => {
                while b.sides[i].poll(&mut end.send).is_some() {}
                while b.sides[i].poll(&mut end.receive).is_some() {}
            }
            11 => misfortune(&mut rng, &mut b.sides[i], end),
            _ => b.pass(u64::from(rng.random_range(0..20_000_000u32))),
        }
        if rng.random_bool(0.3) {
            b.settle();
        }
    }
    b.pass(100_000_000);
}

#[test]
fn random_work_is_survived() {
    for seed in 0..60 {
        episode(seed, 60);
    }
}
