// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A wire that loses, doubles and disorders packets: everything still arrives once, in order.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::vport::RoceAddress;
use connectx::wire::net::map_ipv4;
use connectx::wire::{Bth, Extensions, Op, Packet, PacketBuilder, Path, RoceVersion};
use connectx::wqe::atomic::Atomic;
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc};
use rand::{rngs::SmallRng, Rng, SeedableRng};

use crate::bench::*;

/// Sends `count` messages of all kinds over the wire of `b` and checks that all of them came through.
fn exercise(b: &mut Bench, link: Link, count: u32) {
    let [mut a, mut c] = b.connect(QpSpec::default(), link);
    let (src, dst) = (b.sides[0].alloc(1 << 20), b.sides[1].alloc(1 << 20));
    let lkey = b.sides[0].create_mkey(src, src, 1 << 20, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, 1 << 20, &[]);
    let whole = b.sides[0].pattern(src, 1 << 20, 0x55);
    for i in 0..count {
        let (from, len) = (src + u64::from(i) * 31, 1 + i * 397 % 9000);
        let piece = data(len, lkey, from);
        let at = u64::from(i % 7) * 0x1_0000;
        let mut word = vec![];
        match i % 4 {
            0 => {
                let wqe = [remote(dst + at, rkey), piece].concat();
                b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &wqe);
            }
            1 => {
                b.sides[1].post_receive(&mut c.qp, &[data(9000, rkey, dst + at)]);
                b.sides[0].post(&mut a.qp, Opcode::SEND_IMM, i, &piece);
            }
            2 => {
                let back = [remote(dst + at, rkey), data(len, lkey, src + 0x8_0000)].concat();
                word = b.sides[1].pattern(dst + at, len as usize, i as u8);
                b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &back);
            }
            _ => {
                b.sides[1].write(dst + at, &u64::from(i).to_le_bytes());
                let wqe = [
                    remote(dst + at, rkey).to_vec(),
                    vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                    data(8, lkey, src + 0x8_0000).to_vec(),
                ]
                .concat();
                b.sides[0].post(&mut a.qp, Opcode::ATOMIC_FA, 0, &wqe);
            }
        }
        let before = b.sides[0].hca.io.counters.cqes;
        assert!(
            b.run_until(60_000_000_000, |b| b.sides[0].hca.io.counters.cqes > before),
            "message {i} got stuck"
        );
        success(b.sides[0].poll(&mut a.send));
        let from = (from - src) as usize;
        let want = &whole[from..from + len as usize];
        match i % 4 {
            0 => assert!(b.sides[1].read(dst + at, len as usize) == want, "write {i}"),
            1 => {
                let received = success(b.sides[1].poll(&mut c.receive));
                assert_eq!((received.imm, received.byte_cnt), (i, len));
                assert!(b.sides[1].read(dst + at, len as usize) == want, "send {i}");
            }
            2 => assert!(
                b.sides[0].read(src + 0x8_0000, len as usize) == word,
                "read {i}"
            ),
            _ => {
                let new = u64::from(i + 1).to_le_bytes();
                assert_eq!(
                    b.sides[1].read(dst + at, 8),
                    new,
                    "an atomic is executed once"
                );
                let old = u64::from(i).to_le_bytes();
                assert_eq!(b.sides[0].read(src + 0x8_0000, 8), old, "atomic {i}");
            }
        }
        assert!(b.sides[1].poll(&mut c.receive).is_none(), "delivered twice");
    }
}

fn patient() -> Link {
    Link {
        retry_count: 7,
        rnr_retry: 7,
        ..Link::default()
    }
}

#[test]
fn lost_packets_are_sent_again() {
    let mut rng = SmallRng::seed_from_u64(11);
    let mut b = Bench::new();
    b.set_fault(move |_, _| {
        if rng.random_bool(0.05) {
            vec![]
        } else {
            vec![0]
        }
    });
    exercise(&mut b, patient(), 200);
}

