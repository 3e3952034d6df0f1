// SPDX-License-Identifier: GPL-2.0 OR MIT

//! States of queue pairs: flush, reset, destruction, and what is refused in which state.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// Status byte of a refusal.
const BAD_PARAM: u8 = 0x3;

#[test]
fn the_error_state_flushes_both_queues_in_order_and_later_posts_too() {
    let mut p = Pair::new(Link::default(), 8192);
    for i in 0..3u64 {
        p.b.sides[1].post_receive(&mut p.c.qp, &[data(64, p.rkey, p.dst + i)]);
    }
    p.b.sides[1].simple(0x507, p.c.qp.qpn).expect("2ERR");
    p.b.settle();
    for i in 0..3 {
        let flushed = failure(p.b.sides[1].poll(&mut p.c.receive));
        assert_eq!(flushed.syndrome, Syndrome::FLUSHED);
        assert_eq!(flushed.tail.wqe_counter, i);
    }
    // No doorbell tells of a receive: the device looks now and then.
    p.b.sides[1].post_receive(&mut p.c.qp, &[data(64, p.rkey, p.dst)]);
    assert!(p.b.sides[1].poll(&mut p.c.receive).is_none());
    p.b.pass(30_000_000);
    assert_eq!(
        syndrome(p.b.sides[1].poll(&mut p.c.receive)),
        Syndrome::FLUSHED
    );
    // A WQE of several blocks counts as one.
    let segments = [remote(p.dst, p.rkey).to_vec(), inline(&[7; 100])].concat();
    let long = p.b.sides[1].post(&mut p.c.qp, Opcode::RDMA_WRITE, 0, &segments);
    let short = p.b.sides[1].post_with(&mut p.c.qp, Opcode::NOP, SILENT, 0, &[]);
    p.b.settle();
    for index in [long, short] {
        let flushed = failure(p.b.sides[1].poll(&mut p.c.send));
        assert_eq!(
            (flushed.syndrome, flushed.tail.wqe_counter),
            (Syndrome::FLUSHED, index)
        );
    }
    // Packets of the peer are not answered.
    let segments = [remote(p.dst, p.rkey).to_vec(), inline(b"x")].concat();
    p.expect(
        Opcode::RDMA_WRITE,
        &segments,
        Syndrome::TRANSPORT_RETRY_EXCEEDED,
        "peer in error",
    );
}

#[test]
fn a_reset_starts_anew_and_a_destroyed_queue_pair_is_silent() {
    let mut p = Pair::new(Link::default(), 8192);
    p.b.sides[0].post(&mut p.a.qp, Opcode::SEND, 0, &inline(b"lost"));
    p.b.sides[0].simple(0x50a, p.a.qp.qpn).expect("2RST");
    p.b.sides[1].simple(0x50a, p.c.qp.qpn).expect("2RST");
    p.b.pass(100_000_000);
    assert!(p.b.sides[0].poll(&mut p.a.send).is_none());
    let Pair {
        mut b,
        mut a,
        mut c,
        rkey,
        dst,
        ..
    } = p;
    (a.qp.pi, c.qp.rq_pi) = (0, 0);
    b.sides[0].set_send_counter(&a.qp, 0);
    let [mut a, mut c] = b.link([a, c], Link::default());
    b.sides[1].post_receive(&mut c.qp, &[data(64, rkey, dst)]);
    let index = b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &inline(b"found"));
    assert_eq!(index, 0);
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    success(b.sides[1].poll(&mut c.receive));

    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &inline(b"never"));
    b.sides[0].simple(0x501, a.qp.qpn).expect("DESTROY_QP");
    b.pass(100_000_000);
    assert!(b.sides[0].poll(&mut a.send).is_none());
    assert!(b.sides[1].poll(&mut c.receive).is_none());
}

