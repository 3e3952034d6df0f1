// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue names, table and caches against a list of queues, and with readers during changes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use mlx5_ulp_host_tests::qid::cache::{Cache, PinError, SizeError, MAX_PINNED, WAYS};
use mlx5_ulp_host_tests::qid::key::{Key, Name, Number, Token};
use mlx5_ulp_host_tests::qid::stats::{Stats, Sum};
use mlx5_ulp_host_tests::qid::table::{InsertError, Retired, Table};
use proptest::collection::vec;
use proptest::prelude::*;

type Words = Box<[AtomicU64]>;

fn table(capacity: usize) -> Table<Words> {
    // Any contents will do.
    let words = |n| {
        Ok::<_, ()>(
            (0..n)
                .map(|_| AtomicU64::new(0x5a5a_5a5a_5a5a_5a5a))
                .collect(),
        )
    };
    Table::new(capacity, words).unwrap()
}

fn name(vf_id: u8, local_qid: u32) -> Name {
    Name::new(vf_id, local_qid).unwrap()
}

fn number(qpn: u32) -> Number {
    Number::new(qpn).unwrap()
}

fn sum(stats: &Stats) -> Sum {
    let mut sum = Sum::default();
    stats.add_to(&mut sum);
    sum
}

#[derive(Clone, Debug)]
enum Step {
    Insert { vf: u8, qid: u32, qpn: u32 },
    Remove { pick: usize },
    Recycle,
    ByName { vf: u8, qid: u32 },
    ByNumber { qpn: u32 },
    Prefetch { vf: u8, qids: Vec<u32> },
    Pin { vf: u8, qid: u32 },
    Unpin { vf: u8, qid: u32 },
    Resize { sets: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let vf = || prop_oneof![Just(0u8), Just(1), Just(0xfe)];
    // Few numbers, so that names meet again, and some far apart that share a set.
    let id = || prop_oneof![0u32..24, (0u32..4).prop_map(|n| n << 16), Just(0xff_fffe)];
    prop_oneof![
        4 => (vf(), id(), id()).prop_map(|(vf, qid, qpn)| Step::Insert { vf, qid, qpn }),
        2 => any::<usize>().prop_map(|pick| Step::Remove { pick }),
        2 => Just(Step::Recycle),
        8 => (vf(), id()).prop_map(|(vf, qid)| Step::ByName { vf, qid }),
        4 => id().prop_map(|qpn| Step::ByNumber { qpn }),
        1 => (vf(), vec(id(), 0..12)).prop_map(|(vf, qids)| Step::Prefetch { vf, qids }),
        1 => (vf(), id()).prop_map(|(vf, qid)| Step::Pin { vf, qid }),
        1 => (vf(), id()).prop_map(|(vf, qid)| Step::Unpin { vf, qid }),
        1 => (0usize..=2).prop_map(|sets| Step::Resize { sets }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn answers_are_those_of_a_list(steps in vec(step(), 1..300)) {
        const CAPACITY: usize = 12;
        let table = table(CAPACITY);
        let names = Cache::<Name, 16>::new();
        let numbers = Cache::<Number, 16>::new();
        let (by_name, by_number) = (Stats::default(), Stats::default());
        let mut lookups = (0, 0);
        let mut live: Vec<Token> = Vec::new();
        let mut gone: Vec<Token> = Vec::new();
        let mut retired: VecDeque<Retired> = VecDeque::new();
        for step in steps {
            let mut writer = table.writer().unwrap();
            match step {
                Step::Insert { vf, qid, qpn } => {
                    let mut prepared = None;
                    let got = writer.insert(name(vf, qid), qpn, |slot| prepared = Some(slot));
                    let taken = |t: &Token| t.entry.name() == name(vf, qid);
                    let number_taken = |t: &Token| t.entry.number() == number(qpn);
                    if live.iter().any(taken) {
                        prop_assert_eq!(got, Err(InsertError::NameTaken));
                    } else if live.iter().any(number_taken) {
                        prop_assert_eq!(got, Err(InsertError::NumberTaken));
                    } else if live.len() + retired.len() == CAPACITY {
                        prop_assert_eq!(got, Err(InsertError::Full));
                    } else {
                        let token = got.unwrap();
                        prop_assert_eq!(prepared, Some(token.slot));
                        prop_assert!(taken(&token) && number_taken(&token));
                        prop_assert!(live.iter().all(|t| t.slot != token.slot));
                        prop_assert!(retired.iter().all(|r| r.slot() != token.slot));
                        live.push(token);
                    }
                    prop_assert_eq!(prepared.is_some(), got.is_ok());
                }
                Step::Remove { pick } if !live.is_empty() => {
                    let token = live.swap_remove(pick % live.len());
                    retired.push_back(writer.remove(token).unwrap());
                    prop_assert!(writer.remove(token).is_none());
                    if pick & 1 == 0 {
                        names.forget(&mut writer, token.entry.name());
                        numbers.forget(&mut writer, token.entry.number());
                    }
                    gone.push(token);
                }
                Step::Remove { .. } => {}
                Step::Recycle => {
                    if let Some(retired) = retired.pop_front() {
                        writer.recycle(retired);
                    }
                }
                Step::ByName { vf, qid } => {
                    let key = name(vf, qid);
                    let want = live.iter().find(|t| t.entry.name() == key).copied();
                    prop_assert_eq!(names.get(&table, key, &by_name), want);
                    prop_assert_eq!(table.find(key), want);
                    lookups.0 += 1;
                }
                Step::ByNumber { qpn } => {
                    let key = number(qpn);
                    let want = live.iter().find(|t| t.entry.number() == key).copied();
                    prop_assert_eq!(numbers.get(&table, key, &by_number), want);
                    prop_assert_eq!(table.find(key), want);
                    lookups.1 += 1;
                }
                Step::Prefetch { vf, qids } => {
                    let keys: Vec<_> = qids.iter().map(|&qid| name(vf, qid)).collect();
                    let mut touched = 0;
                    names.prefetch(&table, &keys, &by_name, |_| touched += 1);
                    prop_assert_eq!(touched, keys.len());
                }
                Step::Pin { vf, qid } => {
                    let key = name(vf, qid);
                    let known = live.iter().any(|t| t.entry.name() == key);
                    match names.pin(&mut writer, key) {
                        Ok(()) => prop_assert!(known && names.size() > 0),
                        Err(PinError::NoQueue) => prop_assert!(!known),
                        Err(PinError::Off) => prop_assert_eq!(names.size(), 0),
                        Err(PinError::SetFull) => prop_assert!(names.pinned() >= MAX_PINNED),
                    }
                }
                Step::Unpin { vf, qid } => {
                    names.unpin(&mut writer, name(vf, qid));
                }
                Step::Resize { sets } => {
                    let pinned = names.pinned();
                    prop_assert_eq!(names.resize(&mut writer, sets * WAYS), Ok(pinned));
                    prop_assert_eq!(names.size(), sets * WAYS);
                    prop_assert_eq!(names.used(), 0);
                }
            }
            prop_assert!(gone.iter().all(|&token| !table.is_current(token)));
            prop_assert!(live.iter().all(|&token| table.is_current(token)));
            prop_assert!(names.pinned() <= names.size() / 2);
            let mut all: Vec<_> = table.iter().collect();
            all.sort_by_key(|t| t.slot);
            live.sort_by_key(|t| t.slot);
            prop_assert_eq!(&all, &live);
        }
        prop_assert_eq!(sum(&by_name).hits + sum(&by_name).misses, lookups.0);
        prop_assert_eq!(sum(&by_number).hits + sum(&by_number).misses, lookups.1);
    }
}

/// A table with `n` queues on function 0: names 0.., QPNs from 0x100.
fn filled(n: u32) -> Table<Words> {
    let table = table(n as usize);
    let mut writer = table.writer().unwrap();
    for qid in 0..n {
        writer.insert(name(0, qid), 0x100 + qid, |_| ()).unwrap();
    }
    drop(writer);
    table
}

#[test]
fn a_whole_cache_of_consecutive_queues_misses_once_each() {
    let table = filled(256);
    let names = Cache::<Name>::new();
    let numbers = Cache::<Number>::new();
    let (by_name, by_number) = (Stats::default(), Stats::default());
    for _ in 0..4 {
        for qid in 0..256 {
            let token = names.get(&table, name(0, qid), &by_name).unwrap();
            assert_eq!(token.entry.qpn(), 0x100 + qid);
            let back = numbers.get(&table, number(0x100 + qid), &by_number);
            assert_eq!(back, Some(token));
        }
    }
    for stats in [by_name, by_number] {
        let s = sum(&stats);
        assert_eq!((s.hits, s.misses), (768, 256));
        assert_eq!((s.absent, s.evictions), (0, 0));
    }
}

#[test]
fn more_queues_than_entries_still_answer() {
    let table = filled(1024);
    let names = Cache::<Name>::new();
    let stats = Stats::default();
    for round in 0..3 {
        for qid in 0..1024 {
            let qid = qid * 7 % 1024;
            let token = names.get(&table, name(0, qid), &stats).unwrap();
            assert_eq!(token.entry.name(), name(0, qid), "round {round}");
        }
    }
    assert_eq!(names.used(), 256);
    let s = sum(&stats);
    assert_eq!(s.evictions, s.misses - 256);
}

#[test]
fn prefetch_turns_misses_into_hits() {
    let table = filled(64);
    let names = Cache::<Name>::new();
    let stats = Stats::default();
    let keys: Vec<_> = (0..16)
        .map(|qid| name(0, qid))
        .chain([name(0, 99)])
        .collect();
    names.prefetch(&table, &keys, &stats, |_| ());
    assert_eq!(sum(&stats).prefetched, 16);
    for &key in &keys[..16] {
        assert!(names.get(&table, key, &stats).is_some());
    }
    let s = sum(&stats);
    assert_eq!((s.hits, s.misses, s.prefetched), (16, 0, 16));
    names.prefetch(&table, &keys, &stats, |_| ());
    assert_eq!(sum(&stats).prefetched, 16, "nothing was missing");
}

#[test]
fn pinned_entries_stay_under_pressure() {
    let table = filled(1024);
    let names = Cache::<Name>::new();
    let stats = Stats::default();
    let hot: Vec<_> = (0..4).map(|n| name(0, n * 256)).collect();
    let mut writer = table.writer().unwrap();
    for &key in &hot {
        names.pin(&mut writer, key).unwrap();
        names.pin(&mut writer, key).unwrap();
    }
    assert_eq!(names.pinned(), hot.len());
    for qid in (0..1024).chain(0..1024) {
        names.get(&table, name(0, qid), &stats).unwrap();
    }
    let before = sum(&stats);
    for &key in &hot {
        names.get(&table, key, &stats).unwrap();
    }
    assert_eq!(sum(&stats).misses, before.misses);
    // A queue that goes takes its pin along.
    let token = table.find(hot[0]).unwrap();
    let retired = writer.remove(token).unwrap();
    assert_eq!(names.get(&table, hot[0], &stats), None);
    names.forget(&mut writer, hot[0]);
    assert_eq!(names.pinned(), 3);
    writer.recycle(retired);
    assert!(names.unpin(&mut writer, hot[1]));
    assert!(!names.unpin(&mut writer, hot[1]));
    assert_eq!(names.pinned(), 2);
    assert_eq!(names.resize(&mut writer, 128), Ok(2));
    assert_eq!(names.pinned(), 0);
}

#[test]
fn half_of_a_set_can_be_pinned() {
    // One set only.
    let table = filled(8);
    let names = Cache::<Name, 8>::new();
    let mut writer = table.writer().unwrap();
    for qid in 0..4 {
        names.pin(&mut writer, name(0, qid)).unwrap();
    }
    let more = names.pin(&mut writer, name(0, 4));
    assert_eq!(more, Err(PinError::SetFull));
    assert_eq!(names.pin(&mut writer, name(0, 99)), Err(PinError::NoQueue));
    names.resize(&mut writer, 0).unwrap();
    let off = names.pin(&mut writer, name(0, 1));
    assert_eq!(off, Err(PinError::Off));
}

#[test]
fn sizes_are_checked_and_off_is_off() {
    let table = filled(8);
    let names = Cache::<Name>::new();
    let stats = Stats::default();
    let mut writer = table.writer().unwrap();
    for bad in [1, 4, 7, 9, 12, 255] {
        let got = names.resize(&mut writer, bad);
        assert_eq!(got, Err(SizeError::NotWholeSets), "{bad}");
    }
    assert_eq!(names.resize(&mut writer, 512), Err(SizeError::TooLarge));
    assert_eq!(names.size(), 256);
    names.resize(&mut writer, 0).unwrap();
    for _ in 0..3 {
        for qid in 0..8 {
            assert!(names.get(&table, name(0, qid), &stats).is_some());
        }
    }
    assert_eq!((sum(&stats).hits, sum(&stats).misses), (0, 24));
    assert_eq!(names.used(), 0);
}

#[test]
fn one_writer_at_a_time() {
    let table = filled(1);
    let writer = table.writer().unwrap();
    assert!(table.writer().is_none());
    drop(writer);
    assert!(table.writer().is_some());
}

#[test]
fn lines_are_aligned() {
    assert_eq!(core::mem::align_of::<Cache<Name>>(), 64);
    assert!(core::mem::size_of::<Cache<Name>>() <= 256 * 8 + 64);
}

/// Readers during creation and destruction. QPNs tell the queue and which of its lives it is; a QPN of
/// one queue is used by another later on. A reader must never get
///
/// * a queue of another key,
/// * a life whose destruction was over before the lookup began (a stale hit),
/// * nothing for a queue that is there all the time.
#[test]
fn readers_during_changes() {
    const CHANGING: u32 = 6;
    const LIVES: u32 = 4000;
    // Three sets' worth of queues fight for one set.
    let table = table(16);
    let names = Cache::<Name, 8>::new();
    let numbers = Cache::<Number, 8>::new();
    let constant: Vec<u32> = (100..106).collect();
    {
        let mut writer = table.writer().unwrap();
        for &qid in &constant {
            writer.insert(name(1, qid), qid, |_| ()).unwrap();
        }
    }
    // destroyed[q] = n: lives 0..n of queue q are over.
    let destroyed: Vec<_> = (0..CHANGING).map(|_| AtomicU32::new(0)).collect();
    // What the owner keeps per slot, written before the queue can be found.
    let payload: Vec<_> = (0..16).map(|_| AtomicU32::new(0)).collect();
    let done = AtomicBool::new(false);
    // The writer starts when all readers are there, on however busy a machine.
    let start = std::sync::Barrier::new(3);
    std::thread::scope(|s| {
        s.spawn(|| {
            start.wait();
            for life in 0..LIVES {
                for q in 0..CHANGING {
                    let mut writer = table.writer().unwrap();
                    // The same QPN for all, one after the other: reuse at its worst.
                    let qpn = 0x1000 + life;
                    let token = writer
                        .insert(name(0, q), qpn, |slot| {
                            payload[slot as usize].store(life, Ordering::Relaxed);
                        })
                        .unwrap();
                    if life % 16 == 0 {
                        let _ = names.pin(&mut writer, name(0, q));
                    }
                    let retired = writer.remove(token).unwrap();
                    destroyed[q as usize].store(life + 1, Ordering::Release);
                    if life % 3 == 0 {
                        names.forget(&mut writer, name(0, q));
                    }
                    writer.recycle(retired);
                }
            }
            done.store(true, Ordering::Release);
        });
        for reader in 0..2u32 {
            let (table, names, numbers) = (&table, &names, &numbers);
            let (destroyed, done, constant, payload) = (&destroyed, &done, &constant, &payload);
            let start = &start;
            s.spawn(move || {
                start.wait();
                let stats = Stats::default();
                let mut turn = reader;
                let mut found = 0u32;
                // Once at least, even if the writer is through before this thread runs again.
                loop {
                    turn = turn.wrapping_add(1);
                    let q = turn % CHANGING;
                    let over = destroyed[q as usize].load(Ordering::Acquire);
                    if let Some(token) = names.get(table, name(0, q), &stats) {
                        found += 1;
                        assert_eq!(token.entry.name(), name(0, q));
                        let life = token.entry.qpn() - 0x1000;
                        assert!(life >= over, "life {life} after {over} were over");
                        assert!(payload[token.slot as usize].load(Ordering::Relaxed) >= life);
                    }
                    let qpn = 0x1000 + over;
                    if let Some(token) = numbers.get(table, number(qpn), &stats) {
                        assert_eq!(token.entry.number(), number(qpn));
                    }
                    let qid = constant[turn as usize % constant.len()];
                    let token = names
                        .get(table, name(1, qid), &stats)
                        .expect("always there");
                    assert_eq!(token.entry.qpn(), qid);
                    let back = numbers.get(table, number(qid), &stats);
                    assert_eq!(back, Some(token), "always there");
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                }
                let s = sum(&stats);
                assert!(s.hits + s.misses > 0, "{s:?}");
                found
            });
        }
    });
    let names_left: Vec<_> = table.iter().map(|t| t.entry.name()).collect();
    assert_eq!(names_left.len(), constant.len());
}

#[test]
fn raw_keys_are_as_published() {
    assert_eq!(name(3, 5).raw(), 5 << 8 | 3);
}
