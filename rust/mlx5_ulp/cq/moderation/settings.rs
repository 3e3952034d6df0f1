// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a user says about completion modes, as text.
//!
//! Words separated by white space or commas, in any order, each at most once: a mode (`polling`,
//! `hybrid`, `interrupt`, `auto`) and thresholds in completions per second (`hybrid_thresh=50000`,
//! `interrupt_thresh=200000`). What is not mentioned stays as it is.

use core::ffi::CStr;
use core::fmt;

use super::Mode;
use crate::params::text::{self, once, split_words, Refusal};

/// Thresholds, in completions per second.
pub const THRESHOLDS: core::ops::RangeInclusive<u32> = 100..=100_000_000;

/// Who decides on the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The user: always this one.
    Fixed(Mode),
    /// The rate of completions.
    Auto,
}

/// The parameter `cq_moderation`.
///
/// # Invariants
///
/// Both thresholds are in [`THRESHOLDS`], and `hybrid_thresh` is below `interrupt_thresh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    choice: Choice,
    hybrid_thresh: u32,
    interrupt_thresh: u32,
}

/// Why a text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No word in it.
    Empty,
    /// A word that is neither a mode nor a threshold.
    UnknownWord,
    /// Two modes, or a threshold twice.
    Repeated,
    /// A threshold is followed by something else than digits.
    NotANumber,
    /// A threshold outside of [`THRESHOLDS`].
    OutOfRange,
    /// The thresholds would be in the wrong order.
    Order,
}

impl Refused {
    /// Whether the text was understood and only a number is impossible (`ERANGE` rather than `EINVAL`).
    pub const fn is_range(self) -> bool {
        matches!(self, Refused::OutOfRange | Refused::Order)
    }

    /// The reason, as a sentence for the log.
    pub const fn reason(self) -> &'static CStr {
        match self {
            Refused::Empty => c"nothing given",
            Refused::UnknownWord => {
                c"use polling, hybrid, interrupt, auto, hybrid_thresh=N or interrupt_thresh=N"
            }
            Refused::Repeated => c"one mode and one value for each threshold",
            Refused::NotANumber => c"a threshold is a decimal number",
            Refused::OutOfRange => c"thresholds are 100 to 100000000 completions per second",
            Refused::Order => c"hybrid_thresh must be below interrupt_thresh",
        }
    }
}

fn number(digits: &[u8]) -> Result<u32, Refused> {
    text::number(digits, &THRESHOLDS).map_err(|refusal| match refusal {
        Refusal::OutOfRange(_) => Refused::OutOfRange,
        _ => Refused::NotANumber,
    })
}

impl Settings {
    /// `auto`, with the published thresholds.
    pub const DEFAULT: Settings = Settings {
        choice: Choice::Auto,
        hybrid_thresh: 50_000,
        interrupt_thresh: 200_000,
    };

    /// Who decides.
    pub const fn choice(&self) -> Choice {
        self.choice
    }

    /// From how many completions per second on `auto` goes from polling to hybrid.
    pub const fn hybrid_thresh(&self) -> u32 {
        self.hybrid_thresh
    }

    /// From how many completions per second on `auto` goes from hybrid to interrupt.
    pub const fn interrupt_thresh(&self) -> u32 {
        self.interrupt_thresh
    }

    /// As three numbers: who decides, and the thresholds.
    pub const fn pack(&self) -> (u32, u32, u32) {
        let choice = match self.choice {
            Choice::Auto => 0,
            Choice::Fixed(Mode::Polling) => 1,
            Choice::Fixed(Mode::Hybrid) => 2,
            Choice::Fixed(Mode::Interrupt) => 3,
        };
        (choice, self.hybrid_thresh, self.interrupt_thresh)
    }

    /// From three numbers; `None` unless they go together.
    pub fn unpack(choice: u32, hybrid_thresh: u32, interrupt_thresh: u32) -> Option<Settings> {
        let choice = match choice {
            0 => Choice::Auto,
            1 => Choice::Fixed(Mode::Polling),
            2 => Choice::Fixed(Mode::Hybrid),
            3 => Choice::Fixed(Mode::Interrupt),
            _ => return None,
        };
        let settings = Settings {
            choice,
            hybrid_thresh,
            interrupt_thresh,
        };
        let fits = THRESHOLDS.contains(&hybrid_thresh)
            && THRESHOLDS.contains(&interrupt_thresh)
            && hybrid_thresh < interrupt_thresh;
        fits.then_some(settings)
    }