#[test]
fn states_and_objects_in_use_are_refused() {
    const BAD_QP_STATE: u8 = 0x10;
    const RES_BUSY: u8 = 6;
    const BAD_RES: u8 = 5;
    let mut b = Bench::new();
    let [a, _c] = b.endpoints(QpSpec::default());
    let link = Link::default();
    let side = &mut b.sides[0];
    assert_eq!(
        side.move_to_rtr(&a.qp, (1, 0x100), &link),
        Err(BAD_QP_STATE)
    );
    assert_eq!(side.move_to_rts(&a.qp, &link), Err(BAD_QP_STATE));
    side.move_to_init(&a.qp, (a.send.cqn, a.receive.cqn), &link)
        .unwrap();
    assert_eq!(
        side.move_to_init(&a.qp, (a.send.cqn, a.receive.cqn), &link),
        Err(BAD_QP_STATE)
    );
    assert_eq!(side.simple(0x401, a.send.cqn).err(), Some(RES_BUSY));
    assert_eq!(side.simple(0x801, side.pd).err(), Some(RES_BUSY));
    side.simple(0x501, a.qp.qpn).expect("DESTROY_QP");
    assert_eq!(side.simple(0x501, a.qp.qpn).err(), Some(BAD_RES));
    side.simple(0x401, a.send.cqn).expect("DESTROY_CQ");
    side.simple(0x401, a.receive.cqn).expect("DESTROY_CQ");
    side.simple(0x801, side.pd).expect("DEALLOC_PD");
}

#[test]
fn a_doorbell_before_rts_is_lost() {
    let mut b = Bench::new();
    b.loopback = true;
    let side = &mut b.sides[0];
    let mut cq = side.create_cq(6, 64);
    let mut qp = side.create_qp(QpSpec::default(), &cq, &cq);
    let link = Link::default();
    side.move_to_init(&qp, (cq.cqn, cq.cqn), &link).unwrap();
    side.post(&mut qp, Opcode::NOP, 0, &[]);
    side.move_to_rtr(&qp, (0, qp.qpn), &link).unwrap();
    side.post(&mut qp, Opcode::NOP, 0, &[]);
    side.move_to_rts(&qp, &link).unwrap();
    b.settle();
    assert!(b.sides[0].poll(&mut cq).is_none());
    // The record counts, so the next doorbell makes up for them.
    b.sides[0].post(&mut qp, Opcode::NOP, 0, &[]);
    b.settle();
    for _ in 0..3 {
        success(b.sides[0].poll(&mut cq));
    }
}

#[test]
fn without_roce_queue_pairs_neither_connect_nor_hear_nor_speak() {
    let mut p = Pair::new(Link::default(), 8192);
    let segments = [remote(p.dst, p.rkey).to_vec(), inline(b"x")].concat();
    // The peer does not hear: the packets are frames like others to it.
    p.b.sides[1].set_roce(false);
    p.expect(
        Opcode::RDMA_WRITE,
        &segments,
        Syndrome::TRANSPORT_RETRY_EXCEEDED,
        "RoCE off on the other side",
    );
    assert_ne!(p.b.sides[1].hca.io.counters.frames_received, 0);
    assert_eq!(p.b.sides[1].hca.io.counters.frames_sent, 0);

    // Nothing leaves.
    let mut p = Pair::new(Link::default(), 8192);
    p.b.sides[0].set_roce(false);
    p.expect(
        Opcode::RDMA_WRITE,
        &segments,
        Syndrome::TRANSPORT_RETRY_EXCEEDED,
        "RoCE off on this side",
    );
    assert_eq!(p.b.sides[0].hca.io.counters.frames_sent, 0);

    // Nothing is connected; what needs no packet, as the driver's queue pair for UMR, is.
    const RC: u32 = 0;
    const UD: u32 = 2;
    const REG_UMR: u32 = 0xc;
    for (service, on, result) in [
        (RC, false, Err(BAD_PARAM)),
        (UD, false, Err(BAD_PARAM)),
        (REG_UMR, false, Ok(())),
        (RC, true, Ok(())),
    ] {
        let spec = QpSpec {
            service,
            ..QpSpec::default()
        };
        let mut b = Bench::new();
        let [a, c] = b.endpoints(spec);
        let (side, link) = (&mut b.sides[0], Link::default());
        side.set_roce(on);
        side.move_to_init(&a.qp, (a.send.cqn, a.receive.cqn), &link)
            .expect("RST2INIT");
        let moved = side.move_to_rtr(&a.qp, (1, c.qp.qpn), &link);
        assert_eq!(moved, result, "service {service:#x}, RoCE {on}");
    }
}
