// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which WQEs go to the doorbell register themselves (BlueFlame).
//!
//! The device takes such a WQE from the register instead of fetching it from memory: one round trip
//! over the bus less, and with the payload inline two less. It costs the CPU eight stores for each 64
//! bytes, so it is for WQEs that go alone; of several with one doorbell the device has to fetch the
//! others anyway.

/// When to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// For WQEs that carry their payload.
    Auto,
    /// For WQEs that do not carry their payload, too.
    On,
    /// Never.
    Off,
}

impl Choice {
    /// Their names, by index.
    pub const WORDS: &'static [&'static str] = &["auto", "on", "off"];

    /// The choice with this index in [`Choice::WORDS`].
    pub const fn from_index(index: u32) -> Choice {
        match index {
            0 => Choice::Auto,
            1 => Choice::On,
            _ => Choice::Off,
        }
    }
}

/// The settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueFlame {
    /// When.
    pub choice: Choice,
    /// Longest inline payload, bytes.
    pub max_inline: u32,
}

impl BlueFlame {
    /// Never.
    pub const OFF: BlueFlame = BlueFlame {
        choice: Choice::Off,
        max_inline: 0,
    };

    /// Most that `max_inline` may be: what fits into a buffer of 256 bytes, the size that all devices
    /// have, behind control and remote address segment and the inline header.
    pub const MAX_INLINE: u32 = 256 - 36;

    /// Whether a WQE that goes alone is copied; `inline_bytes` is its payload, if it carries it.
    #[inline]
    pub fn takes(&self, inline_bytes: Option<u32>) -> bool {
        match (self.choice, inline_bytes) {
            (Choice::Off, _) => false,
            (_, Some(bytes)) => bytes <= self.max_inline,
            (choice, None) => choice == Choice::On,
        }
    }

    /// Whether that may be so of a WQE without inline payload.
    #[inline]
    pub fn takes_plain(&self) -> bool {
        self.takes(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        let with = |choice| BlueFlame {
            choice,
            max_inline: 64,
        };
        let cases = [None, Some(0), Some(64), Some(65)];
        let takes = |choice| cases.map(|bytes| with(choice).takes(bytes));
        assert_eq!(takes(Choice::Auto), [false, true, true, false]);
        assert_eq!(takes(Choice::On), [true, true, true, false]);
        assert_eq!(takes(Choice::Off), [false; 4]);
        for (index, choice) in [Choice::Auto, Choice::On, Choice::Off].iter().enumerate() {
            assert_eq!(Choice::from_index(index as u32), *choice);
        }
    }
}
