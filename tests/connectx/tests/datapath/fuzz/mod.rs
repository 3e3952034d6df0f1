// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Random WQEs, packets and doorbells: any answer is right but a panic, an access outside of memory, which the memory
//! itself refuses, or work without end.
//!
//! Short and with the same seeds each time, unless `FUZZ_SECONDS` says for how long, and `FUZZ_SEED` where to start. The
//! seed of an episode that fails is in the output. At the end each harness tells what it reached: how often each opcode
//! was tried with each service, and how often that had the effect that it has for a driver. What a short run does not
//! reach is a failure, too: of the harness.
//!
//! * [`work`]: send WQEs of each opcode. [`packets`]: packets of each opcode, by a peer that is nobody's queue pair.
//! * [`stage`]: where they go. [`misfortune`]: faults on the way.

mod misfortune;
mod packets;
mod stage;
mod work;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use stage::SERVICES;

/// Of each kind: how often tried, how often with effect.
type Reached<K> = BTreeMap<K, [u64; 2]>;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Mostly something that exists: the first error ends a queue pair, and most of it should come before.
fn one_of(rng: &mut SmallRng, good: &[u32]) -> u32 {
    match rng.random_range(0..60) {
        0 => rng.random(),
        _ => good[rng.random_range(0..good.len())],
    }
}

/// Runs episodes: `least` of them, and as many as the time allows.
fn episodes<K: Ord + Debug>(
    least: u64,
    mut episode: impl FnMut(&mut SmallRng, &mut Reached<K>),
) -> Reached<K> {
    let end = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(0));
    let first = setting("FUZZ_SEED").unwrap_or(0);
    let mut reached = Reached::new();
    let mut count = 0;
    while count < least || Instant::now() < end {
        let seed = first + count;
        let mut rng = SmallRng::seed_from_u64(seed);
        // What was reached by an episode that panicked does not matter.
        let run = AssertUnwindSafe(|| episode(&mut rng, &mut reached));
        if let Err(panic) = catch_unwind(run) {
            eprintln!("FUZZ_SEED={seed} fails");
            resume_unwind(panic);
        }
        count += 1;
    }
    println!("{count} episodes");
    for (kind, [tried, effective]) in &reached {
        println!("{kind:?}: {tried} tried, {effective} with effect");
    }
    reached
}

#[test]
fn random_work_is_survived() {
    let reached = episodes(300, work::episode);
    for wanted in work::defined() {
        let [_, completed] = reached.get(&wanted).copied().unwrap_or_default();
        assert_ne!(completed, 0, "{wanted:?} never completed");
    }
}

#[test]
fn random_packets_are_survived() {
    let reached = episodes(300, packets::episode);
    for wanted in packets::defined() {
        let [_, effective] = reached.get(&wanted).copied().unwrap_or_default();
        assert_ne!(effective, 0, "{wanted:?} never had an effect");
    }
}

/// A service of those that there are.
fn service(rng: &mut SmallRng) -> u32 {
    SERVICES[rng.random_range(0..SERVICES.len())]
}
