// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What happens at once.

use connectx::cqfmt::cqe::Cqe;
use connectx::cqfmt::syndrome::Syndrome;
use connectx::faults::{inject, Injection};

use super::{delay, pair, NONE};
use crate::bench::*;

#[test]
fn the_cable_is_pulled_and_plugged_in() {
    let mut p = pair();
    p.inject(Injection::Port { up: false });
    assert_eq!(p.b.sides[0].next_news().map(|(kind, _)| kind), Some(9));
    let heard = p.b.sides[1].hca.io.counters.frames_received;
    p.write();
    p.b.settle();
    assert_eq!(p.done(), NONE);
    // Nor is anything sent.
    assert_eq!(p.b.sides[1].hca.io.counters.frames_received, heard);
    p.inject(Injection::Port { up: true });
    assert_eq!(p.b.sides[0].next_news().map(|(kind, _)| kind), Some(9));
    // The same again is no event.
    p.inject(Injection::Port { up: true });
    assert_eq!(p.b.sides[0].next_news(), None);
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
    assert_eq!(p.b.sides[0].next_news(), None);
    let eqe = |event, wrong_owner| Injection::Eqe {
        eqn,
        event,
        number: 0x12_3456,
        wrong_owner,
        garbage: None,
    };
    p.inject(eqe(0x11, true));
    assert_eq!(p.b.sides[0].next_news(), None);
    for event in [0x11, 0xee, 4] {
        p.inject(eqe(event, false));
        assert_eq!(p.b.sides[0].next_news(), Some((event, 0x12_3456)));
    }
    assert_eq!(p.b.sides[0].next_news(), None);
}
