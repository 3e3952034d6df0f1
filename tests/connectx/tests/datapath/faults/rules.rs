// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults that wait for their occasion.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::faults::{Fault, Refusal, Rule};
use connectx::uar::HOLD;
use connectx::wqe::opcode::Opcode;

use super::{delay, pair, LEN, NONE};
use crate::bench::*;

#[test]
fn completions_are_late_and_come_together() {
    let mut p = pair();
    p.rule(0, delay(50_000, None, 0));
    p.b.sides[0].arm(&p.a.send, 0, false);
    p.nops(2);
    p.b.now += 30_000;
    p.nops(1);
    assert_eq!(p.done(), NONE);
    assert_eq!(p.b.sides[0].next_completion(), None);
    p.b.now += 20_000;
    p.b.settle();
    assert_eq!(p.done(), [0, 1, 2]);
    assert_eq!(p.b.sides[0].next_completion(), Some(p.a.send.cqn));
    // The clock of the next bunch starts with its first.
    p.nops(1);
    p.b.pass(49_000);
    assert_eq!(p.done(), NONE);
    p.b.pass(1_000);
    assert_eq!(p.done(), [3]);
}

#[test]
fn completions_come_in_bunches_and_in_order() {
    let mut p = pair();
    p.rule(0, delay(1_000_000_000, Some(4), 6));
    p.nops(3);
    assert_eq!(p.done(), NONE);
    p.nops(2);
    assert_eq!(p.done(), [0, 1, 2, 3]);
    // The sixth is the last that the rule delays; the seventh must not overtake it.
    p.nops(2);
    assert_eq!(p.done(), NONE);
    p.nops(1);
    assert_eq!(p.done(), [4, 5, 6, 7]);
    p.nops(1);
    assert_eq!(p.done(), [8]);
}

#[test]
fn no_completion_comes_after_its_queue_pair_is_gone() {
    for opcode in [0x50a, 0x501] {
        let mut p = pair();
        p.rule(0, delay(1_000_000_000, None, 0));
        p.nops(3);
        let qpn = p.a.qp.qpn;
        p.b.sides[0].simple(opcode, qpn).unwrap();
        assert_eq!(p.done(), [0, 1, 2], "{opcode:#x}");
    }
}

#[test]
fn completions_are_lost_and_doubled() {
    let mut p = pair();
    p.rule(
        0,
        Rule {
            after: 1,
            queue: Some(p.a.send.cqn),
            ..Rule::once(Fault::CqeDrop {})
        },
    );
    p.rule(
        0,
        Rule {
            after: 2,
            ..Rule::once(Fault::CqeDouble {})
        },
    );
    p.nops(5);
    // The doubling does not see the completion that is lost before.
    assert_eq!(p.done(), [0, 2, 3, 3, 4]);
}

#[test]
fn sends_fail_with_each_syndrome() {
    for syndrome in Syndrome::KNOWN {
        let mut p = pair();
        p.rule(
            0,
            Rule {
                after: 1,
                queue: Some(p.a.qp.qpn),
                ..Rule::once(Fault::SendError {
                    syndrome: syndrome.0,
                    vendor: 0x99,
                })
            },
        );
        p.nops(3);
        success(p.b.sides[0].poll(&mut p.a.send));
        let failed = failure(p.b.sides[0].poll(&mut p.a.send));
        assert_eq!((failed.syndrome, failed.vendor_syndrome), (*syndrome, 0x99));
        assert_eq!(failed.tail.wqe_counter, 1);
        assert_eq!(p.failed(), Syndrome::FLUSHED);
    }
}

#[test]
fn receives_fail() {
    let mut p = pair();
    let (qpn, lkey, src) = (p.c.qp.qpn, p.lkey, p.src);
    p.rule(
        1,
        Rule {
            queue: Some(qpn),
            ..Rule::once(Fault::ReceiveError {
                syndrome: Syndrome::LOCAL_PROTECTION.0,
                vendor: 7,
            })
        },
    );
    let into = data(64, p.rkey, p.dst);
    for _ in 0..2 {
        p.b.sides[1].post_receive(&mut p.c.qp, &[into]);
    }
    p.b.sides[0].post(&mut p.a.qp, Opcode::SEND, 0, &data(8, lkey, src));
    p.b.settle();
    assert_eq!(p.failed(), Syndrome::REMOTE_OPERATION);
    for want in [Syndrome::LOCAL_PROTECTION, Syndrome::FLUSHED] {
        assert_eq!(syndrome(p.b.sides[1].poll(&mut p.c.receive)), want);
    }
}

