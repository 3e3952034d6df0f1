// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Histograms against sorted lists, and read while they are written.

use std::sync::atomic::{AtomicBool, Ordering};

use mlx5_ulp_host_tests::observe::histogram::{Histogram, Snapshot};
use proptest::collection::vec;
use proptest::prelude::*;

fn snapshot(of: &[&Histogram]) -> Snapshot {
    let mut s = Snapshot::new();
    of.iter().for_each(|h| s.add(h));
    s
}

/// The value at a rank, the slow way.
fn exact(sorted: &[u64], ppm: u32) -> u64 {
    let rank = (sorted.len() as u128 * u128::from(ppm))
        .div_ceil(1_000_000)
        .max(1);
    sorted[rank as usize - 1]
}

proptest! {
    #[test]
    fn quantiles_are_right_within_an_eighth(
        values in vec(prop_oneof![0u64..100, 0u64..1_000_000, 0u64..1 << 36], 1..500),
        ppms in vec(0u32..=1_000_000, 1..20),
    ) {
        let h = Histogram::new();
        values.iter().for_each(|&ns| h.record(ns));
        let s = snapshot(&[&h]);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        prop_assert_eq!(s.count(), values.len() as u64);
        prop_assert_eq!(s.mean(), Some(values.iter().sum::<u64>() / values.len() as u64));
        for ppm in ppms {
            let (got, want) = (s.quantile(ppm).unwrap(), exact(&sorted, ppm));
            prop_assert!(got >= want && got - want <= want / 8, "{} for {}", got, want);
        }
    }

    #[test]
    fn two_together_are_as_one(left in vec(any::<u64>(), 0..50), right in vec(any::<u64>(), 0..50)) {
        let [a, b, both] = [(); 3].map(|()| Histogram::new());
        left.iter().for_each(|&ns| { a.record(ns); both.record(ns) });
        right.iter().for_each(|&ns| { b.record(ns); both.record(ns) });
        prop_assert_eq!(snapshot(&[&a, &b]), snapshot(&[&both]));
        // And what one gave is found again when the other is taken out.
        let mut s = snapshot(&[&both]);
        s.since(&snapshot(&[&a]));
        prop_assert_eq!(s, snapshot(&[&b]));
    }
}

#[test]
fn read_while_it_is_written() {
    const N: u64 = 300_000;
    let h = Histogram::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            (0..N).for_each(|i| h.record(i % 1000));
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            s.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let now = snapshot(&[&h]);
                    let count = now.count();
                    assert!(last <= count && count <= N);
                    assert!(now.quantile(1_000_000).is_none_or(|max| max <= 1023));
                    last = count;
                }
            });
        }
    });
    let s = snapshot(&[&h]);
    assert_eq!((s.count(), s.mean()), (N, Some(499)));
}
