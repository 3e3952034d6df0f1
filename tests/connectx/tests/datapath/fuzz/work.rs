// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Send WQEs: as a driver makes them, with a change, or without any sense.

use connectx::cqfmt::cqe::Cqe;
use connectx::wqe::atomic::MaskedAtomic;
use connectx::wqe::av::AddressVector;
use connectx::wqe::ctrl::Flags;
use connectx::wqe::opcode::Opcode;
use connectx::wqe::umr::{access, flags, mask, Mkey, UmrCtrl};
use rand::{rngs::SmallRng, Rng, RngCore};

use super::misfortune::misfortune;
use super::stage::{Stage, BYTES, SERVICES, XRC};
use super::{one_of, service, Reached};
use crate::bench::*;

/// `qpc.st` and opcode; 0xff for all that have no name.
pub type Kind = (u32, u8);

fn kind(service: u32, opcode: u8) -> Kind {
    let named = Opcode(opcode).name().is_some();
    (service, if named { opcode } else { 0xff })
}

/// Does a queue pair of this service carry out the opcode?
fn is_defined(service: u32, opcode: Opcode) -> bool {
    match opcode {
        Opcode::NOP => true,
        Opcode::SEND | Opcode::SEND_IMM => service != 0xc,
        Opcode::RDMA_WRITE | Opcode::RDMA_WRITE_IMM => [0, 1, XRC].contains(&service),
        Opcode::SEND_INVAL | Opcode::RDMA_READ | Opcode::ATOMIC_CS | Opcode::ATOMIC_FA => {
            [0, XRC].contains(&service)
        }
        Opcode::ATOMIC_MASKED_CS | Opcode::ATOMIC_MASKED_FA => service == 0,
        Opcode::UMR => service != 2,
        _ => false,
    }
}

/// What must complete now and then.
pub fn defined() -> impl Iterator<Item = Kind> {
    SERVICES.into_iter().flat_map(|service| {
        let opcodes = Opcode::KNOWN.iter().copied();
        opcodes
            .filter(move |opcode| is_defined(service, *opcode))
            .map(move |opcode| (service, opcode.0))
    })
}

/// Gives pages to a key, or takes them.
fn umr(rng: &mut SmallRng, memory: u64) -> Vec<u8> {
    let register = rng.random();
    let pages = if register { rng.random_range(1..8) } else { 0 };
    let mut list: Vec<u8> = (0..pages)
        .flat_map(|i| (memory + i * 4096 + 3).to_be_bytes())
        .collect();
    list.resize(list.len().next_multiple_of(64), 0);
    let all = mask::LEN | mask::START_ADDR | mask::PAGE_SIZE | mask::RW | mask::EN_RINVAL;
    let ctrl = UmrCtrl {
        flags: flags::INLINE,
        xlt_octowords: (list.len() / 16) as u16,
        xlt_offset: 0,
        mkey_mask: mask::FREE | if register { all } else { 0 },
        xlt_offset_47_16: 0,
    };
    let key = Mkey {
        free: !register,
        access: access::REMOTE_WRITE | access::LOCAL_READ,
        mode: 1,
        qpn: 0xff_ffff,
        variant: 0x5a,
        flags_pd: 1 << 24,
        start: memory,
        len: pages * 4096,
        xlt_oct_size: 0,
        log_page_size: 12,
    };
    [ctrl.encode().as_slice(), &key.encode(), &list].concat()
}

/// Segments of a WQE of side `i`, as a driver writes them.
fn proper(rng: &mut SmallRng, stage: &Stage, i: usize, opcode: Opcode) -> Vec<u8> {
    let peer = 1 - i;
    let mut segments = Vec::new();
    if stage.service == XRC && !matches!(opcode, Opcode::NOP | Opcode::UMR) {
        segments.extend(queue(one_of(rng, &[stage.srqs[peer]])));
    }
    if stage.service == 2 && opcode != Opcode::NOP {
        let qpn = one_of(rng, &[stage.targets[peer]]);
        let to = AddressVector {
            grh: rng.random_bool(0.95),
            ..address(peer, qpn, one_of(rng, &[0x1111]))
        };
        segments.extend(to.encode());
    }
    if opcode.has_remote_address() {
        let key = one_of(rng, &[stage.keys[peer]]);
        let addr = stage.memory[peer] + (rng.random_range(0..BYTES / 2) & !7);
        segments.extend(remote(addr, key));
    }
    let key = one_of(rng, &[stage.keys[i]]);
    let addr = stage.memory[i] + rng.random_range(0..BYTES / 2);
    if opcode.is_atomic() {
        let operands = MaskedAtomic {
            swap_add: rng.random(),
            compare: 0,
            swap_add_mask: rng.random(),
            compare_mask: rng.random(),
        };
        let long = opcode == Opcode::ATOMIC_MASKED_CS;
        segments.extend(&operands.encode()[..if long { 32 } else { 16 }]);
        segments.extend(data(8, key, addr));
    } else if opcode == Opcode::UMR {
        segments.extend(umr(rng, stage.memory[i]));
    } else if opcode != Opcode::NOP {
        let longest = if stage.service == 2 { 1000 } else { 9000 };
        for _ in 0..rng.random_range(0..4) {
            if opcode != Opcode::RDMA_READ && rng.random_bool(0.2) {
                segments.extend(inline(&vec![7; rng.random_range(0..60)]));
            } else {
                segments.extend(data(rng.random_range(1..longest), key, addr));
            }
        }
    }
    segments
}

