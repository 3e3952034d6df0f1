// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Data arrives: WRITE and SEND of many sizes and shapes, counters that wrap.

use connectx::cqfmt::cqe::Opcode as Kind;
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

#[test]
fn a_write_arrives_at_any_size_and_alignment() {
    let mut b = Bench::new();
    let [mut a, _b] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(1 << 21), b.sides[1].alloc(1 << 21));
    let lkey = b.sides[0].create_mkey(src, 0x7000_0000, 1 << 21, &[]);
    let rkey = b.sides[1].create_mkey(dst, 0x9000_0000, 1 << 21, &[]);
    let whole = b.sides[0].pattern(src, 1 << 21, 0);
    for (i, len) in [
        1usize,
        2,
        3,
        64,
        255,
        1023,
        1024,
        1025,
        4096,
        65_535,
        65_537,
        1 << 20,
    ]
    .into_iter()
    .enumerate()
    {
        let (from, to) = (i * 7 + 4090, i * 13 + 4000);
        let before = b.sides[1].read(dst + to as u64 - 8, 8);
        let segments = [
            remote(0x9000_0000 + to as u64, rkey),
            data(len as u32, lkey, 0x7000_0000 + from as u64),
        ]
        .concat();
        let index = b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &segments);
        b.settle();
        let done = success(b.sides[0].poll(&mut a.send));
        assert_eq!(done.tail.wqe_counter, index);
        assert_eq!(done.tail.wqe_opcode, Opcode::RDMA_WRITE.0);
        assert_eq!(done.tail.qpn, a.qp.qpn);
        let got = b.sides[1].read(dst + to as u64, len);
        assert_eq!(got, whole[from..from + len], "{len} bytes");
        assert_eq!(b.sides[1].read(dst + to as u64 - 8, 8), before);
        b.sides[1].write(dst, &vec![0; 1 << 21]);
    }
    assert!(
        b.sides[1].peek_cq(&_b.receive).is_none(),
        "a WRITE completes at its own side only"
    );
}

#[test]
fn a_long_write_moves_in_a_bounded_window() {
    let mut b = Bench::new();
    let link = Link {
        mtu: 5,
        ..Link::default()
    };
    let [mut a, _b] = b.connect(QpSpec::default(), link);
    let len = 64u64 << 20;
    let (src, dst) = (b.sides[0].alloc(len), b.sides[1].alloc(len));
    let lkey = b.sides[0].create_mkey(src, src, len, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, len, &[]);
    let whole = b.sides[0].pattern(src, len as usize, 0x33);
    let segments = [remote(dst, rkey), data(len as u32, lkey, src)].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &segments);
    // One turn of the sender: no more than a window leaves without an acknowledgment.
    while b.sides[0].hca.run(b.now, 1000) {}
    let sender = b.sides[0].hca.qps.table.get(a.qp.qpn);
    let burst = sender.map_or(0, |qp| qp.stats.packets_sent);
    assert!((1..=64).contains(&burst), "{burst} packets at once");
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    assert!(b.sides[1].read(dst, len as usize) == whole);
}

#[test]
fn pieces_inline_data_and_nothing_at_all() {
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(8192), b.sides[1].alloc(8192));
    let lkey = b.sides[0].create_mkey(src, src, 8192, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, 8192, &[]);
    let whole = b.sides[0].pattern(src, 8192, 1);

    // Four pieces, longer than an MTU, and a WQE of two blocks.
    let segments = [
        remote(dst, rkey).to_vec(),
        data(1000, lkey, src).to_vec(),
        inline(b"in the middle"),
        data(3, lkey, src + 2000).to_vec(),
        data(1500, lkey, src + 4000).to_vec(),
    ]
    .concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &segments);
    // No bytes: neither key nor address matter.
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &remote(0xdead, 0xdead));
    // Into a receive of two pieces.
    let rlkey = b.sides[1].create_mkey(dst, dst, 8192, &[]);
    b.sides[1].post_receive(
        &mut c.qp,
        &[data(5, rlkey, dst + 6000), data(100, rlkey, dst + 7000)],
    );
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &inline(b"twelve bytes"));
    b.settle();
    for _ in 0..3 {
        success(b.sides[0].poll(&mut a.send));
    }
    let want = [
        &whole[..1000],
        b"in the middle",
        &whole[2000..2003],
        &whole[4000..5500],
    ]
    .concat();
    assert_eq!(b.sides[1].read(dst, want.len()), want);
    let received = success(b.sides[1].poll(&mut c.receive));
    assert_eq!(received.tail.opcode(), Kind::RESP_SEND);
    assert_eq!(received.byte_cnt, 12);
    assert_eq!(b.sides[1].read(dst + 6000, 5), b"twelv");
    assert_eq!(b.sides[1].read(dst + 7000, 7), b"e bytes");
}

