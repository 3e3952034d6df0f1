// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The table of queues and its cache under every interleaving and every reordering that the memory model
//! allows, as far as it matters: `loom` runs each model once for each of them. The files are those of the
//! module, built with loom's atomics.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

#[allow(dead_code, missing_docs)]
#[path = "../../../rust/mlx5_ulp/qid"]
mod qid {
    use loom::sync::atomic;
    use mlx5_ulp_host_tests::observe::totals::Counter;
    pub mod cache;
    pub mod index;
    pub mod key;
    pub mod stats;
    pub mod table;
}

use qid::cache::Cache;
use qid::key::{Name, Number};
use qid::stats::Stats;
use qid::table::Table;

type Words = Box<[AtomicU64]>;

fn table(capacity: usize) -> Table<Words> {
    let words = |n| Ok::<_, ()>((0..n).map(|_| AtomicU64::new(0)).collect());
    Table::new(capacity, words).unwrap()
}

fn name(qid: u32) -> Name {
    Name::new(0, qid).unwrap()
}

fn number(qpn: u32) -> Number {
    Number::new(qpn).unwrap()
}

/// Every interleaving with at most `preemptions` switches that no operation asked for; two are known to
/// find nearly all errors, more take very long.
fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(f);
}

#[test]
fn a_neighbour_is_found_while_the_index_shifts() {
    explore(3, || {
        let table = Arc::new(table(3));
        let mut writer = table.writer().unwrap();
        let first = writer.insert(name(1), 11, |_| ()).unwrap();
        writer.insert(name(2), 12, |_| ()).unwrap();
        drop(writer);
        let reader = {
            let table = table.clone();
            thread::spawn(move || {
                let found = table.find(name(2)).expect("it is there all the time");
                assert_eq!(found.entry.qpn(), 12);
                if let Some(found) = table.find(name(1)) {
                    assert_eq!(found.entry.qpn(), 11);
                }
            })
        };
        let mut writer = table.writer().unwrap();
        assert!(writer.remove(first).is_some());
        drop(writer);
        assert!(table.find(name(1)).is_none());
        reader.join().unwrap();
    });
}

#[test]
fn what_was_prepared_is_seen_by_who_finds_it() {
    explore(3, || {
        let table = Arc::new(table(1));
        let queue = Arc::new(AtomicU32::new(0));
        let reader = {
            let (table, queue) = (table.clone(), queue.clone());
            thread::spawn(move || {
                let cache = Cache::<Name, 8>::new();
                let stats = Stats::default();
                if let Some(token) = cache.get(&table, name(1), &stats) {
                    assert_eq!(token.entry.qpn(), 11);
                    assert_eq!(queue.load(Ordering::Relaxed), 7);
                }
            })
        };
        let mut writer = table.writer().unwrap();
        let prepare = |_| queue.store(7, Ordering::Relaxed);
        writer.insert(name(1), 11, prepare).unwrap();
        drop(writer);
        reader.join().unwrap();
    });
}

/// The same by a hint that is left from an earlier life of the queue, with no index on the way.
#[test]
fn what_was_prepared_is_seen_by_an_old_hint() {
    explore(3, || {
        let table = Arc::new(table(1));
        let cache = Arc::new(Cache::<Name, 8>::new());
        let queue = Arc::new(AtomicU32::new(0));
        let mut writer = table.writer().unwrap();
        let first = writer.insert(name(1), 11, |_| ()).unwrap();
        let stats = Stats::default();
        assert_eq!(cache.get(&table, name(1), &stats), Some(first));
        let retired = writer.remove(first).unwrap();
        writer.recycle(retired);
        drop(writer);
        let reader = {
            let (table, cache, queue) = (table.clone(), cache.clone(), queue.clone());
            thread::spawn(move || {
                let stats = Stats::default();
                if cache.get(&table, name(1), &stats).is_some() {
                    assert_eq!(queue.load(Ordering::Relaxed), 7);
                }
            })
        };
        let mut writer = table.writer().unwrap();
        let prepare = |_| queue.store(7, Ordering::Relaxed);
        writer.insert(name(1), 12, prepare).unwrap();
        drop(writer);
        reader.join().unwrap();
    });
}

