// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What goes wrong on purpose in the middle of it.

use connectx::faults::{inject, Fault, Injection, Refusal, Rule};
use rand::{rngs::SmallRng, Rng};

use crate::bench::*;

/// A fault by rule, or something that happens at once.
pub fn misfortune(rng: &mut SmallRng, side: &mut Side, end: &Endpoint) {
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