#[test]
fn immediate_data_and_the_solicited_bit_arrive() {
    use connectx::wqe::ctrl::{Fence, Flags, Signal};
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    for _ in 0..2 {
        b.sides[1].post_receive(&mut c.qp, &[data(64, key, dst)]);
    }
    let solicited = Flags::new(Fence::None, Signal::Always, true);
    let write = [remote(dst + 100, key).to_vec(), inline(b"written")].concat();
    b.sides[0].post_with(
        &mut a.qp,
        Opcode::RDMA_WRITE_IMM,
        solicited,
        0x0102_0304,
        &write,
    );
    b.sides[0].post(&mut a.qp, Opcode::SEND_IMM, 0x0506_0708, &inline(b"sent"));
    b.settle();
    let first = success(b.sides[1].poll(&mut c.receive));
    assert_eq!(first.tail.opcode(), Kind::RESP_WRITE_IMM);
    assert_eq!((first.imm, first.byte_cnt), (0x0102_0304, 7));
    assert!(first.tail.solicited());
    let second = success(b.sides[1].poll(&mut c.receive));
    assert_eq!(second.tail.opcode(), Kind::RESP_SEND_IMM);
    assert_eq!((second.imm, second.byte_cnt), (0x0506_0708, 4));
    assert!(!second.tail.solicited());
    assert_eq!(b.sides[1].read(dst + 100, 7), b"written");
    assert_eq!(b.sides[1].read(dst, 4), b"sent");
}

#[test]
fn counters_of_wqes_and_packets_wrap() {
    let mut b = Bench::new();
    // The PSN starts 16 before its wrap; 70,000 WQEs wrap the counters of both queues.
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    for i in 0..70_000u32 {
        b.sides[1].post_receive(&mut c.qp, &[data(64, key, dst)]);
        let index = b.sides[0].post(&mut a.qp, Opcode::SEND_IMM, i, &inline(&i.to_be_bytes()));
        b.settle();
        let sent = success(b.sides[0].poll(&mut a.send));
        assert_eq!(sent.tail.wqe_counter, index);
        let received = success(b.sides[1].poll(&mut c.receive));
        assert_eq!(received.tail.wqe_counter, i as u16);
        assert_eq!(received.imm, i);
    }
}

#[test]
fn silent_wqes_are_done_with_the_next_completion() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    for i in 0..9u8 {
        let segments = [remote(dst + u64::from(i), key).to_vec(), inline(&[i + 1])].concat();
        b.sides[0].post_with(&mut a.qp, Opcode::RDMA_WRITE, SILENT, 0, &segments);
    }
    let last = b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    b.settle();
    assert_eq!(success(b.sides[0].poll(&mut a.send)).tail.wqe_counter, last);
    assert!(b.sides[0].poll(&mut a.send).is_none());
    assert_eq!(b.sides[1].read(dst, 9), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_missing_record_update_sends_nothing() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (index, _) = b.sides[0].place(&mut a.qp, Opcode::NOP, SIGNALED, 0, &[]);
    a.qp.pi = index;
    b.sides[0].set_send_counter(&a.qp, index);
    b.sides[0].ring(&a.qp, index);
    b.settle();
    assert!(b.sides[0].poll(&mut a.send).is_none());
}

#[test]
fn a_function_can_talk_to_itself() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let cqs = [0, 1].map(|_| side.create_cq(6, 64));
    let mut qps = [0, 1].map(|i| side.create_qp(QpSpec::default(), &cqs[i], &cqs[i]));
    for i in 0..2 {
        let link = Link::default();
        let peer = qps[1 - i].qpn;
        side.move_to_init(&qps[i], (cqs[i].cqn, cqs[i].cqn), &link)
            .unwrap();
        side.move_to_rtr(&qps[i], (0, peer), &link).unwrap();
        side.move_to_rts(&qps[i], &link).unwrap();
    }
    let dst = side.alloc(4096);
    let key = side.create_mkey(dst, dst, 4096, &[]);
    let segments = [remote(dst, key).to_vec(), inline(b"to myself")].concat();
    side.post(&mut qps[0], Opcode::RDMA_WRITE, 0, &segments);
    b.loopback = true;
    b.settle();
    assert_eq!(b.sides[0].read(dst, 9), b"to myself");
    let [mut cq, _] = cqs;
    success(b.sides[0].poll(&mut cq));
}

#[test]
fn random_bytes_in_reserved_fields_change_nothing() {
    let mut b = Bench::scrambled(Some(7));
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    b.sides[1].post_receive(&mut c.qp, &[data(64, key, dst)]);
    b.sides[0].post(&mut a.qp, Opcode::SEND_IMM, 9, &inline(b"noise"));
    b.settle();
    let sent = success(b.sides[0].poll(&mut a.send));
    assert_eq!((sent.tail.wqe_counter, sent.tail.signature), (0, 0));
    let received = success(b.sides[1].poll(&mut c.receive));
    assert_eq!((received.imm, received.byte_cnt), (9, 5));
    assert_eq!((received.srqn, received.flags_rqpn), (0, 0));
}
