// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A record of the wire in a pcap file, for tshark and its like.
//!
//! Classic format with times in nanoseconds, link type Ethernet. A frame is recorded when the switch gets it, so one that
//! a fault has lost is not there, and one that it doubled is there twice.

use std::io::{BufWriter, Result, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Magic number of the format with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Major and minor version.
const VERSION: [u16; 2] = [2, 4];
/// Longest frame; longer ones are cut.
const SNAP_LEN: u32 = 1 << 18;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// A pcap file that is being written.
#[derive(Debug)]
pub struct Capture<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Capture<W> {
    /// Starts a file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn new(out: W) -> Result<Self> {
        let mut out = BufWriter::new(out);
        out.write_all(&MAGIC.to_le_bytes())?;
        for version in VERSION {
            out.write_all(&version.to_le_bytes())?;
        }
        // Time zone and accuracy: unused.
        out.write_all(&[0; 8])?;
        out.write_all(&SNAP_LEN.to_le_bytes())?;
        out.write_all(&ETHERNET.to_le_bytes())?;
        out.flush()?;
        Ok(Self { out })
    }

    /// Records frames that are sent at one time.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn record<'a>(
        &mut self,
        time: SystemTime,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<()> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        for frame in frames {
            let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            let kept = frame.get(..SNAP_LEN as usize).unwrap_or(frame);
            // Seconds have 32 bits in this format.
            for word in [
                since.as_secs() as u32,
                since.subsec_nanos(),
                kept.len() as u32,
                len,
            ] {
                self.out.write_all(&word.to_le_bytes())?;
            }
            self.out.write_all(kept)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_are_where_libpcap_reads_them() {
        let mut bytes = Vec::new();
        let mut capture = Capture::new(&mut bytes).unwrap();
        let time = UNIX_EPOCH + Duration::new(0x1234, 0x5678);
        capture.record(time, [&[1u8, 2, 3][..], &[4; 5]]).unwrap();
        drop(capture);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4), word(20)), (MAGIC, 0x0004_0002, 1));
        assert_eq!(
            [word(24), word(28), word(32), word(36)],
            [0x1234, 0x5678, 3, 3]
        );
        assert_eq!(bytes[40..43], [1, 2, 3]);
        assert_eq!(word(43 + 8), 5);
        assert_eq!(bytes.len(), 43 + 16 + 5);
    }
}
