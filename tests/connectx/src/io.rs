// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a function does to the world outside: memory accesses, interrupts, packets, and the
//! accounts of them. Kept apart from the objects, so that an object can be borrowed meanwhile.

use std::collections::VecDeque;

use crate::counters::Counters;
use crate::dma::GuestMemory;
use crate::events::{Event, EventLog};
use crate::faults::{Faults, LateFrames, Transit};
use crate::timing::Timing;
use crate::wire::{Gid, Mac};

/// A frame on the wire: everything from the destination address on, without FCS.
pub type Frame = Vec<u8>;

/// A change of an entry of the GID table, for the switch: index, and the new entry with the
/// Ethernet address that it uses.
pub type GidChange = (u16, Option<(Gid, Mac)>);

/// Interrupts and frames that wait for the shell to deliver them.
#[derive(Debug, Default)]
pub struct Output {
    /// MSI-X vectors to fire, one bit each.
    pub vectors: u64,
    /// Frames for the wire, in order. They count as sent when they are taken.
    pub frames: Vec<Frame>,
    /// Changes of the GID table, in order; they come before the frames.
    pub gids: Vec<GidChange>,
}

impl Output {
    /// Whether there is nothing to deliver.
    pub fn is_empty(&self) -> bool {
        self.vectors == 0 && self.frames.is_empty() && self.gids.is_empty()
    }
}

/// The outside of one function.
#[derive(Debug)]
pub struct Io {
    /// Guest memory.
    pub memory: GuestMemory,
    /// Counters.
    pub counters: Counters,
    /// Events of queues.
    pub events: EventLog,
    /// The present time: nanoseconds since the function started. Set on each entry to the HCA.
    pub now: u64,
    /// Source of random bytes for reserved fields; `None` leaves them zero.
    pub scramble: Option<Scramble>,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// How long the stages of a send take.
    pub timing: Timing,
    /// Frames on their way: when they arrive, in nanoseconds.
    underway: VecDeque<(u64, Frame)>,
    /// Frames that a fault has delayed.
    pub(crate) late: LateFrames,
    /// What waits for delivery.
    pub(crate) output: Output,
}

impl Io {
    /// The outside of a function that has not started.
    pub fn new(scramble: Option<u64>) -> Self {
        Self {
            memory: GuestMemory::new(),
            counters: Counters::default(),
            events: EventLog::default(),
            now: 0,
            scramble: scramble.map(Scramble::new),
            timing: Timing::default(),
            underway: VecDeque::new(),
            faults: Faults::default(),
            late: LateFrames::default(),
            output: Output::default(),
        }
    }

    /// Sends an MSI-X message, which is a write to memory. Vectors from 64 on do not exist.
    pub fn interrupt(&mut self, vector: u16) {
        if vector < 64 && !self.memory.is_blocked() {
            self.output.vectors |= 1 << vector;
            self.counters.interrupts += 1;
        }
    }

    /// Sends a frame to the wire.
    pub fn send(&mut self, frame: Frame) {
        self.send_after(0, frame);
    }

    /// Sends a frame to the wire that is complete after so many nanoseconds. Frames stay in order.
    pub fn send_after(&mut self, delay: u64, frame: Frame) {
        let delay = delay.saturating_add(self.timing.wire);
        let last = self.underway.back().map_or(0, |(time, _)| *time);
        let time = last.max(self.now.saturating_add(delay));
        if time > self.now {
            self.underway.push_back((time, frame));
        } else {
            self.arrive(frame);
        }
    }

    /// A frame gets to the switch, unless a fault has it otherwise.
    fn arrive(&mut self, frame: Frame) {
        match self.faults.frame(&frame) {
            None => self.output.frames.push(frame),
            Some(Transit::Lost) => {}
            Some(Transit::Doubled) => self.output.frames.extend([frame.clone(), frame]),
            Some(Transit::Late { frames }) => {
                self.late.hold(frame, frames, self.now);
                return;
            }
        }
        self.output.frames.extend(self.late.overtaken());
    }

    /// Frames arrive that were under way, or were delayed.
    pub(crate) fn run(&mut self) {
        while self
            .underway
            .front()
            .is_some_and(|(time, _)| *time <= self.now)
        {
            if let Some((_, frame)) = self.underway.pop_front() {
                self.arrive(frame);
            }
        }
        let due = self.late.due(self.now);
        self.output.frames.extend(due);
    }

    /// When the next frame arrives.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let underway = self.underway.front().map(|(time, _)| *time);
        underway.into_iter().chain(self.late.next_deadline()).min()
    }

    /// Logs an event of a queue.
    pub fn event(&mut self, queue: u32, what: &'static str, detail: u64) {
        self.events.push(Event {
            time: self.now,
            queue,
            what,
            detail,
        });
    }

    /// A queue entry of zero bytes, or of random ones when reserved fields are scrambled.
    pub fn blank<const N: usize>(&mut self) -> [u8; N] {
        let mut entry = [0; N];
        if let Some(scramble) = &mut self.scramble {
            scramble.fill(&mut entry);
        }
        entry
    }
}

/// A small pseudo random generator (xorshift64*), the same bytes for the same seed.
#[derive(Clone, Debug)]
pub struct Scramble(u64);

impl Scramble {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// The next eight bytes.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next_u64().to_ne_bytes();
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }
}
