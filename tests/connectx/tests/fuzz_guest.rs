// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fuzz target of a hostile guest, with reproducible random programs.
//!
//! Without coverage feedback, but on a stable compiler: `FUZZ_SECONDS` says for how long (default
//! 5), `FUZZ_SEED` where to start. The seed of a failing program is in the panic message.

use std::panic::{catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name}={value}"))
    })
}

#[test]
fn a_hostile_guest_does_no_harm() {
    let end = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS", 5));
    let mut succeeded = 0;
    for seed in setting("FUZZ_SEED", 1).. {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut program = vec![0; rng.random_range(1..8192)];
        rng.fill_bytes(&mut program);
        let start = Instant::now();
        match catch_unwind(|| connectx::fuzz::guest(&program)) {
            Ok(commands) => succeeded += commands,
            Err(panic) => {
                eprintln!("FUZZ_SEED={seed} fails");
                resume_unwind(panic);
            }
        }
        let took = start.elapsed();
        assert!(
            took < Duration::from_secs(20),
            "FUZZ_SEED={seed} takes {took:?}"
        );
        if Instant::now() >= end {
            println!("{succeeded} commands succeeded up to FUZZ_SEED={seed}");
            break;
        }
    }
    // Ten bring a function up, in most programs.
    assert!(succeeded > 100, "programs get nowhere");
}
