// SPDX-License-Identifier: GPL-2.0

//! How far a connection has come.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{
        AcqRel,
        Acquire,
        Relaxed,
        Release, //
    }, //
};

/// Phase of a connection. It moves downwards in this list only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// The way to the peer is looked for.
    Resolving = 0,
    /// It is known.
    Resolved = 1,
    /// The peer is asked.
    Connecting = 2,
    /// The peer was answered.
    Accepted = 3,
    /// Both know.
    Connected = 4,
    /// Ended, or failed before.
    Closed = 5,
}

impl Phase {
    fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Resolving,
            1 => Self::Resolved,
            2 => Self::Connecting,
            3 => Self::Accepted,
            4 => Self::Connected,
            _ => Self::Closed,
        }
    }
}

/// The phase of one connection.
///
/// Its event handler changes it, of which one runs at a time; only the step to [`Phase::Connecting`] is made
/// by the consumer, and that from there, or from [`Phase::Resolved`], to [`Phase::Closed`] when he does not want an answer (any more).
/// What was written before a change is visible to who sees it.
pub(crate) struct PhaseCell(AtomicU32);

impl PhaseCell {
    /// In `phase`.
    pub(crate) fn new(phase: Phase) -> Self {
        Self(AtomicU32::new(phase as u32))
    }

    /// The present one.
    pub(crate) fn get(&self) -> Phase {
        Phase::from_raw(self.0.load(Acquire))
    }

    /// From one to another; `false` if it was another one.
    pub(crate) fn advance(&self, from: Phase, to: Phase) -> bool {
        self.0
            .compare_exchange(from as u32, to as u32, Release, Relaxed)
            .is_ok()
    }

    /// Ends it; what it was before.
    pub(crate) fn close(&self) -> Phase {
        Phase::from_raw(self.0.swap(Phase::Closed as u32, AcqRel))
    }
}
