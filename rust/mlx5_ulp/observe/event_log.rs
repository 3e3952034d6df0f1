// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The last events of a device, written from any context and read at any time.

use core::{
    fmt,
    ops::Deref,
    sync::atomic::{
        fence,
        AtomicU64,
        Ordering::{
            AcqRel,
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A work request was encoded into the send queue.
    Post = 0,
    /// The doorbell was rung.
    Doorbell = 1,
    /// A completion queue entry was taken.
    Completion = 2,
    /// A queue went from one mode to another.
    Mode = 3,
}

/// The name of a mode, by its number in tracepoints.
pub const fn mode_name(mode: u32) -> &'static str {
    match mode {
        0 => "each",
        1 => "batch",
        2 => "adaptive",
        16 => "polling",
        17 => "hybrid",
        18 => "interrupt",
        _ => "?",
    }
}

impl Event {
    /// All of them, by value.
    pub const ALL: [Event; 4] = [Event::Post, Event::Doorbell, Event::Completion, Event::Mode];

    /// The word for it in a filter.
    pub const fn word(self) -> &'static str {
        match self {
            Event::Post => "post",
            Event::Doorbell => "doorbell",
            Event::Completion => "completion",
            Event::Mode => "mode",
        }
    }

    /// How a line of the log says it.
    const fn text(self) -> &'static str {
        match self {
            Event::Post => "WQE Post",
            Event::Doorbell => "Doorbell Write",
            Event::Completion => "Completion",
            Event::Mode => "Mode Change",
        }
    }
}

/// One event. What `index`, `detail` and `code` mean depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, nanoseconds.
    pub time: u64,
    /// Number of the queue pair, 24 bits.
    pub qpn: u32,
    /// The task that ran then.
    pub pid: u32,
    /// What.
    pub event: Event,
    /// Post: first basic block. Doorbell: producer counter. Completion: WQE counter.
    pub index: u16,
    /// Post: opcode. Completion: syndrome, or 0. Mode: the old one.
    pub code: u8,
    /// Post: payload in bytes. Doorbell: WQEs it hands over. Completion: opcode of the entry. Mode: the new
    /// one.
    pub detail: u32,
}

impl Record {
    fn pack(&self) -> [u64; 3] {
        [
            self.time,
            (u64::from(self.qpn) << 32) | u64::from(self.pid),
            (u64::from(self.event as u8) << 56)
                | (u64::from(self.code) << 48)
                | (u64::from(self.index) << 32)
                | u64::from(self.detail),
        ]
    }

    fn unpack([time, who, what]: [u64; 3]) -> Option<Self> {
        Some(Self {
            time,
            qpn: (who >> 32) as u32,
            pid: who as u32,
            event: *Event::ALL.get((what >> 56) as usize)?,
            code: (what >> 48) as u8,
            index: (what >> 32) as u16,
            detail: what as u32,
        })
    }
}

/// A record as a line, its time counted from `start`, with details if asked for.
pub struct Line<'a> {
    /// The record.
    pub record: &'a Record,
    /// When the log was started, nanoseconds.
    pub start: u64,
    /// Whether to add what the event has of its own.
    pub details: bool,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.record;
        let us = r.time.saturating_sub(self.start) / 1000;
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        write!(
            f,
            "[{s}.{us:06}] QP{} PID{} : {}",
            r.qpn,
            r.pid,
            r.event.text()
        )?;
        if !self.details {
            return Ok(());
        }
        match r.event {
            Event::Post => write!(
                f,
                " index={} opcode={:#x} bytes={}",
                r.index, r.code, r.detail
            ),
            Event::Doorbell => write!(f, " producer={} wqes={}", r.index, r.detail),
            Event::Completion => write!(
                f,
                " counter={} opcode={} syndrome={:#x}",
                r.index, r.detail, r.code
            ),
            Event::Mode => write!(
                f,
                " from={} to={}",
                mode_name(r.code.into()),
                mode_name(r.detail)
            ),
        }
    }
}

/// Room for one record.
///
/// `stamp` is `2 n + 1` while record number `n` is being written and `2 n + 2` when it is
/// complete.
#[derive(Debug, Default)]
pub struct Slot {
    stamp: AtomicU64,
    words: [AtomicU64; 3],
}

/// A ring of the last events.
#[derive(Debug)]
pub struct EventLog<S> {
    slots: S,
    next: AtomicU64,
    /// Number of the first record after the last [`Self::clear`].
    first: AtomicU64,
    lost: AtomicU64,
}

