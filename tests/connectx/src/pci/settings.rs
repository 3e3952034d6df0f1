// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a function has been set up on its bus: what firmware set-up, slot and configuration leave behind.

use super::{MSIX_PBA, MSIX_VECTORS};

/// Bytes of an entry of the MSI-X table.
const MSIX_ENTRY: u32 = 16;
/// Where registers end that the MSI-X table must not cover.
const MSIX_FIRST: u32 = 0x3000;

/// Settings of a function; those of [`Default`] are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Power-saving states that are on: bit 0 L0s, bit 1 L1.
    aspm: u16,
    /// Maximum read request, maximum payload and read completion boundary in bytes.
    max_read_request: u16,
    max_payload: u16,
    boundary: u16,
    /// Lanes, and generation of the speed, as the link runs.
    pub(super) width: u16,
    pub(super) generation: u16,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Offset of the MSI-X table in BAR0.
    pub(super) msix_table: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            aspm: 0,
            max_read_request: 512,
            max_payload: 256,
            boundary: 64,
            width: 16,
            generation: 4,
            vectors: MSIX_VECTORS,
            msix_table: 0x8000,
        }
    }
}

/// A size of 128 bytes to `most`, a power of two.
fn size(value: &str, most: u16) -> Option<u16> {
    let size = value.parse::<u16>().ok()?;
    (size.is_power_of_two() && (128..=most).contains(&size)).then_some(size)
}

/// The code of such a size in the device control register.
fn code(size: u16) -> u16 {
    (size / 128).trailing_zeros() as u16
}

fn offset(value: &str) -> Option<u32> {
    match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

impl Settings {
    /// Sets one by its name on the command line. `None` if there is no such name or the value is not one of it.
    ///
    /// | name | value |
    /// |---|---|
    /// | `aspm` | `off`, `l0s`, `l1`, `both` |
    /// | `mrrs` | maximum read request: 128 to 4096 bytes |
    /// | `mps` | maximum payload: 128 to 512 bytes |
    /// | `rcb` | read completion boundary: 64 or 128 bytes |
    /// | `width` | lanes: 1, 2, 4, 8, 16 |
    /// | `speed` | GT/s: 2.5, 5, 8, 16 |
    /// | `msix` | vectors: 2 to 64 |
    /// | `msix-table` | offset in BAR0, a multiple of 8 from 0x3000 on |
    pub fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "aspm" => {
                let states = ["off", "l0s", "l1", "both"];
                self.aspm = states.iter().position(|state| *state == value)? as u16;
            }
            "mrrs" => self.max_read_request = size(value, 4096)?,
            "mps" => self.max_payload = size(value, 512)?,
            "rcb" => {
                self.boundary = match value {
                    "64" => 64,
                    "128" => 128,
                    _ => return None,
                }
            }
            "width" => {
                let width = value.parse::<u16>().ok()?;
                self.width = Some(width).filter(|w| w.is_power_of_two() && *w <= 16)?;
            }
            "speed" => {
                let speeds = ["2.5", "5", "8", "16"];
                self.generation = speeds.iter().position(|speed| *speed == value)? as u16 + 1;
            }
            "msix" => {
                let vectors = value.parse().ok()?;
                self.vectors = Some(vectors).filter(|n| (2..=MSIX_VECTORS).contains(n))?;
            }
            "msix-table" => {
                let last = MSIX_PBA - MSIX_ENTRY * u32::from(MSIX_VECTORS);
                let fits = |at: &u32| at % 8 == 0 && (MSIX_FIRST..=last).contains(at);
                self.msix_table = offset(value).filter(fits)?;
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn max_payload_code(&self) -> u16 {
        code(self.max_payload)
    }

    pub(super) fn max_read_request_code(&self) -> u16 {
        code(self.max_read_request)
    }

    pub(super) fn boundary_code(&self) -> u16 {
        self.boundary / 128
    }

    pub(super) fn aspm_code(&self) -> u16 {
        self.aspm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_change_nothing() {
        for (name, value) in [
            ("aspm", "on"),
            ("mrrs", "64"),
            ("mrrs", "8192"),
            ("mps", "1024"),
            ("mps", "200"),
            ("rcb", "256"),
            ("width", "3"),
            ("width", "32"),
            ("speed", "64"),
            ("msix", "1"),
            ("msix", "65"),
            ("msix-table", "0x8004"),
            ("msix-table", "0xbe00"),
            ("msix-table", "0x1000"),
            ("color", "red"),
        ] {
            let mut settings = Settings::default();
            assert_eq!(settings.set(name, value), None, "{name}={value}");
            assert_eq!(settings, Settings::default());
        }
    }
}
