// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames that others overtake.

use super::MAX_LATE;
use crate::io::Frame;

/// A frame on a detour.
#[derive(Debug)]
struct Late {
    /// Frames that have yet to overtake it.
    behind: u32,
    /// When it arrives even if they do not come, in nanoseconds.
    until: u64,
    frame: Frame,
}

/// The frames that are late, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct LateFrames {
    frames: Vec<Late>,
}

impl LateFrames {
    /// Sends a frame on a detour.
    pub fn hold(&mut self, frame: Frame, behind: u32, now: u64) {
        self.frames.push(Late {
            behind,
            until: now.saturating_add(MAX_LATE),
            frame,
        });
    }

    /// Another frame was sent: takes out those that arrive after it.
    pub fn overtaken(&mut self) -> Vec<Frame> {
        for late in &mut self.frames {
            late.behind = late.behind.saturating_sub(1);
        }
        self.take(|late| late.behind == 0)
    }

    /// Takes out those whose time has come.
    pub fn due(&mut self, now: u64) -> Vec<Frame> {
        self.take(|late| late.until <= now)
    }

    fn take(&mut self, arrives: impl Fn(&Late) -> bool) -> Vec<Frame> {
        let mut out = Vec::new();
        let mut rest = Vec::new();
        for late in self.frames.drain(..) {
            if arrives(&late) {
                out.push(late.frame);
            } else {
                rest.push(late);
            }
        }
        self.frames = rest;
        out
    }

    /// When the next one arrives.
    pub fn next_deadline(&self) -> Option<u64> {
        self.frames.iter().map(|late| late.until).min()
    }
}