#[test]
fn doubled_packets_are_taken_once() {
    let mut rng = SmallRng::seed_from_u64(12);
    let mut b = Bench::new();
    b.set_fault(move |_, _| {
        if rng.random_bool(0.2) {
            vec![0, rng.random_range(0..8)]
        } else {
            vec![0]
        }
    });
    exercise(&mut b, patient(), 200);
}

#[test]
fn disordered_packets_are_put_in_order() {
    let mut rng = SmallRng::seed_from_u64(13);
    let mut b = Bench::new();
    b.set_fault(move |_, _| {
        if rng.random_bool(0.1) {
            vec![rng.random_range(1..6)]
        } else {
            vec![0]
        }
    });
    exercise(&mut b, patient(), 200);
}

/// The same packet with other headers.
fn changed(frame: &[u8], change: impl FnOnce(&mut Path, &mut Bth, &mut Extensions)) -> Vec<u8> {
    let packet = Packet::parse(frame).unwrap();
    let (mut path, mut bth, mut ext) = (packet.path, packet.bth, packet.ext);
    change(&mut path, &mut bth, &mut ext);
    let mut builder = PacketBuilder::new(&path, bth, &ext, packet.payload.len());
    builder.payload_mut().copy_from_slice(packet.payload);
    builder.finish()
}

#[test]
fn a_packet_must_come_to_the_address_of_the_queue_pair() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let rkey = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    // An address of the function, but not this queue pair's.
    let other = RoceAddress {
        gid: map_ipv4([10, 0, 0, 77]),
        mac: [2; 6],
        vlan: None,
        version: RoceVersion::V2,
    };
    let hca = &mut b.sides[1].hca;
    assert!(hca.gids.set(&mut hca.io, 1, Some(other)));
    let wqe = [remote(dst, rkey).to_vec(), inline(b"for you")].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &wqe);
    while b.sides[0].hca.run(b.now, 100) {}
    let frame = b.sides[0].hca.take_output().frames.remove(0);
    let strange = [
        changed(&frame, |path, _, _| path.dst = other.gid),
        changed(&frame, |path, _, _| path.src = other.gid),
        changed(&frame, |path, _, _| path.version = RoceVersion::V1),
        changed(&frame, |path, _, _| path.vlan = Some(0x2005)),
        changed(&frame, |path, _, _| path.dst_mac = [1, 0, 0x5e, 0, 0, 1]),
        changed(&frame, |_, bth, _| bth.pkey = 0x8001),
    ];
    let now = b.now;
    for (i, frame) in strange.iter().enumerate() {
        b.sides[1].hca.receive(now, frame);
        let dropped = b.sides[1].hca.io.counters.frames_dropped;
        assert_eq!(dropped, i as u64 + 1, "packet {i}");
    }
    assert_eq!(b.sides[1].read(dst, 7), [0; 7]);
    // A priority is not a VLAN.
    let tagged = changed(&frame, |path, _, _| path.vlan = Some(0x6000));
    b.sides[1].hca.receive(now, &tagged);
    assert_eq!(b.sides[1].read(dst, 7), b"for you");
}

#[test]
fn no_message_is_longer_than_the_standard_allows() {
    let mut b = Bench::new();
    let [mut a, c] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
    let lkey = b.sides[0].create_mkey(src, src, 4096, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let wqe = [remote(dst, rkey), data(64, lkey, src)].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &wqe);
    while b.sides[0].hca.run(b.now, 100) {}
    let frame = b.sides[0].hca.take_output().frames.remove(0);
    let long = changed(&frame, |_, _, ext| {
        if let Some(reth) = &mut ext.reth {
            reth.length = (1 << 31) + 1;
        }
    });
    let now = b.now;
    b.sides[1].hca.receive(now, &long);
    // An invalid request; beyond the key, it would be an access error.
    assert_eq!(b.sides[1].next_news(), Some((0x10, c.qp.qpn)));
}

