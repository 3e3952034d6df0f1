// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults by rule and by injection: each does what it says, and nothing else.

use connectx::cqfmt::cqe::Cqe;
use connectx::cqfmt::syndrome::Syndrome;
use connectx::faults::{inject, Fault, Injection, Refusal, Rule};
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// Two connected queue pairs, and memory with a key on either side.
struct Pair {
    b: Bench,
    a: Endpoint,
    c: Endpoint,
    src: u64,
    dst: u64,
    lkey: u32,
    rkey: u32,
}

/// Bytes of the memory of either side.
const LEN: usize = 16384;

/// No completion.
const NONE: [u16; 0] = [];

fn pair() -> Pair {
    let mut b = Bench::new();
    let [a, c] = b.connect(QpSpec::default(), Link::default());
    let (src, dst) = (b.sides[0].alloc(LEN as u64), b.sides[1].alloc(LEN as u64));
    let lkey = b.sides[0].create_mkey(src, src, LEN as u64, &[]);
    let rkey = b.sides[1].create_mkey(dst, dst, LEN as u64, &[]);
    Pair {
        b,
        a,
        c,
        src,
        dst,
        lkey,
        rkey,
    }
}

impl Pair {
    fn rule(&mut self, side: usize, rule: Rule) {
        self.b.sides[side].hca.io.faults.add(rule).unwrap();
    }

    fn inject(&mut self, what: Injection) {
        let hca = &mut self.b.sides[0].hca;
        hca.io.now = self.b.now;
        inject(hca, what).unwrap();
    }

    fn nops(&mut self, count: usize) {
        for _ in 0..count {
            self.b.sides[0].post(&mut self.a.qp, Opcode::NOP, 0, &[]);
        }
        self.b.settle();
    }

    /// Posts a WRITE of all the memory.
    fn write(&mut self) {
        let segments = [
            remote(self.dst, self.rkey),
            data(LEN as u32, self.lkey, self.src),
        ];
        self.b.sides[0].post(&mut self.a.qp, Opcode::RDMA_WRITE, 0, &segments.concat());
    }

    /// Counters of the WQEs that completed with success.
    fn done(&mut self) -> Vec<u16> {
        let (side, cq) = (&mut self.b.sides[0], &mut self.a.send);
        let all = std::iter::from_fn(|| side.poll(cq));
        all.map(|entry| success(Some(entry)).tail.wqe_counter)
            .collect()
    }

    fn failed(&mut self) -> Syndrome {
        syndrome(self.b.sides[0].poll(&mut self.a.send))
    }

    fn event(&mut self, side: usize) -> Option<(u8, u32)> {
        // An established connection is no news.
        std::iter::from_fn(|| self.b.sides[side].next_async()).find(|(kind, _)| *kind != 2)
    }
}

fn delay(ns: u64, bunch: Option<usize>, count: u64) -> Rule {
    Rule {
        count,
        ..Rule::once(Fault::CqeDelay { ns, bunch })
    }
}

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
        assert_eq!(p.event(1).map(|(kind, _)| kind), event);
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
        p.b.pass(5_000_000);
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
fn the_cable_is_pulled_and_plugged_in() {
    let mut p = pair();
    p.inject(Injection::Port { up: false });
    assert_eq!(p.event(0).map(|(kind, _)| kind), Some(9));
    p.write();
    p.b.settle();
    assert_eq!(p.done(), NONE);
    p.inject(Injection::Port { up: true });
    assert_eq!(p.event(0).map(|(kind, _)| kind), Some(9));
    // The same again is no event.
    p.inject(Injection::Port { up: true });
    assert_eq!(p.event(0), None);
    p.b.pass(1_000_000_000);
    assert_eq!(p.done(), [0]);

    p.inject(Injection::Port { up: false });
    p.write();
    p.b.pass(10_000_000_000);
    assert_eq!(p.failed(), Syndrome::TRANSPORT_RETRY_EXCEEDED);
}

#[test]
fn a_removed_function_is_silent() {
    let mut p = pair();
    p.rule(0, delay(1_000, None, 0));
    p.nops(1);
    p.inject(Injection::Remove {});
    let hca = &mut p.b.sides[0].hca;
    let mut word = [0; 4];
    hca.mmio_read(p.b.now, 0x230, &mut word);
    assert_eq!(word, [0xff; 4]);
    assert_eq!(hca.next_deadline(), None);
    p.nops(1);
    p.b.pass(1_000_000_000);
    assert_eq!(p.done(), NONE);
    p.b.sides[0].hca.plug_in();
    p.b.sides[0].hca.mmio_read(p.b.now, 0x230, &mut word);
    assert_ne!(word, [0xff; 4]);
}

#[test]
fn a_reset_leaves_no_objects() {
    let mut p = pair();
    p.inject(Injection::Reset {});
    let objects = p.b.sides[0].hca.objects();
    assert!(objects.iter().all(|(_, count)| *count == 0), "{objects:?}");
    p.nops(1);
    assert_eq!(p.done(), NONE);
}

fn cqe(cqn: u32) -> Injection {
    Injection::Cqe {
        cqn,
        qpn: 0xff_fffe,
        index: 0xffff,
        opcode: 0,
        wrong_owner: false,
        garbage: None,
    }
}

#[test]
fn hostile_completions_stand_among_the_others() {
    let mut p = pair();
    let cqn = p.a.send.cqn;
    p.b.sides[0].arm(&p.a.send, 0, false);
    p.inject(cqe(cqn));
    assert_eq!(p.b.sides[0].next_completion(), Some(cqn));
    let forged = success(p.b.sides[0].poll(&mut p.a.send)).tail;
    assert_eq!((forged.qpn, forged.wqe_counter), (0xff_fffe, 0xffff));
    p.nops(1);
    assert_eq!(p.done(), [0]);

    p.inject(Injection::Cqe {
        cqn,
        qpn: p.a.qp.qpn,
        index: 0x1234,
        opcode: 13,
        wrong_owner: true,
        garbage: None,
    });
    assert_eq!(p.b.sides[0].poll(&mut p.a.send), None, "not there yet");
    p.nops(1);
    assert_eq!(p.done(), [1], "in its place");

    for seed in 1..20 {
        let before = p.a.send.ci;
        p.inject(Injection::Cqe {
            cqn,
            qpn: 0,
            index: 0,
            opcode: 0,
            wrong_owner: false,
            garbage: Some(seed),
        });
        // Whatever it is, it takes one place; of kind 15, it does not look like an entry.
        let _: Option<Cqe> = p.b.sides[0].poll(&mut p.a.send);
        p.a.send.ci = before + 1;
        let (record, ci) = (p.a.send.record, p.a.send.ci);
        p.b.sides[0].write(record, &ci.to_be_bytes());
    }
    p.nops(1);
    assert_eq!(p.done(), [2]);
    let hca = &mut p.b.sides[0].hca;
    assert!(inject(hca, cqe(0x7777)).is_err());
}

#[test]
fn hostile_events_stand_among_the_others() {
    let mut p = pair();
    let eqn = p.b.sides[0].async_eq.eqn;
    assert_eq!(p.event(0), None);
    let eqe = |event, wrong_owner| Injection::Eqe {
        eqn,
        event,
        number: 0x12_3456,
        wrong_owner,
        garbage: None,
    };
    p.inject(eqe(0x11, true));
    assert_eq!(p.event(0), None);
    for event in [0x11, 0xee, 4] {
        p.inject(eqe(event, false));
        assert_eq!(p.event(0), Some((event, 0x12_3456)));
    }
    assert_eq!(p.event(0), None);
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