#[test]
fn requests_are_refused() {
    for (code, want, event) in [
        (
            Refusal::InvalidRequest,
            Syndrome::REMOTE_INVALID_REQUEST,
            Some(0x10),
        ),
        (Refusal::RemoteAccess, Syndrome::REMOTE_ACCESS, Some(0x11)),
        (Refusal::RemoteOperation, Syndrome::REMOTE_OPERATION, None),
    ] {
        let mut p = pair();
        p.rule(1, Rule::once(Fault::Nak { code }));
        p.write();
        p.b.settle();
        assert_eq!(p.failed(), want);
        assert_eq!(p.b.sides[1].next_news().map(|(kind, _)| kind), event);
    }
}

#[test]
fn requests_are_put_off() {
    for code in [Refusal::NotReady, Refusal::Sequence] {
        let mut p = pair();
        let sent = p.b.sides[0].pattern(p.src, LEN, 9);
        p.rule(
            1,
            Rule {
                after: 2,
                ..Rule::once(Fault::Nak { code })
            },
        );
        p.write();
        p.b.pass(1_000_000_000);
        assert_eq!(p.done(), [0], "{code:?}");
        assert_eq!(p.b.sides[1].read(p.dst, LEN), sent);
        let stats = p.b.sides[0].hca.qps.table.get(p.a.qp.qpn).unwrap().stats;
        assert_eq!(stats.retries + stats.rnr_retries, 1);
    }
}

#[test]
fn a_lost_doorbell_is_made_up_for_by_the_next() {
    let mut p = pair();
    p.rule(0, Rule::once(Fault::DoorbellLoss {}));
    let uar = u64::from(p.b.sides[0].uar) * 4096;
    for done in [vec![], vec![0u16, 1]] {
        let (_, head) = p.b.sides[0].place(&mut p.a.qp, Opcode::NOP, SIGNALED, 0, &[]);
        p.b.sides[0].hca.mmio_write(p.b.now, uar + 0x800, &head);
        p.b.pass(2 * HOLD);
        assert_eq!(p.done(), done);
    }
}

#[test]
fn frames_are_lost_doubled_and_overtaken() {
    for fault in [
        Fault::FrameLoss {},
        Fault::FrameDouble {},
        Fault::FrameDelay { frames: 3 },
    ] {
        for side in 0..2 {
            let mut p = pair();
            let sent = p.b.sides[0].pattern(p.src, LEN, 5);
            p.rule(
                side,
                Rule {
                    after: 1,
                    every: 7,
                    count: 0,
                    ..Rule::once(fault)
                },
            );
            for _ in 0..4 {
                p.write();
            }
            p.b.pass(5_000_000_000);
            assert_eq!(p.done(), [0, 1, 2, 3], "{fault:?} of {side}");
            assert_eq!(p.b.sides[1].read(p.dst, LEN), sent);
            let rules = p.b.sides[side].hca.io.faults.rules();
            assert!(rules[0].hits > 0, "{fault:?} of {side}");
        }
    }
}

#[test]
fn the_last_frame_is_not_late_for_ever() {
    let mut p = pair();
    p.rule(0, Rule::once(Fault::FrameDelay { frames: 1000 }));
    let segments = [remote(p.dst, p.rkey), data(8, p.lkey, p.src)].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &segments);
    p.b.settle();
    assert_eq!(p.done(), NONE);
    p.b.pass(1_000_000);
    assert_eq!(p.done(), [0]);
    let stats = p.b.sides[0].hca.qps.table.get(p.a.qp.qpn).unwrap().stats;
    assert_eq!(stats.retries, 0);
}

#[test]
fn a_command_fails_with_the_status_and_leaves_nothing() {
    let mut p = pair();
    let side = &mut p.b.sides[0];
    let rule = Fault::CommandFailure {
        opcode: Some(0x400),
        status: 0xf,
        syndrome: 0x1234,
    };
    side.hca.io.faults.add(Rule::once(rule)).unwrap();
    let cqs = side.hca.cqs.table.len();
    side.alloc_object(0x800);
    assert_eq!(side.try_create_cq(4, 64, |_| ()).err(), Some(0xf));
    assert_eq!(side.hca.cqs.table.len(), cqs);
    side.create_cq(4, 64);
}

#[test]
fn rules_can_be_taken_away() {
    let mut p = pair();
    p.rule(
        0,
        Rule {
            count: 0,
            ..Rule::once(Fault::CqeDrop {})
        },
    );
    p.nops(2);
    p.b.sides[0].hca.io.faults.clear();
    p.nops(1);
    assert_eq!(p.done(), [2]);
}