#[test]
fn damaged_packets_are_lost_packets() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let rkey = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let wqe = [remote(dst, rkey).to_vec(), inline(b"intact")].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &wqe);
    while b.sides[0].hca.run(b.now, 100) {}
    let mut frame = b.sides[0].hca.take_output().frames.remove(0);
    let last = frame.len() - 8;
    frame[last] ^= 1;
    let now = b.now;
    b.sides[1].hca.receive(now, &frame);
    assert_eq!(b.sides[1].read(dst, 6), [0; 6]);
    assert!(b.run_until(1_000_000_000, |b| b.sides[0].hca.io.counters.cqes == 1));
    success(b.sides[0].poll(&mut a.send));
    assert_eq!(b.sides[1].read(dst, 6), b"intact");
}

#[test]
fn one_gap_is_refused_once_and_costs_no_time() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(1 << 16), b.sides[1].alloc(1 << 16));
    let lkey = b.sides[0].create_mkey(src, src, 1 << 16, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, 1 << 16, &[]);
    let whole = b.sides[0].pattern(src, 1 << 16, 1);
    let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    let naks = seen.clone();
    let mut lost = false;
    b.set_fault(move |_, frame| {
        let packet = Packet::parse(frame).expect("own frame");
        if packet.bth.opcode.op == Op::Acknowledge && packet.ext.aeth.is_some_and(|a| a.msn == 0) {
            naks.set(naks.get() + 1);
        }
        if packet.bth.opcode.op == Op::WriteMiddle && !lost {
            lost = true;
            return vec![];
        }
        vec![0]
    });
    let now = b.now;
    let wqe = [remote(dst, rkey), data(20_000, lkey, src)].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &wqe);
    b.settle();
    assert_eq!(b.now, now, "no timer was needed");
    success(b.sides[0].poll(&mut a.send));
    assert!(b.sides[1].read(dst, 20_000) == whole[..20_000]);
    assert!(seen.get() >= 1);
}

/// What is acknowledged completes, whatever local operations stand between, and by however few answers.
#[test]
fn one_answer_completes_all_messages_before_it() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    b.set_fault(|_, frame| {
        let packet = Packet::parse(frame).expect("own frame");
        let early = packet.bth.opcode.op == Op::Acknowledge
            && packet.ext.aeth.is_some_and(|aeth| aeth.msn < 4);
        if early {
            vec![]
        } else {
            vec![0]
        }
    });
    let mut posted = Vec::new();
    for _ in 0..4 {
        for (opcode, segments) in [
            (Opcode::RDMA_WRITE, &remote(0, 0)[..]),
            (Opcode::NOP, &[][..]),
        ] {
            let (index, _) = b.sides[0].place(&mut a.qp, opcode, SIGNALED, 0, segments);
            posted.push(index);
        }
    }
    b.sides[0].ring(&a.qp, *posted.last().expect("eight WQEs"));
    b.settle();
    let completed: Vec<u16> = std::iter::from_fn(|| b.sides[0].poll(&mut a.send))
        .map(|entry| success(Some(entry)).tail.wqe_counter)
        .collect();
    assert_eq!(completed, posted);
}

#[test]
fn what_is_longer_than_a_port_allows_goes_nowhere() {
    for port in 0..2 {
        let mut p = Pair::new(Link::default(), 8192);
        let segments = [remote(p.dst, p.rkey), data(8192, p.lkey, p.src)].concat();
        // The first packet has the longest headers: 14 + 20 + 8 + 12 + 16 bytes, and an ICRC.
        p.b.sides[port].hca.port.mtu = 1024 + 74;
        p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &segments);
        p.b.settle();
        success(p.b.sides[0].poll(&mut p.a.send));
        p.b.sides[port].hca.port.mtu -= 1;
        p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &segments);
        p.b.pass(1_000_000_000);
        let failed = syndrome(p.b.sides[0].poll(&mut p.a.send));
        assert_eq!(failed, Syndrome::TRANSPORT_RETRY_EXCEEDED, "port {port}");
        assert!(p.b.sides[port].hca.io.counters.frames_dropped > 0);
    }
}