impl<S: Deref<Target = [Slot]>> EventLog<S> {
    /// A log in `slots`; `None` if there is none.
    pub fn new(slots: S) -> Option<Self> {
        (!slots.is_empty()).then_some(Self {
            slots,
            next: AtomicU64::new(0),
            first: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    fn slot(&self, n: u64) -> Option<&Slot> {
        let at = n.checked_rem(self.slots.len() as u64)?;
        self.slots.get(at as usize)
    }

    /// Adds a record in place of the oldest. Any context; waits for nobody: if another one is just
    /// being written to that place (it was overtaken by a whole ring), this one is lost.
    pub fn push(&self, record: &Record) {
        let n = self.next.fetch_add(1, Relaxed);
        let Some(slot) = self.slot(n) else {
            return;
        };
        let before = slot.stamp.load(Relaxed);
        // Any number of events is less than half of what there is room for.
        let complete = n.wrapping_mul(2).wrapping_add(2);
        let begun = before & 1 == 0
            && slot
                .stamp
                .compare_exchange(before, complete.wrapping_sub(1), AcqRel, Relaxed)
                .is_ok();
        if !begun {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        // A reader that sees one of the words sees the odd stamp as well.
        fence(Release);
        for (to, word) in slot.words.iter().zip(record.pack()) {
            to.store(word, Relaxed);
        }
        slot.stamp.store(complete, Release);
    }

    /// Record number `n`, if it is complete and still there.
    fn get(&self, n: u64) -> Option<Record> {
        let slot = self.slot(n)?;
        let stamp = slot.stamp.load(Acquire);
        if stamp != 2 * n + 2 {
            return None;
        }
        let mut words = [0; 3];
        for (to, word) in words.iter_mut().zip(&slot.words) {
            *to = word.load(Relaxed);
        }
        fence(Acquire);
        (slot.stamp.load(Relaxed) == stamp).then(|| Record::unpack(words))?
    }

    /// The records that are there, oldest first. Those that come or go meanwhile may be missing.
    pub fn iter(&self) -> impl Iterator<Item = Record> + '_ {
        let next = self.next.load(Acquire);
        let oldest = next.saturating_sub(self.slots.len() as u64);
        let first = self.first.load(Relaxed).max(oldest);
        (first..next).filter_map(|n| self.get(n))
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        self.first.store(self.next.load(Relaxed), Relaxed);
    }

    /// Records lost because two met in one place, since the log was made.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn log(slots: usize) -> EventLog<Vec<Slot>> {
        EventLog::new((0..slots).map(|_| Slot::default()).collect()).expect("not empty")
    }

    fn record(n: u64) -> Record {
        Record {
            time: n,
            qpn: n as u32 & 0xff_ffff,
            pid: n as u32,
            event: Event::ALL[n as usize % 4],
            index: n as u16,
            code: n as u8,
            detail: n as u32,
        }
    }

    #[test]
    fn the_last_records_are_kept_in_order() {
        let log = log(5);
        assert_eq!(log.iter().count(), 0);
        for n in 0..13 {
            log.push(&record(n));
        }
        let kept: Vec<_> = log.iter().collect();
        assert_eq!(kept, (8..13).map(record).collect::<Vec<_>>());
        log.clear();
        assert_eq!(log.iter().count(), 0);
        log.push(&record(99));
        assert_eq!(log.iter().collect::<Vec<_>>(), [record(99)]);
    }

    #[test]
    fn no_record_is_torn_under_concurrent_writers() {
        let log = log(8);
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            for t in 0..3u64 {
                let (log, stop) = (&log, &stop);
                s.spawn(move || {
                    let mut n = t;
                    while !stop.load(Relaxed) {
                        log.push(&record(n));
                        n += 3;
                    }
                });
            }
            for _ in 0..20_000 {
                for r in log.iter() {
                    assert_eq!(r, record(r.time));
                }
            }
            stop.store(true, Relaxed);
        });
    }

    #[test]
    fn lines_have_the_published_form() {
        let mut r = record(0);
        r.time = 1_000_412_900;
        r.qpn = 1234;
        r.pid = 5;
        r.event = Event::Doorbell;
        r.index = 7;
        r.detail = 2;
        let line = |details| {
            Line {
                record: &r,
                start: 1_000_000_000,
                details,
            }
            .to_string()
        };
        assert_eq!(line(false), "[0.000412] QP1234 PID5 : Doorbell Write");
        assert_eq!(
            line(true),
            "[0.000412] QP1234 PID5 : Doorbell Write producer=7 wqes=2"
        );
    }

    #[test]
    fn modes_have_the_names_of_their_parameters() {
        use crate::{cq::moderation, doorbell::policy};
        for (mode, name) in policy::Mode::WORDS.iter().enumerate() {
            assert_eq!(mode_name(mode as u32), *name);
            assert_eq!(policy::Mode::from_index(mode as u32) as usize, mode);
        }
        use moderation::Mode;
        for mode in [Mode::Polling, Mode::Hybrid, Mode::Interrupt] {
            assert_eq!(mode_name(mode.traced().into()), mode.name());
        }
    }

    #[test]
    fn records_survive_packing() {
        for n in [0, 1, 2, 0xffff_ffff] {
            assert_eq!(Record::unpack(record(n).pack()), Some(record(n)));
        }
        assert_eq!(Record::unpack([0, 0, u64::MAX]), None);
    }
}
