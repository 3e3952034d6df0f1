// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Whether a disk works, and what a lost connection does to that.
//!
//! Connections are lost at any time, also while recovery makes new ones: then some are new and good, and one of the
//! new ones is lost before the last is made. All is in one word, so that there is no moment at which a loss is neither
//! recovery's to see nor somebody's to ask recovery for.

use super::atomic::{
    AtomicU8,
    Ordering::{
        AcqRel,
        Acquire,
        Relaxed, //
    }, //
};

/// Whether a disk works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Connected.
    Live,
    /// The peer is away; requests wait.
    Away,
    /// Given up; requests fail.
    Dead,
}

const LIVE: u8 = 0;
const AWAY: u8 = 1;
/// Away, and one of the new connections is lost, too.
const AGAIN: u8 = 2;
const DEAD: u8 = 3;

/// The state of one disk.
pub(crate) struct Condition(AtomicU8);

impl Condition {
    /// Of a disk that is live.
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(LIVE))
    }

    /// The present state.
    #[inline]
    pub(crate) fn get(&self) -> State {
        match self.0.load(Acquire) {
            LIVE => State::Live,
            AWAY | AGAIN => State::Away,
            _ => State::Dead,
        }
    }

    /// A connection does not work any more. Whether recovery is to be asked for: once.
    #[must_use]
    pub(crate) fn lost(&self) -> bool {
        self.change(|state| match state {
            LIVE => Some(AWAY),
            AWAY => Some(AGAIN),
            _ => None,
        }) == LIVE
    }

    /// All connections are taken down, and new ones will be made: losses count from now on.
    pub(crate) fn anew(&self) {
        self.change(|state| (state == AGAIN).then_some(AWAY));
    }

    /// The new connections are in use. `false` if they are not to be: one of them was lost, or the disk is dead.
    #[must_use]
    pub(crate) fn back(&self) -> bool {
        self.change(|state| (state == AWAY).then_some(LIVE)) == AWAY
    }

    /// Gives it up for good.
    pub(crate) fn die(&self) {
        self.0.swap(DEAD, AcqRel);
    }

    /// Goes on to what `next` says of the present, if it says something; what was before.
    fn change(&self, next: impl Fn(u8) -> Option<u8>) -> u8 {
        let mut state = self.0.load(Relaxed);
        while let Some(new) = next(state) {
            match self.0.compare_exchange_weak(state, new, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(other) => state = other,
            }
        }
        state
    }
}
