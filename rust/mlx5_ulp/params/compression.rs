// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The parameter `wqe_compression` as text.
//!
//! Words separated by white space or commas, in any order, each at most once: `enabled=1` (or `0`),
//! `min_send_size=256` (bytes), `algorithm=merge`. What is not mentioned stays as it is.

use core::fmt;
use core::ops::RangeInclusive;

use super::text::{number, once, split_words, switch, Refusal};

/// Range of `min_send_size`, bytes.
pub const MIN_SEND_SIZE: RangeInclusive<u32> = 0..=1 << 30;

/// The values. There is one algorithm, so it is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Whether WQEs are compacted.
    pub enabled: bool,
    /// Shorter WRITEs are left alone, bytes.
    pub min_send_size: u32,
}

/// Why a word is refused that stood there before.
const AGAIN: Refusal = Refusal::Invalid(c"each word once");

impl Compression {
    /// Those of a device of which nothing was said.
    pub const DEFAULT: Compression = Compression {
        enabled: false,
        min_send_size: 256,
    };

    /// These values with the changes that `text` asks for: all of them or, with an error, none.
    ///
    /// # Errors
    ///
    /// What is wrong with the text. Any bytes are safe to pass.
    pub fn changed_by(&self, text: &[u8]) -> Result<Compression, Refusal> {
        let (mut enabled, mut min_send_size, mut algorithm) = (None, None, None);
        for word in split_words(text) {
            if let Some(value) = word.strip_prefix(b"enabled=") {
                once(&mut enabled, switch(value)?, AGAIN)?;
            } else if let Some(value) = word.strip_prefix(b"min_send_size=") {
                once(&mut min_send_size, number(value, &MIN_SEND_SIZE)?, AGAIN)?;
            } else if let Some(value) = word.strip_prefix(b"algorithm=") {
                once(&mut algorithm, (), AGAIN)?;
                match value {
                    b"merge" => {}
                    b"lz4" => {
                        return Err(Refusal::Unsupported(
                            c"no ConnectX takes LZ4-compressed WQEs, use algorithm=merge",
                        ))
                    }
                    _ => return Err(Refusal::NotAWord(&["algorithm=merge"])),
                }
            } else {
                return Err(Refusal::NotAWord(&[
                    "enabled=0",
                    "enabled=1",
                    "min_send_size=N",
                    "algorithm=merge",
                ]));
            }
        }
        if enabled.is_none() && min_send_size.is_none() && algorithm.is_none() {
            return Err(Refusal::Invalid(c"nothing given"));
        }
        Ok(Compression {
            enabled: enabled.unwrap_or(self.enabled),
            min_send_size: min_send_size.unwrap_or(self.min_send_size),
        })
    }
}

/// A text that [`Compression::changed_by`] takes and that gives the same values.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "enabled={} min_send_size={} algorithm=merge",
            u8::from(self.enabled),
            self.min_send_size
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: Compression = Compression::DEFAULT;

    fn change(text: &str) -> Result<Compression, Refusal> {
        OFF.changed_by(text.as_bytes())
    }

    #[test]
    fn words_in_any_order() {
        let on = change("enabled=1\n").unwrap();
        assert_eq!((on.enabled, on.min_send_size), (true, 256));
        let all = change("algorithm=merge, min_send_size=0 enabled=on").unwrap();
        assert_eq!((all.enabled, all.min_send_size), (true, 0));
        assert_eq!(on.changed_by(b"enabled=0"), Ok(OFF));
        assert_eq!(change("algorithm=merge"), Ok(OFF));
    }

    #[test]
    fn refuses_with_the_reason() {
        assert!(matches!(
            change("enabled=1 algorithm=lz4"),
            Err(Refusal::Unsupported(_))
        ));
        assert!(matches!(change(""), Err(Refusal::Invalid(_))));
        assert!(matches!(
            change("enabled=1 enabled=1"),
            Err(Refusal::Invalid(_))
        ));
        for text in ["enabled", "enabled=2", "enabled=", "algorithm=zip", "lz4"] {
            assert!(matches!(change(text), Err(Refusal::NotAWord(_))), "{text}");
        }
        assert_eq!(
            change("min_send_size=1073741825"),
            Err(Refusal::OutOfRange(MIN_SEND_SIZE))
        );
        assert_eq!(
            change("min_send_size=4k"),
            Err(Refusal::NotANumber(MIN_SEND_SIZE))
        );
    }

    #[test]
    fn what_is_shown_can_be_written_back() {
        let text = OFF.to_string();
        assert_eq!(text, "enabled=0 min_send_size=256 algorithm=merge");
        assert_eq!(change(&text), Ok(OFF));
    }
}