    /// These settings with the changes that `text` asks for: all of them or, with an error, none.
    ///
    /// # Errors
    ///
    /// What is wrong with the text. Any bytes are safe to pass.
    pub fn changed_by(&self, text: &[u8]) -> Result<Settings, Refused> {
        let (mut choice, mut hybrid, mut interrupt) = (None, None, None);
        let again = Refused::Repeated;
        for word in split_words(text) {
            match word {
                b"polling" => once(&mut choice, Choice::Fixed(Mode::Polling), again)?,
                b"hybrid" => once(&mut choice, Choice::Fixed(Mode::Hybrid), again)?,
                b"interrupt" => once(&mut choice, Choice::Fixed(Mode::Interrupt), again)?,
                b"auto" => once(&mut choice, Choice::Auto, again)?,
                word => {
                    if let Some(value) = word.strip_prefix(b"hybrid_thresh=") {
                        once(&mut hybrid, number(value)?, again)?;
                    } else if let Some(value) = word.strip_prefix(b"interrupt_thresh=") {
                        once(&mut interrupt, number(value)?, again)?;
                    } else {
                        return Err(Refused::UnknownWord);
                    }
                }
            }
        }
        if choice.is_none() && hybrid.is_none() && interrupt.is_none() {
            return Err(Refused::Empty);
        }
        let changed = Settings {
            choice: choice.unwrap_or(self.choice),
            hybrid_thresh: hybrid.unwrap_or(self.hybrid_thresh),
            interrupt_thresh: interrupt.unwrap_or(self.interrupt_thresh),
        };
        if changed.hybrid_thresh >= changed.interrupt_thresh {
            return Err(Refused::Order);
        }
        Ok(changed)
    }
}

/// A text that [`Settings::changed_by`] takes and that gives the same settings.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.choice {
            Choice::Fixed(mode) => mode.name(),
            Choice::Auto => "auto",
        };
        write!(
            f,
            "{word} hybrid_thresh={} interrupt_thresh={}",
            self.hybrid_thresh, self.interrupt_thresh
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Result<Settings, Refused> {
        Settings::DEFAULT.changed_by(text.as_bytes())
    }

    #[test]
    fn the_published_line_works() {
        let s = change("hybrid_thresh=60000\n").unwrap();
        assert_eq!((s.hybrid_thresh(), s.interrupt_thresh()), (60_000, 200_000));
        assert_eq!(s.choice(), Choice::Auto);
        assert_eq!(change("hybrid_thresh=50000\n"), Ok(Settings::DEFAULT));
    }

    #[test]
    fn several_words_at_once() {
        let s = change(" interrupt_thresh=2000, polling\thybrid_thresh=1000 ").unwrap();
        assert_eq!(s.choice(), Choice::Fixed(Mode::Polling));
        assert_eq!((s.hybrid_thresh(), s.interrupt_thresh()), (1000, 2000));
        // Thresholds stay when the mode changes.
        let s = s.changed_by(b"auto").unwrap();
        assert_eq!((s.hybrid_thresh(), s.interrupt_thresh()), (1000, 2000));
        for mode in [Mode::Polling, Mode::Hybrid, Mode::Interrupt] {
            assert_eq!(
                change(mode.name()).map(|s| s.choice()),
                Ok(Choice::Fixed(mode))
            );
        }
    }

    #[test]
    fn refuses_with_the_reason() {
        for (text, want) in [
            ("", Refused::Empty),
            (" ,\n", Refused::Empty),
            ("poll", Refused::UnknownWord),
            ("Polling", Refused::UnknownWord),
            ("thresh=5", Refused::UnknownWord),
            ("polling hybrid", Refused::Repeated),
            ("auto auto", Refused::Repeated),
            ("hybrid_thresh=500 hybrid_thresh=500", Refused::Repeated),
            ("hybrid_thresh=", Refused::NotANumber),
            ("hybrid_thresh=1k", Refused::NotANumber),
            ("hybrid_thresh=-1", Refused::NotANumber),
            ("hybrid_thresh=+500", Refused::NotANumber),
            ("hybrid_thresh=0x500", Refused::NotANumber),
            ("hybrid_thresh=99", Refused::OutOfRange),
            ("hybrid_thresh=0", Refused::OutOfRange),
            ("interrupt_thresh=100000001", Refused::OutOfRange),
            ("interrupt_thresh=99999999999999999999", Refused::OutOfRange),
            ("hybrid_thresh=200000", Refused::Order),
            ("interrupt_thresh=50000", Refused::Order),
        ] {
            assert_eq!(change(text), Err(want), "{text:?}");
            let range = matches!(want, Refused::OutOfRange | Refused::Order);
            assert_eq!(want.is_range(), range);
            assert!(!want.reason().to_bytes().is_empty());
        }
    }

    #[test]
    fn what_is_shown_can_be_written_back() {
        let s = change("hybrid hybrid_thresh=777").unwrap();
        let text = s.to_string();
        assert_eq!(text, "hybrid hybrid_thresh=777 interrupt_thresh=200000");
        assert_eq!(change(&text), Ok(s));
    }

    #[test]
    fn three_numbers_and_back() {
        for text in ["auto", "polling", "hybrid hybrid_thresh=100", "interrupt"] {
            let settings = Settings::DEFAULT.changed_by(text.as_bytes()).unwrap();
            let (choice, hybrid, interrupt) = settings.pack();
            assert_eq!(Settings::unpack(choice, hybrid, interrupt), Some(settings));
        }
        // What was never set, or is half changed.
        assert_eq!(Settings::unpack(0, 0, 0), None);
        assert_eq!(Settings::unpack(4, 100, 200), None);
        assert_eq!(Settings::unpack(1, 200, 200), None);
        assert_eq!(Settings::unpack(1, 100, u32::MAX), None);
    }
}
