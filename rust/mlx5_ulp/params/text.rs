// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Values of parameters as text: numbers in a range, words of a list, and why a text is refused.

use core::ffi::CStr;
use core::fmt;
use core::ops::RangeInclusive;

/// Words that turn something off and on, those that are shown first. As the kernel's own switches
/// (`kstrtobool()`), in lower case.
const SWITCH: [&[&str]; 2] = [&["off", "0", "n", "no"], &["on", "1", "y", "yes"]];

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a decimal number; numbers of this range are.
    NotANumber(RangeInclusive<u32>),
    /// A number outside of this range.
    OutOfRange(RangeInclusive<u32>),
    /// None of these words.
    NotAWord(&'static [&'static str]),
    /// Makes no sense, for the reason given.
    Invalid(&'static CStr),
    /// Understood, but a number in it is impossible, for the reason given.
    Impossible(&'static CStr),
    /// Understood, but no device can do it, for the reason given.
    Unsupported(&'static CStr),
}

/// A sentence for the log, without the value: that may hold anything.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotANumber(range) | Refusal::OutOfRange(range) => {
                write!(f, "use a number from {} to {}", range.start(), range.end())
            }
            Refusal::NotAWord(words) => {
                f.write_str("use")?;
                for (i, word) in words.iter().enumerate() {
                    let separator = if i == 0 {
                        " "
                    } else if i + 1 < words.len() {
                        ", "
                    } else {
                        " or "
                    };
                    write!(f, "{separator}{word}")?;
                }
                Ok(())
            }
            Refusal::Invalid(reason)
            | Refusal::Impossible(reason)
            | Refusal::Unsupported(reason) => {
                f.write_str(reason.to_str().unwrap_or("no reason given"))
            }
        }
    }
}

/// A decimal number of `range`: digits only, no sign.
///
/// # Errors
///
/// [`Refusal::NotANumber`], [`Refusal::OutOfRange`].
pub fn number(text: &[u8], range: &RangeInclusive<u32>) -> Result<u32, Refusal> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::NotANumber(range.clone()));
    }
    let value = text.iter().try_fold(0u32, |value, digit| {
        value.checked_mul(10)?.checked_add(u32::from(digit & 0xf))
    });
    value
        .filter(|value| range.contains(value))
        .ok_or_else(|| Refusal::OutOfRange(range.clone()))
}

/// Which of `words` it is.
///
/// # Errors
///
/// [`Refusal::NotAWord`].
pub fn word(text: &[u8], words: &'static [&'static str]) -> Result<u32, Refusal> {
    let found = words.iter().position(|word| word.as_bytes() == text);
    found
        .map(|index| index as u32)
        .ok_or(Refusal::NotAWord(words))
}

/// The words of a text, separated by white space or commas.
pub fn split_words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|c| c.is_ascii_whitespace() || *c == b',')
        .filter(|word| !word.is_empty())
}

/// Puts `value` where none was put before.
///
/// # Errors
///
/// `again`, if there was one.
pub fn once<T, E>(place: &mut Option<T>, value: T, again: E) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(again),
    }
}

/// Whether something is to be on.
///
/// # Errors
///
/// [`Refusal::NotAWord`].
pub fn switch(text: &[u8]) -> Result<bool, Refusal> {
    for (words, on) in SWITCH.into_iter().zip([false, true]) {
        if words.iter().any(|word| word.as_bytes() == text) {
            return Ok(on);
        }
    }
    Err(Refusal::NotAWord(&["on", "off"]))
}

/// How a switch is shown.
pub const fn switch_word(on: bool) -> &'static str {
    if on {
        "on"
    } else {
        "off"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["each", "batch", "adaptive"];

    #[test]
    fn numbers() {
        let range = 1..=64;
        assert_eq!(number(b"1", &range), Ok(1));
        assert_eq!(number(b"0064", &range), Ok(64));
        for text in [
            "0",
            "65",
            "4294967295",
            "4294967296",
            "99999999999999999999",
        ] {
            let refused = number(text.as_bytes(), &range);
            assert_eq!(refused, Err(Refusal::OutOfRange(1..=64)), "{text}");
        }
        for text in ["", " 1", "+1", "-1", "0x1", "1k", "1 2", "\u{661}"] {
            let refused = number(text.as_bytes(), &range);
            assert_eq!(refused, Err(Refusal::NotANumber(1..=64)), "{text}");
        }
        let all = 0..=u32::MAX;
        assert_eq!(number(b"4294967295", &all), Ok(u32::MAX));
        assert!(number(b"4294967296", &all).is_err());
    }

    #[test]
    fn words() {
        assert_eq!(word(b"each", WORDS), Ok(0));
        assert_eq!(word(b"adaptive", WORDS), Ok(2));
        for text in ["", "Each", "eac", "eachh", "each\0", "each batch"] {
            let refused = word(text.as_bytes(), WORDS);
            assert_eq!(refused, Err(Refusal::NotAWord(WORDS)), "{text}");
        }
    }

    #[test]
    fn texts_of_several_words() {
        let words: Vec<&[u8]> = split_words(b" a=1,b\t, c\n").collect();
        assert_eq!(words, [&b"a=1"[..], b"b", b"c"]);
        assert_eq!(split_words(b" ,\n").count(), 0);
        let mut place = None;
        assert_eq!(once(&mut place, 1, "again"), Ok(()));
        assert_eq!(once(&mut place, 2, "again"), Err("again"));
    }

    #[test]
    fn switches() {
        for (text, on) in [("on", true), ("1", true), ("off", false), ("no", false)] {
            assert_eq!(switch(text.as_bytes()), Ok(on));
        }
        assert!(switch(b"2").is_err());
        assert!(switch(b"").is_err());
        for on in [false, true] {
            assert_eq!(switch(switch_word(on).as_bytes()), Ok(on));
        }
    }

    #[test]
    fn reasons() {
        let text = |refusal: Refusal| refusal.to_string();
        assert_eq!(
            text(Refusal::OutOfRange(1..=64)),
            "use a number from 1 to 64"
        );
        assert_eq!(
            text(Refusal::NotAWord(WORDS)),
            "use each, batch or adaptive"
        );
        assert_eq!(text(Refusal::NotAWord(&["on", "off"])), "use on or off");
        assert_eq!(text(Refusal::Invalid(c"why")), "why");
    }
}