/// A reader misses, is slow to fill, and meanwhile the queue is destroyed and its name, slot and QPN are
/// used again: the worst case for a cache.
#[test]
fn reuse_after_destroy_gives_no_stale_hit() {
    explore(2, || {
        let table = Arc::new(table(1));
        let cache = Arc::new(Cache::<Name, 8>::new());
        let destroyed = Arc::new(AtomicU32::new(0));
        let mut writer = table.writer().unwrap();
        let first = writer.insert(name(1), 10, |_| ()).unwrap();
        drop(writer);
        let reader = {
            let (table, cache, destroyed) = (table.clone(), cache.clone(), destroyed.clone());
            thread::spawn(move || {
                let stats = Stats::default();
                let over = destroyed.load(Ordering::Acquire);
                if let Some(token) = cache.get(&table, name(1), &stats) {
                    assert_eq!(token.entry.name(), name(1));
                    assert!(token.entry.qpn() >= 10 + over, "stale");
                }
            })
        };
        let mut writer = table.writer().unwrap();
        let retired = writer.remove(first).unwrap();
        destroyed.store(1, Ordering::Release);
        let stats = Stats::default();
        assert_eq!(cache.get(&table, name(1), &stats), None, "stale");
        writer.recycle(retired);
        let second = writer.insert(name(1), 11, |_| ()).unwrap();
        assert_ne!(first, second);
        assert!(!table.is_current(first));
        drop(writer);
        assert_eq!(cache.get(&table, name(1), &stats), Some(second));
        reader.join().unwrap();
    });
}

/// The slot passes to a queue with another name: an old hint must lead nowhere.
#[test]
fn a_slot_that_changes_hands_answers_for_its_present_queue_only() {
    explore(2, || {
        let table = Arc::new(table(1));
        let cache = Arc::new(Cache::<Number, 8>::new());
        let mut writer = table.writer().unwrap();
        let first = writer.insert(name(1), 10, |_| ()).unwrap();
        drop(writer);
        let stats = Stats::default();
        assert_eq!(cache.get(&table, number(10), &stats), Some(first));
        let reader = {
            let (table, cache) = (table.clone(), cache.clone());
            thread::spawn(move || {
                let stats = Stats::default();
                if let Some(token) = cache.get(&table, number(10), &stats) {
                    assert_eq!(token, first);
                }
            })
        };
        let mut writer = table.writer().unwrap();
        let retired = writer.remove(first).unwrap();
        writer.recycle(retired);
        writer.insert(name(2), 20, |_| ()).unwrap();
        drop(writer);
        reader.join().unwrap();
    });
}

/// Readers fill one set while an entry of it is pinned: the pin must win.
#[test]
fn fills_do_not_displace_a_pin() {
    explore(2, || {
        let table = Arc::new(table(2));
        let cache = Arc::new(Cache::<Name, 8>::new());
        let mut writer = table.writer().unwrap();
        writer.insert(name(1), 11, |_| ()).unwrap();
        // The same home as the first.
        writer.insert(name(9), 12, |_| ()).unwrap();
        drop(writer);
        let reader = {
            let (table, cache) = (table.clone(), cache.clone());
            thread::spawn(move || {
                let stats = Stats::default();
                assert!(cache.get(&table, name(9), &stats).is_some());
            })
        };
        let mut writer = table.writer().unwrap();
        cache.pin(&mut writer, name(1)).unwrap();
        drop(writer);
        reader.join().unwrap();
        assert_eq!(cache.pinned(), 1);
        let stats = Stats::default();
        assert!(cache.get(&table, name(1), &stats).is_some());
        let mut sum = qid::stats::Sum::default();
        stats.add_to(&mut sum);
        assert_eq!((sum.hits, sum.misses), (1, 0));
    });
}
