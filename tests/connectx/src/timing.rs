// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How long the stages of a send take, if they are to take any time.
//!
//! Without, everything happens as soon as a thread gets to it, which is best for all but one question: how much of a
//! request's time is the device's. The stages of one queue pair follow one another, its WQEs do not overlap; those of
//! different queue pairs do. All times are in nanoseconds of the function's clock. A thread cannot sleep that short, so
//! they are lower bounds, and true only in tests with a clock of their own.

/// Latencies; all zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the write of the doorbell by the CPU to its arrival.
    pub doorbell: u64,
    /// From the doorbell to the fetch of the WQE.
    pub fetch: u64,
    /// From there to the first read of its payload.
    pub parse: u64,
    /// Until the payload of a packet is there.
    pub payload: u64,
    /// From one function to the other.
    pub wire: u64,
}

impl Timing {
    /// About those of a card.
    pub const CARD: Timing = Timing {
        doorbell: 80,
        fetch: 400,
        parse: 150,
        payload: 1200,
        wire: 800,
    };

    /// Sets some by name, as in `fetch=400,wire=0`. `None` for a name that there is not, or no number.
    pub fn set(&mut self, text: &str) -> Option<()> {
        for part in text.split(',') {
            let (name, value) = part.split_once('=')?;
            let value = value.parse().ok()?;
            match name {
                "doorbell" => self.doorbell = value,
                "fetch" => self.fetch = value,
                "parse" => self.parse = value,
                "payload" => self.payload = value,
                "wire" => self.wire = value,
                _ => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_its_name() {
        let mut timing = Timing::CARD;
        timing
            .set("doorbell=5,fetch=1,parse=2,payload=3,wire=4")
            .unwrap();
        let want = Timing {
            doorbell: 5,
            fetch: 1,
            parse: 2,
            payload: 3,
            wire: 4,
        };
        assert_eq!(timing, want);
        for wrong in ["", "fetch", "fetch=fast", "colour=1"] {
            assert_eq!(timing.set(wrong), None, "{wrong}");
        }
    }
}
