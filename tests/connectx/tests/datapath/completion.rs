// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues: sizes, overrun, arming, moderation, resizing.

use connectx::cqfmt::cqe::{Cqe, Opcode as Kind};
use connectx::timing::Timing;
use connectx::uar::HOLD;
use connectx::wqe::ctrl::{Fence, Flags, Signal};
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc, size};

use crate::bench::*;

/// A queue pair that completes into a queue made by `create`, and that queue.
fn with_cq(create: impl FnOnce(&mut Side) -> CqHandle) -> (Bench, QpHandle, CqHandle) {
    let mut b = Bench::new();
    let [_, second] = b.endpoints(QpSpec::default());
    let send = create(&mut b.sides[0]);
    let receive = b.sides[0].create_cq(4, 64);
    let qp = b.sides[0].create_qp(QpSpec::default(), &send, &receive);
    let own = Endpoint { qp, send, receive };
    let [a, _c] = b.link([own, second], Link::default());
    (b, a.qp, a.send)
}

fn nop(b: &mut Bench, qp: &mut QpHandle) {
    b.sides[0].post(qp, Opcode::NOP, 0, &[]);
    b.settle();
}

fn events(b: &mut Bench) -> usize {
    std::iter::from_fn(|| b.sides[0].next_completion()).count()
}

#[test]
fn entries_of_both_sizes_change_owner_each_round() {
    for entry_size in [64, 128] {
        let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(2, entry_size));
        for _ in 0..20 {
            assert!(b.sides[0].peek_cq(&cq).is_none());
            nop(&mut b, &mut qp);
            success(b.sides[0].poll(&mut cq));
        }
    }
}

#[test]
fn an_overrun_is_an_event_and_ends_the_queue() {
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(2, 64));
    for _ in 0..4 {
        nop(&mut b, &mut qp);
    }
    assert_eq!(b.sides[0].next_async(), None);
    nop(&mut b, &mut qp);
    assert_eq!(b.sides[0].next_async(), Some((4, cq.cqn)));
    assert_eq!(
        b.sides[0].next_async(),
        Some((5, qp.qpn)),
        "its queue pair too"
    );
    for _ in 0..4 {
        success(b.sides[0].poll(&mut cq));
    }
    nop(&mut b, &mut qp);
    assert!(b.sides[0].poll(&mut cq).is_none(), "nothing comes any more");
}

#[test]
fn overrun_ignored_if_asked_for() {
    let oi = field!(mlx5_ifc_create_cq_in_bits, cq_context.oi);
    let (mut b, mut qp, _cq) =
        with_cq(|side| side.create_cq_with(2, 64, |input| ifc::set(input, oi, 1)));
    for _ in 0..9 {
        nop(&mut b, &mut qp);
    }
    assert_eq!(b.sides[0].next_async(), None);
}

#[test]
fn an_armed_queue_raises_one_event() {
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(4, 64));
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0, "not armed");
    success(b.sides[0].poll(&mut cq));
    b.sides[0].arm(&cq, 0, false);
    assert_eq!(events(&mut b), 0, "nothing to tell yet");
    nop(&mut b, &mut qp);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 1);
    // The second came when nobody was listening: arming again tells at once, or it would be forgotten.
    b.sides[0].arm(&cq, 1, false);
    assert_eq!(events(&mut b), 1);
    // A doorbell of before the event is stale.
    b.sides[0].arm(&cq, 1, false);
    assert_eq!(events(&mut b), 0);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
}

#[test]
fn no_entry_is_told_of_twice() {
    let notified = field!(mlx5_ifc_query_cq_out_bits, cq_context.last_notified_index);
    let mut query = command(0x402, size!(mlx5_ifc_query_cq_in_bits));
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(4, 64));
    ifc::set(&mut query, field!(mlx5_ifc_query_cq_in_bits, cqn), cq.cqn);
    // As perftest does it: armed before the entry is taken.
    for sn in 0..40 {
        b.sides[0].arm(&cq, sn % 4, false);
        assert_eq!(events(&mut b), 0, "one event for one completion");
        if sn > 0 {
            success(b.sides[0].poll(&mut cq));
        }
        nop(&mut b, &mut qp);
        assert_eq!(events(&mut b), 1);
        let out = b.sides[0].cmd(&query, 0x110).expect("QUERY_CQ");
        assert_eq!(ifc::get(&out, notified), sn + 1);
    }
    // The same when it is a solicited one.
    let with_event = Flags::new(Fence::None, Signal::AlwaysWithEvent, false);
    b.sides[0].arm(&cq, 0, true);
    b.sides[0].post_with(&mut qp, Opcode::NOP, with_event, 0, &[]);
    b.settle();
    assert_eq!(events(&mut b), 1);
    b.sides[0].arm(&cq, 1, true);
    assert_eq!(events(&mut b), 0);
}

