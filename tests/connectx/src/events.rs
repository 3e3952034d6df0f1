// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What happened to which queue, and when.
//!
//! The log keeps the last [`EventLog::CAPACITY`] events of a function. As text, an event is a
//! line such as `[0.000412] QP1234 : Doorbell Write 17`: seconds since the function started,
//! the queue in decimal, the event, and its detail (mostly a WQE index).

use std::collections::VecDeque;
use std::fmt;

/// Something that happened to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the function started.
    pub time: u64,
    /// Number of the QP, SQ or RQ.
    pub queue: u32,
    /// What happened, in the words of the PRM.
    pub what: &'static str,
    /// WQE index, byte count or address, as `what` suggests.
    pub detail: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, us) = (self.time / 1_000_000_000, self.time / 1000 % 1_000_000);
        write!(
            f,
            "[{s}.{us:06}] QP{} : {} {}",
            self.queue, self.what, self.detail
        )
    }
}

/// The last events of a function.
#[derive(Debug, Default)]
pub struct EventLog {
    events: VecDeque<Event>,
    /// Events that had to make room for later ones.
    pub dropped: u64,
}

impl EventLog {
    /// Number of events that are kept.
    pub const CAPACITY: usize = 16384;

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        if self.events.len() >= Self::CAPACITY {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event);
    }

    /// The events of one queue, or of all, oldest first.
    pub fn of(&self, queue: Option<u32>) -> impl DoubleEndedIterator<Item = &Event> {
        self.events
            .iter()
            .filter(move |e| queue.is_none_or(|q| e.queue == q))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.dropped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(queue: u32, detail: u64) -> Event {
        Event {
            time: 412_000,
            queue,
            what: "Doorbell Write",
            detail,
        }
    }

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(
            event(1234, 17).to_string(),
            "[0.000412] QP1234 : Doorbell Write 17"
        );
    }

    #[test]
    fn the_log_keeps_the_latest_and_filters_by_queue() {
        let mut log = EventLog::default();
        for i in 0..EventLog::CAPACITY as u64 + 10 {
            log.push(event((i % 2) as u32, i));
        }
        assert_eq!(log.dropped, 10);
        assert_eq!(log.of(None).next().unwrap().detail, 10);
        assert!(log.of(Some(1)).all(|e| e.detail % 2 == 1));
        log.clear();
        assert_eq!(log.of(None).count(), 0);
    }
}
