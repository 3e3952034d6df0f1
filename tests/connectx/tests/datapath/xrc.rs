// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Extended reliable connections: the request names the shared receive queue that it is for.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::wqe::atomic::Atomic;
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// A requester on side 0 and a responder on side 1, connected.
struct Extended {
    bench: Bench,
    requester: QpHandle,
    send: CqHandle,
    target: QpHandle,
    xrcd: u32,
}

fn connect() -> Extended {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let (send, receive) = (side.create_cq(6, 64), side.create_cq(4, 64));
    let xrcd = side.alloc_object(0x80e);
    let spec = QpSpec {
        service: 3,
        srqn: Some(shared_queue(side, xrcd).number),
        xrcd,
        ..QpSpec::default()
    };
    let requester = side.create_qp(spec, &send, &receive);
    let side = &mut b.sides[1];
    // As the driver does: a protection domain and a shared receive queue of its own, which nobody uses.
    let pd = side.alloc_object(0x800);
    let (idle, xrcd) = (side.alloc_object(0x80e), side.alloc_object(0x80e));
    let srqn = shared_queue(side, idle).number;
    let target = side.create_xrc_target(pd, srqn, xrcd);
    let link = Link::default();
    for (i, qp, cqs, peer) in [
        (0, &requester, (send.cqn, 0), target.qpn),
        (1, &target, (0, 0), requester.qpn),
    ] {
        let side = &mut b.sides[i];
        side.move_to_init(qp, cqs, &link).expect("RST2INIT");
        side.move_to_rtr(qp, (1 - i as u16, peer), &link)
            .expect("INIT2RTR");
        side.move_to_rts(qp, &link).expect("RTR2RTS");
    }
    Extended {
        bench: b,
        requester,
        send,
        target,
        xrcd,
    }
}

#[test]
fn a_message_goes_to_the_queue_that_it_names() {
    let mut x = connect();
    let b = &mut x.bench;
    let src = b.sides[0].alloc(4096);
    let lkey = b.sides[0].create_mkey(src, src, 4096, &[]);
    let whole = b.sides[0].pattern(src, 4096, 3);
    let mut queues = [(); 2].map(|()| shared_queue(&mut b.sides[1], x.xrcd));
    // Three packets each, so the middle ones name the queue, too.
    for (i, len) in [(0, 3000), (1, 2500), (1, 2100), (0, 10)] {
        let segments = [queue(queues[i].number), data(len, lkey, src).to_vec()].concat();
        b.sides[0].post(&mut x.requester, Opcode::SEND_IMM, 5, &segments);
    }
    b.settle();
    for (i, index, len) in [(0, 0u16, 3000), (1, 0, 2500), (1, 1, 2100), (0, 1, 10)] {
        success(b.sides[0].poll(&mut x.send));
        let received = success(b.sides[1].poll(&mut queues[i].cq));
        assert_eq!((received.byte_cnt, received.imm), (len as u32, 5));
        assert_eq!(received.tail.wqe_counter, index);
        assert_eq!(received.tail.qpn, x.target.qpn);
        assert_eq!(received.srqn, USER_INDEX);
        let at = queues[i].memory + 4096 * u64::from(index);
        assert!(b.sides[1].read(at, len) == whole[..len]);
    }
}

#[test]
fn memory_is_that_of_the_domain_of_the_queue() {
    let mut x = connect();
    let b = &mut x.bench;
    let mine = b.sides[0].alloc(8192);
    let lkey = b.sides[0].create_mkey(mine, mine, 8192, &[]);
    let text = b.sides[0].pattern(mine, 3000, 7);
    let srq = shared_queue(&mut b.sides[1], x.xrcd);
    assert_ne!(srq.pd, x.target.pd);
    let to = remote(srq.memory + 8192, srq.key).to_vec();
    let write = [
        queue(srq.number),
        to.clone(),
        data(3000, lkey, mine).to_vec(),
    ]
    .concat();
    b.sides[0].post(&mut x.requester, Opcode::RDMA_WRITE, 0, &write);
    let read = [
        queue(srq.number),
        to,
        data(3000, lkey, mine + 4096).to_vec(),
    ]
    .concat();
    b.sides[0].post(&mut x.requester, Opcode::RDMA_READ, 0, &read);
    let operands = Atomic {
        swap_add: 1,
        compare: 0,
    };
    let word = remote(srq.memory + 4096, srq.key).to_vec();
    let add = [
        queue(srq.number),
        word,
        operands.encode().to_vec(),
        data(8, lkey, mine + 8000).to_vec(),
    ]
    .concat();
    b.sides[0].post(&mut x.requester, Opcode::ATOMIC_FA, 0, &add);
    b.settle();
    for _ in 0..3 {
        success(b.sides[0].poll(&mut x.send));
    }
    assert!(b.sides[1].read(srq.memory + 8192, 3000) == text);
    assert!(b.sides[0].read(mine + 4096, 3000) == text);
    assert_eq!(b.sides[1].read(srq.memory + 4096, 8), 1u64.to_le_bytes());
}

#[test]
fn a_queue_of_another_domain_is_out_of_reach() {
    for known in [true, false] {
        let mut x = connect();
        let b = &mut x.bench;
        let other = b.sides[1].alloc_object(0x80e);
        let mut srq = shared_queue(&mut b.sides[1], other);
        let number = if known { srq.number } else { 0x3fff };
        let segments = [queue(number), inline(b"text")].concat();
        b.sides[0].post(&mut x.requester, Opcode::SEND, 0, &segments);
        b.settle();
        let failed = syndrome(b.sides[0].poll(&mut x.send));
        assert_eq!(failed, Syndrome::REMOTE_ACCESS);
        assert!(b.sides[1].poll(&mut srq.cq).is_none());
    }
}

#[test]
fn what_a_queue_uses_stays() {
    let mut x = connect();
    let side = &mut x.bench.sides[1];
    let srq = shared_queue(side, x.xrcd);
    assert!(side.simple(0x80f, x.xrcd).is_err(), "domain in use");
    assert!(side.simple(0x401, srq.cq.cqn).is_err(), "CQ in use");
    side.simple(0x706, srq.number).expect("DESTROY_XRC_SRQ");
    side.simple(0x401, srq.cq.cqn).expect("DESTROY_CQ");
    assert!(side.simple(0x80f, x.xrcd).is_err(), "used by the target");
    side.simple(0x501, x.target.qpn).expect("DESTROY_QP");
    side.simple(0x80f, x.xrcd).expect("DEALLOC_XRCD");
}