#[test]
fn what_is_armed_stands_in_the_doorbell_record() {
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(2, 64));
    let uar = b.sides[0].uar;
    // The driver has forgotten to write the record: no event.
    let word = arm_word(&cq, 0, false);
    b.sides[0].ring_cq(uar, word, cq.cqn);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    assert_eq!(b.sides[0].hca.io.counters.mmio.arm_mismatches, 1);
    // The record alone does nothing either; both together do.
    b.sides[0].write(cq.record + 4, &word.to_be_bytes());
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    b.sides[0].ring_cq(uar, word, cq.cqn);
    assert_eq!(events(&mut b), 1);
    assert_eq!(b.sides[0].hca.io.counters.mmio.arm_mismatches, 1);
    // The index in the arm word does not make room: the consumer index of the record does.
    for sn in 1..3 {
        cq.ci += 1;
        b.sides[0].arm(&cq, sn, false);
        nop(&mut b, &mut qp);
    }
    assert_eq!(b.sides[0].next_async(), None);
    b.sides[0].arm(&cq, 3, false);
    nop(&mut b, &mut qp);
    assert_eq!(b.sides[0].next_async(), Some((4, cq.cqn)), "overrun");
}

#[test]
fn doorbells_through_another_page_are_ignored() {
    let (mut b, mut qp, cq) = with_cq(|side| side.create_cq(4, 64));
    let other = b.sides[0].alloc_object(0x802);
    let word = arm_word(&cq, 0, false);
    b.sides[0].write(cq.record + 4, &word.to_be_bytes());
    b.sides[0].ring_cq(other, word, cq.cqn);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    let (_, head) = b.sides[0].place(&mut qp, Opcode::NOP, SIGNALED, 0, &[]);
    let wqes = b.sides[0].hca.io.counters.wqes;
    for (page, done) in [(other, 0), (b.sides[0].uar, 1)] {
        let now = b.now;
        let at = u64::from(page) * 4096 + 0x800;
        b.sides[0].hca.mmio_write(now, at, &head);
        b.pass(2 * HOLD);
        assert_eq!(b.sides[0].hca.io.counters.wqes - wqes, done);
    }
    assert_eq!(b.sides[0].hca.io.counters.mmio.foreign_uar, 2);
    // RES_BUSY while a queue is rung through it.
    let uar = b.sides[0].uar;
    assert_eq!(b.sides[0].simple(0x803, uar), Err(6));
    assert!(b.sides[0].simple(0x803, other).is_ok());
}

#[test]
fn a_page_is_busy_as_long_as_a_queue_pair_uses_it() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let (send, receive) = (side.create_cq(2, 64), side.create_cq(2, 64));
    let first = side.uar;
    side.uar = side.alloc_object(0x802);
    let qp = side.create_qp(QpSpec::default(), &send, &receive);
    assert_eq!(side.simple(0x803, side.uar), Err(6));
    side.simple(0x501, qp.qpn).expect("DESTROY_QP");
    side.simple(0x803, side.uar).expect("DEALLOC_UAR");
    side.uar = first;
}

#[test]
fn solicited_events_wait_for_solicited_completions() {
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(4, 64));
    b.sides[0].arm(&cq, 0, true);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    let with_event = Flags::new(Fence::None, Signal::AlwaysWithEvent, false);
    b.sides[0].post_with(&mut qp, Opcode::NOP, with_event, 0, &[]);
    b.settle();
    assert_eq!(events(&mut b), 1);
    // One that came when nobody was listening: arming tells at once; not so behind it.
    b.sides[0].post_with(&mut qp, Opcode::NOP, with_event, 0, &[]);
    b.settle();
    b.sides[0].arm(&cq, 1, true);
    assert_eq!(events(&mut b), 1);
    b.sides[0].post_with(&mut qp, Opcode::NOP, with_event, 0, &[]);
    b.settle();
    for _ in 0..4 {
        success(b.sides[0].poll(&mut cq));
    }
    b.sides[0].arm(&cq, 2, true);
    assert_eq!(events(&mut b), 0);
    // An error counts as solicited.
    b.sides[0].post(&mut qp, Opcode(0x3f), 0, &[]);
    b.settle();
    assert_eq!(events(&mut b), 1);
}