/// Any segments at all.
fn nonsense(rng: &mut SmallRng, stage: &Stage, i: usize) -> Vec<u8> {
    let keys = [stage.keys[0], stage.keys[1], stage.free[i], 0x100, 0x200];
    let mut segments = Vec::new();
    for _ in 0..rng.random_range(0..8) {
        let addr = stage.memory[i] + rng.random_range(0..2 * BYTES);
        let key = one_of(rng, &keys);
        match rng.random_range(0..4) {
            0 => segments.extend(remote(addr, key)),
            1 => segments.extend(inline(&vec![7; rng.random_range(0..60)])),
            2 => segments.extend(data(rng.random_range(0..20_000), key, addr)),
            _ => {
                let mut noise = [0; 16];
                rng.fill_bytes(&mut noise);
                segments.extend(noise);
            }
        }
    }
    segments
}

fn post(rng: &mut SmallRng, stage: &mut Stage, i: usize, reached: &mut Reached<Kind>) {
    let opcode = match rng.random_range(0..60) {
        0 => Opcode(rng.random()),
        1 => Opcode::KNOWN[rng.random_range(0..Opcode::KNOWN.len())],
        _ => {
            let known = Opcode::KNOWN.iter().copied();
            let good: Vec<_> = known.filter(|op| is_defined(stage.service, *op)).collect();
            good[rng.random_range(0..good.len())]
        }
    };
    let sense = is_defined(stage.service, opcode) && rng.random_bool(0.97);
    let mut segments = if sense {
        proper(rng, stage, i, opcode)
    } else {
        nonsense(rng, stage, i)
    };
    if !segments.is_empty() && rng.random_bool(0.03) {
        let at = rng.random_range(0..segments.len());
        segments[at] ^= 1 << rng.random_range(0..8);
    }
    segments.truncate(62 * 16);
    let flags = match rng.random_range(0..20) {
        0 => Flags(rng.random()),
        _ => SIGNALED,
    };
    let imm = match opcode {
        Opcode::UMR => one_of(rng, &[stage.free[i]]),
        _ => one_of(rng, &[stage.spare[1 - i]]),
    };
    reached.entry(kind(stage.service, opcode.0)).or_default()[0] += 1;
    let end = &mut stage.ends[i];
    stage.b.sides[i].post_with(&mut end.qp, opcode, flags, imm, &segments);
}

/// Takes completions, and notes the opcodes that succeeded.
fn poll(stage: &mut Stage, i: usize, reached: &mut Reached<Kind>) {
    let (side, end) = (&mut stage.b.sides[i], &mut stage.ends[i]);
    while let Some(entry) = side.poll(&mut end.send) {
        if let Cqe::Success(success) = entry {
            let kind = kind(stage.service, success.tail.wqe_opcode);
            reached.entry(kind).or_default()[1] += 1;
        }
    }
    while side.poll(&mut end.receive).is_some() {}
}

fn step(rng: &mut SmallRng, stage: &mut Stage, reached: &mut Reached<Kind>) {
    let i = rng.random_range(0..2);
    match rng.random_range(0..16) {
        0..=5 => post(rng, stage, i, reached),
        6..=8 => {
            let key = one_of(rng, &[stage.keys[i]]);
            stage.post_receive(i, rng.random_range(1000..40_000), key);
        }
        9 => {
            let word: u32 = rng.random();
            let (side, end) = (&mut stage.b.sides[i], &stage.ends[i]);
            let uar = side.uar;
            side.write(end.send.record + 4, &word.to_be_bytes());
            side.ring_cq(uar, word, end.send.cqn);
        }
        10 if rng.random_bool(0.1) => {
            let opcode = [0x507, 0x50a, 0x502, 0x503, 0x504, 0x505][rng.random_range(0..6)];
            let noise: u8 = rng.random();
            let at = rng.random_range(0x18..0x100);
            let optional = rng.next_u32() & 0xff;
            let qpn = stage.ends[i].qp.qpn;
            // Refused or not, as it comes.
            let _ = stage.b.sides[i].modify(opcode, qpn, optional, |input| input[at] = noise);
        }
        11 if rng.random_bool(0.2) => misfortune(rng, &mut stage.b.sides[i], &stage.ends[i]),
        12 | 13 => poll(stage, i, reached),
        _ => stage.b.pass(u64::from(rng.random_range(0..20_000_000u32))),
    }
    if rng.random_bool(0.3) {
        stage.b.settle();
    }
}

/// Two peers that post what they like.
pub fn episode(rng: &mut SmallRng, reached: &mut Reached<Kind>) {
    let service = service(rng);
    let mut stage = Stage::new(rng, service);
    for _ in 0..60 {
        step(rng, &mut stage, reached);
    }
    stage.b.pass(100_000_000);
    for i in 0..2 {
        poll(&mut stage, i, reached);
    }
}
