// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What of the events goes into a device's log: the words written to its file `trace`.

use super::event_log::{
    Event,
    Record, //
};
use core::ffi::CStr;

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Whether anything is logged.
    pub on: bool,
    /// The only queue pair of interest, or all.
    pub qpn: Option<u32>,
    /// Events of interest, bit `1 << Event as u8`.
    events: u8,
    /// Whether lines have the details of their event.
    pub details: bool,
}

/// Why a filter was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnderstood;

impl Filter {
    /// Nothing is logged; everything would be.
    pub const OFF: Filter = Filter {
        on: false,
        qpn: None,
        events: u8::MAX,
        details: false,
    };

    /// What [`Self::parse`] takes, for the log.
    pub const WORDS: &CStr =
        c"use on, off, qp=N, qp=all, event=NAME[,NAME]..., event=all, fields=all or fields=none";

    /// Reads words separated by white space, on top of `self`:
    ///
    /// * `on`, `off`;
    /// * `qp=N` (decimal, or hexadecimal with `0x`), `qp=all`;
    /// * `event=NAME[,NAME]...`, `event=all`;
    /// * `fields=all`, `fields=none`: with or without the details of each event.
    ///
    /// A filter without `off` turns the log on.
    ///
    /// # Errors
    ///
    /// [`NotUnderstood`] if any word is none of these, or there is none.
    pub fn parse(self, text: &[u8]) -> Result<Filter, NotUnderstood> {
        let mut filter = Filter { on: true, ..self };
        let mut words = text
            .split(u8::is_ascii_whitespace)
            .filter(|w| !w.is_empty())
            .peekable();
        if words.peek().is_none() {
            return Err(NotUnderstood);
        }
        for word in words {
            filter.word(word)?;
        }
        Ok(filter)
    }

    fn word(&mut self, word: &[u8]) -> Result<(), NotUnderstood> {
        let mut parts = word.splitn(2, |c| *c == b'=');
        let key = parts.next().unwrap_or(&[]);
        match (key, parts.next()) {
            (b"on", None) => self.on = true,
            (b"off", None) => self.on = false,
            (b"qp", Some(b"all")) => self.qpn = None,
            (b"qp", Some(n)) => self.qpn = Some(number(n).ok_or(NotUnderstood)?),
            (b"event", Some(b"all")) => self.events = u8::MAX,
            (b"event", Some(names)) => {
                self.events = 0;
                for name in names.split(|c| *c == b',') {
                    let event = Event::ALL
                        .iter()
                        .find(|e| e.word().as_bytes() == name)
                        .ok_or(NotUnderstood)?;
                    self.events |= 1 << *event as u8;
                }
            }
            (b"fields", Some(b"all")) => self.details = true,
            (b"fields", Some(b"none")) => self.details = false,
            _ => return Err(NotUnderstood),
        }
        Ok(())
    }

    /// Whether `record` goes into the log.
    #[inline]
    pub fn takes(&self, record: &Record) -> bool {
        self.on
            && self.qpn.is_none_or(|qpn| qpn == record.qpn)
            && self.events & (1 << record.event as u8) != 0
    }

    /// In one word, to be changed while others look.
    pub fn pack(self) -> u64 {
        u64::from(self.on)
            | (u64::from(self.details) << 1)
            | (u64::from(self.qpn.is_some()) << 2)
            | (u64::from(self.events) << 8)
            | (u64::from(self.qpn.unwrap_or(0)) << 32)
    }

    /// Reads what [`Self::pack`] made.
    #[inline]
    pub fn unpack(word: u64) -> Filter {
        Filter {
            on: word & 1 != 0,
            details: word & 2 != 0,
            qpn: (word & 4 != 0).then_some((word >> 32) as u32),
            events: (word >> 8) as u8,
        }
    }
}

/// A queue pair number, 24 bits.
fn number(text: &[u8]) -> Option<u32> {
    let (digits, base) = match text.strip_prefix(b"0x") {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut n: u32 = 0;
    for c in digits {
        let digit = char::from(*c).to_digit(base)?;
        n = n.checked_mul(base)?.checked_add(digit)?;
    }
    (n >> 24 == 0).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(qpn: u32, event: Event) -> Record {
        Record {
            time: 0,
            qpn,
            pid: 0,
            event,
            index: 0,
            code: 0,
            detail: 0,
        }
    }

    #[test]
    fn words_add_up() {
        let f = Filter::OFF
            .parse(b"on qp=0x1f event=doorbell,post\n")
            .unwrap();
        assert!(f.takes(&record(31, Event::Doorbell)));
        assert!(f.takes(&record(31, Event::Post)));
        assert!(!f.takes(&record(31, Event::Completion)));
        assert!(!f.takes(&record(30, Event::Doorbell)));
        let f = f.parse(b"qp=all fields=all").unwrap();
        assert!(f.takes(&record(30, Event::Doorbell)) && f.details);
        assert!(!f.takes(&record(30, Event::Completion)));
        let f = f.parse(b"off").unwrap();
        assert!(!f.takes(&record(30, Event::Doorbell)));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            " \n",
            "onn",
            "qp",
            "qp=",
            "qp=0x",
            "qp=-1",
            "qp=16777216",
            "qp=99999999999",
            "event=",
            "event=post,",
            "event=sleep",
            "fields",
            "fields=some",
            "on qp=1 more",
            "on=1",
            "\u{fffd}",
        ] {
            assert_eq!(
                Filter::OFF.parse(bad.as_bytes()),
                Err(NotUnderstood),
                "{bad}"
            );
        }
    }

    #[test]
    fn packing_keeps_everything() {
        for text in [
            "on",
            "off qp=16777215",
            "qp=0 event=post fields=all",
            "event=completion",
        ] {
            let f = Filter::OFF.parse(text.as_bytes()).unwrap();
            assert_eq!(Filter::unpack(f.pack()), f, "{text}");
        }
    }
}