#[test]
fn moderation_waits_for_the_count_or_the_period() {
    let period = field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_period);
    let count = field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_max_count);
    let (mut b, mut qp, cq) = with_cq(|side| {
        side.create_cq_with(6, 64, |input| {
            ifc::set(input, period, 100);
            ifc::set(input, count, 3);
        })
    });
    b.sides[0].arm(&cq, 0, false);
    nop(&mut b, &mut qp);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 1, "the count");
    let mut cq = cq;
    for _ in 0..3 {
        success(b.sides[0].poll(&mut cq));
    }
    b.sides[0].arm(&cq, 1, false);
    nop(&mut b, &mut qp);
    b.now += 99_000;
    b.settle();
    assert_eq!(events(&mut b), 0);
    b.now += 2_000;
    b.settle();
    assert_eq!(events(&mut b), 1, "the period");

    // Without moderation, at once.
    let mut input = command(0x403, size!(mlx5_ifc_modify_cq_in_bits));
    ifc::set(&mut input, field!(mlx5_ifc_modify_cq_in_bits, cqn), cq.cqn);
    input[0xc..0x10].copy_from_slice(&3u32.to_be_bytes());
    b.sides[0].cmd(&input, 0x10).expect("MODIFY_CQ");
    success(b.sides[0].poll(&mut cq));
    b.sides[0].arm(&cq, 2, false);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 1);
}

#[test]
fn a_new_moderation_holds_for_what_waits_already() {
    let period = field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_period);
    let count = field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_max_count);
    let (mut b, mut qp, cq) = with_cq(|side| {
        side.create_cq_with(6, 64, |input| {
            ifc::set(input, period, 1000);
            ifc::set(input, count, 100);
        })
    });
    b.sides[0].arm(&cq, 0, false);
    nop(&mut b, &mut qp);
    nop(&mut b, &mut qp);
    assert_eq!(events(&mut b), 0);
    let mut input = command(0x403, size!(mlx5_ifc_modify_cq_in_bits));
    ifc::set(&mut input, field!(mlx5_ifc_modify_cq_in_bits, cqn), cq.cqn);
    // The count alone.
    input[0xc..0x10].copy_from_slice(&2u32.to_be_bytes());
    let count = field!(mlx5_ifc_modify_cq_in_bits, cq_context.cq_max_count);
    ifc::set(&mut input, count, 2);
    b.sides[0].cmd(&input, 0x10).expect("MODIFY_CQ");
    assert_eq!(events(&mut b), 1);
}

#[test]
fn stages_take_their_time() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
    let lkey = b.sides[0].create_mkey(src, src, 4096, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let segments = [remote(dst, rkey), data(64, lkey, src)].concat();
    b.sides[0].hca.io.timing = Timing::CARD;
    b.sides[1].hca.io.timing = Timing::CARD;
    b.sides[0].hca.io.now = b.now;
    let start = b.now;
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &segments);
    let done = |b: &mut Bench| b.sides[0].hca.io.counters.cqes == 1;
    assert!(b.run_until(1_000_000, done));
    // There with the payload, and back with the acknowledgment.
    let want = 80 + 400 + 150 + 1200 + 800 + 800;
    assert_eq!(b.now - start, want);
    let stamp = success(b.sides[0].poll(&mut a.send)).timestamp;
    assert_eq!(stamp - start, want);
    let times: Vec<(String, u64)> = (b.sides[0].hca.io.events.of(Some(a.qp.qpn)))
        .map(|event| (event.what.to_string(), event.time - start))
        .collect();
    for (what, time) in [("WQE Fetch Start", 480), ("DMA Read Issued", 630)] {
        assert!(times.contains(&(what.into(), time)), "{times:?}");
    }
}

#[test]
fn a_resized_queue_says_where_it_went() {
    let (mut b, mut qp, mut cq) = with_cq(|side| side.create_cq(2, 64));
    nop(&mut b, &mut qp);
    let new = b.sides[0].alloc(64 << 4);
    for i in 0..16 {
        b.sides[0].write(new + i * 64 + 63, &[0xf0]);
    }
    let mut input = command(0x403, size!(mlx5_ifc_modify_cq_in_bits));
    input[6..8].copy_from_slice(&1u16.to_be_bytes());
    ifc::set(&mut input, field!(mlx5_ifc_modify_cq_in_bits, cqn), cq.cqn);
    let log = field!(mlx5_ifc_modify_cq_in_bits, cq_context.log_cq_size);
    ifc::set(&mut input, log, 4);
    // Its size, and where and how large its pages are.
    input[0xc..0x10].copy_from_slice(&7u32.to_be_bytes());
    input.extend(new.to_be_bytes());
    b.sides[0].cmd(&input, 0x10).expect("MODIFY_CQ");
    success(b.sides[0].poll(&mut cq));
    let Some(Cqe::Other(tail)) = b.sides[0].poll(&mut cq) else {
        panic!("no entry says that the queue moved");
    };
    assert_eq!(tail.opcode(), Kind::RESIZE);
    let mut moved = cq.moved(new, 4);
    for _ in 0..20 {
        nop(&mut b, &mut qp);
        success(b.sides[0].poll(&mut moved));
    }
}
