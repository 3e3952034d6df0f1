// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The doorbell policy against a model of a queue and a device: nothing is ever left behind.

use mlx5_ulp_host_tests::doorbell::pending::Pending;
use mlx5_ulp_host_tests::doorbell::policy::{Hint, Mode, Policy};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Post(u32, Hint, bool),
    Flush,
    /// With it a batch may have been measured: how long its first WQE waited, and its request took.
    Complete(usize, Option<(i64, i64)>),
    Change(Mode, u32, u32),
    HoldTime,
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Each), Just(Mode::Batch), Just(Mode::Adaptive)]
}

fn event() -> impl Strategy<Value = Event> {
    let hint = prop_oneof![4 => Just(Hint::None), 1 => Just(Hint::More), 1 => Just(Hint::Last)];
    prop_oneof![
        6 => (1u32..5, hint, any::<bool>()).prop_map(|(n, h, s)| Event::Post(n, h, s)),
        1 => Just(Event::Flush),
        4 => (1usize..8, option::of((0i64..50, 50i64..100))).prop_map(|(n, m)| Event::Complete(n, m)),
        1 => (mode(), 0u32..100, 0u32..100).prop_map(|(m, b, x)| Event::Change(m, b, x)),
        1 => Just(Event::HoldTime),
    ]
}

/// The queue around the policy: which WQEs the device has seen, and which of them yield a completion.
struct Model {
    policy: Policy,
    waiting: Vec<bool>,
    /// Signaled or not, in order.
    rung: Vec<bool>,
    posted: u64,
    completed: u64,
}

impl Model {
    fn busy(&self) -> bool {
        self.rung.iter().any(|&signaled| signaled)
    }

    /// `new` of what waits were posted just now.
    fn ring(&mut self, new: u32) {
        assert_eq!(self.policy.rung(new) as usize, self.waiting.len());
        self.rung.append(&mut self.waiting);
    }

    fn step(&mut self, event: Event) {
        let mut new = 0;
        let cause = match event {
            Event::Post(n, hint, signaled) => {
                let busy = self.busy();
                self.waiting.extend((1..=n).map(|i| signaled && i == n));
                self.posted += u64::from(n);
                new = n;
                self.policy.posted(n, || busy, hint)
            }
            Event::Flush => self.policy.flush(),
            Event::Complete(n, measured) => {
                // The nth signaled WQE completes, and all before it.
                let at = self.rung.iter().enumerate().filter(|(_, &s)| s).nth(n - 1);
                let Some((at, _)) = at else { return };
                let load = (self.rung.len() + self.waiting.len()) as u32;
                self.rung.drain(..=at);
                self.completed += at as u64 + 1;
                let busy = self.busy();
                if let Some((waited, total)) = measured {
                    self.policy.measured(waited, total, load);
                }
                self.policy.completed(load, busy)
            }
            Event::Change(mode, batch, max) => self.policy.change(mode, batch, max),
            Event::HoldTime => {
                let in_flight = self.waiting.len() + self.rung.len();
                self.policy.held(in_flight as u32)
            }
        };
        if cause.is_some() {
            self.ring(new);
        }
        assert_eq!(self.policy.waiting() as usize, self.waiting.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Over random interleavings: what waits is below the limit; it waits only while the device has work
    /// that will complete, or by the poster's own word that more follows; and the hold time empties it.
    #[test]
    fn nothing_is_left_behind(
        first in mode(), batch in 0u32..100, max in 0u32..100, events in vec(event(), 1..300),
    ) {
        let mut m = Model {
            policy: Policy::new(first, batch, max),
            waiting: vec![], rung: vec![], posted: 0, completed: 0,
        };
        let mut more = false;
        for event in events {
            match event {
                Event::Post(_, Hint::More, _) => more = true,
                Event::Post(..) => more = false,
                _ => {}
            }
            m.step(event);
            more &= !m.waiting.is_empty();
            let limit = if more { m.policy.chain_limit() } else { m.policy.limit() };
            prop_assert!((m.waiting.len() as u32) < limit || m.waiting.is_empty());
            prop_assert!(m.waiting.is_empty() || m.busy() || more);
        }
        // Left alone, the clock shows the device everything.
        m.step(Event::HoldTime);
        prop_assert!(m.waiting.is_empty());
        prop_assert_eq!(m.posted, m.completed + m.rung.len() as u64);
    }

    /// A lone request never waits, in any mode.
    #[test]
    fn at_depth_one_every_post_rings(mode in mode(), batch in 0u32..100, max in 0u32..100) {
        let mut p = Policy::new(mode, batch, max);
        for _ in 0..50 {
            prop_assert!(p.posted(1, || false, Hint::None).is_some());
            prop_assert_eq!(p.rung(1), 1);
            prop_assert!(p.completed(1, false).is_none());
        }
    }
}

/// Under load the adaptive mode rings at most one time in eight once it has settled, also where a batch takes
/// longer than the hold time: `held` is after how many posts it is over.
fn rings_seldom(held: u32) {
    let mut p = Policy::new(Mode::Adaptive, 4, 16);
    let (mut rings, mut posts, mut in_flight) = (0, 0, 0u32);
    let mut rung = 0u32;
    for round in 0..1000 {
        // Fill up to 64, one by one; then 16 complete.
        while in_flight < 64 {
            let cause = p.posted(1, || rung > 0, Hint::None);
            in_flight += 1;
            posts += u32::from(round >= 100);
            if cause.is_some() {
                rung += p.rung(1);
                rings += u32::from(round >= 100);
            } else if p.waiting() >= held && p.held(in_flight).is_some() {
                rung += p.rung(0);
                rings += u32::from(round >= 100);
            }
        }
        let done = rung.min(16);
        rung -= done;
        in_flight -= done;
        if p.completed(done + in_flight, rung > 0).is_some() {
            rung += p.rung(0);
            rings += u32::from(round >= 100);
        }
    }
    assert!(
        rings * 8 <= posts,
        "{rings} rings for {posts} posts, {held}"
    );
}

#[test]
fn at_depth_64_few_posts_ring() {
    for held in [u32::MAX, 15, 8] {
        rings_seldom(held);
    }
}

#[test]
fn loads_outside_what_was_expected_concern_the_poster() {
    let pending = Pending::new();
    for load in [0, 1, u32::MAX] {
        assert!(!pending.concerns(load));
    }
    pending.expect(8..=19);
    let concerns = [0, 7, 8, 19, 20, u32::MAX].map(|load| pending.concerns(load));
    assert_eq!(concerns, [true, true, false, false, true, true]);
    pending.expect(8..=u32::MAX);
    assert!(pending.concerns(7));
    assert!(!pending.concerns(u32::MAX));
}

#[test]
fn what_waits_concerns_the_poster() {
    let pending = Pending::new();
    pending.begin();
    assert!(pending.concerns(1));
    pending.end();
    assert!(!pending.concerns(1));
}