/// Lets the first side send, and takes its first frame off the wire.
fn intercept(b: &mut Bench) -> Vec<u8> {
    while b.sides[0].hca.run(b.now, 100) {}
    b.sides[0].hca.take_output().frames.remove(0)
}

#[test]
fn answers_to_what_is_asked_again_do_not_pile_up() {
    let link = Link {
        log_reads: 1,
        ..Link::default()
    };
    let mut p = Pair::new(link, 8192);
    let segments = [remote(p.dst, p.rkey), data(8192, p.lkey, p.src)].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_READ, 0, &segments);
    let read = intercept(&mut p.b);
    let (hca, now) = (&mut p.b.sides[1].hca, p.b.now);
    hca.receive(now, &read);
    while hca.run(now, 100) {}
    assert_eq!(hca.take_output().frames.len(), 8);
    // All of it again, and again from each packet on.
    for packet in 0..8 {
        let again = changed(&read, |_, bth, ext| {
            bth.psn = (bth.psn + packet) & 0xff_ffff;
            let reth = ext.reth.as_mut().unwrap();
            reth.va += u64::from(1024 * packet);
            reth.length -= 1024 * packet;
        });
        hca.receive(now, &again);
    }
    let waiting = hca
        .qps
        .table
        .get(p.c.qp.qpn)
        .unwrap()
        .responder
        .replies
        .len();
    assert_eq!(waiting, 2, "as many as the queue pair has resources for");
}

/// Two atomics with the same sequence number, a whole round apart.
#[test]
fn an_atomic_is_answered_again_by_its_own_result() {
    let link = Link {
        mtu: 1,
        psn: 0x1234,
        ..Link::default()
    };
    let mut p = Pair::new(link, 8192);
    let pd = p.b.sides[1].pd;
    let all = p.b.sides[1].create_mkey_with(0, 0, 4096, |context| {
        ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
        ifc::set(context, field!(mlx5_ifc_mkc_bits, access_mode_1_0), 0);
        ifc::set(context, field!(mlx5_ifc_mkc_bits, length64), 1);
    });
    let all = all.expect("CREATE_MKEY");
    let add = Atomic {
        swap_add: 1,
        compare: 0,
    };
    let word = data(8, p.lkey, p.src);
    let atomic = [remote(p.dst, all), add.encode(), word].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::ATOMIC_FA, 0, &atomic);
    let atomic = intercept(&mut p.b);
    let wqe = [remote(p.dst, all), word].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_READ, 0, &wqe);
    let read = intercept(&mut p.b);

    let (hca, now) = (&mut p.b.sides[1].hca, p.b.now);
    let mut psn = 0x1234;
    hca.receive(now, &atomic);
    psn += 1;
    // READs as long as can be, which take all the other numbers; nobody waits for the answers.
    for packets in [1 << 23, (1 << 23) - 1] {
        let long = changed(&read, |_, bth, ext| {
            bth.psn = psn & 0xff_ffff;
            ext.reth.as_mut().unwrap().length = packets * 256;
        });
        hca.receive(now, &long);
        psn += packets;
        let qp = hca.qps.table.get_mut(p.c.qp.qpn).unwrap();
        qp.responder.replies.clear();
    }
    // The second atomic, and the same again.
    for _ in 0..2 {
        hca.receive(now, &atomic);
        while hca.run(now, 100) {}
        let answers = hca.take_output().frames;
        let answer = Packet::parse(&answers[0]).unwrap();
        assert_eq!(answer.ext.atomic_ack, Some(1));
    }
    let value = p.b.sides[1].read(p.dst, 8);
    assert_eq!(value, 2u64.to_le_bytes(), "carried out twice");
}
