// SPDX-License-Identifier: GPL-2.0

//! The completion mode of a queue: what follows a look, and what the device is told.

use super::{
    moderation::{
        settings::Settings,
        Events,
        Governor,
        Mode,
        Next,
        Stretch, //
    },
    turn::Turn, //
};
use crate::{
    clock,
    hw::cq::CqCore,
    params::Params,
    queue::send::SendQueue,
    sync::{
        new_irq_lock,
        IrqLock, //
    }, //
};
use core::sync::atomic::{
    AtomicU32,
    Ordering::Relaxed, //
};
use kernel::prelude::*;

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Look again soon.
    Again,
    /// Arm.
    Arm,
    /// Neither: the queue is over.
    Nothing,
}

/// Decides how the completions of one queue are noticed.
#[pin_data]
pub(crate) struct Moderator {
    #[pin]
    state: IrqLock<State>,
    /// What the device was told last, packed.
    programmed: AtomicU32,
    /// What it refused last, packed, or [`NOTHING`]: it is not asked for that again.
    refused: AtomicU32,
}

/// No [`pack`] gives that: periods have 12 bits.
const NOTHING: u32 = u32::MAX;

struct State {
    governor: Governor,
    /// From an event to the arming.
    stretch: Option<Stretch>,
}

/// A queue's mode, for somebody who looks at it.
pub(crate) struct Moment {
    /// The present mode.
    pub(crate) mode: Mode,
    /// Completion entries per second, smoothed.
    pub(crate) per_second: u64,
    /// What the device was told.
    pub(crate) events: Events,
}

const fn pack(events: Events) -> u32 {
    (events.period_us as u32) << 16 | events.count as u32
}

const fn unpack(word: u32) -> Events {
    Events {
        period_us: (word >> 16) as u16,
        count: word as u16,
    }
}

impl Moderator {
    /// With these settings. The device has not been told anything: events come at once.
    pub(crate) fn new(settings: Settings) -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_irq_lock!(
                State { governor: Governor::new(settings, clock::now()), stretch: None },
                c"mlx5_ulp_moderator"
            ),
            programmed: AtomicU32::new(0),
            refused: AtomicU32::new(NOTHING),
        })
    }

    /// The present mode.
    pub(crate) fn moment(&self) -> Moment {
        let state = self.state.lock();
        Moment {
            mode: state.governor.mode(),
            per_second: state.governor.per_second(),
            events: unpack(self.programmed.load(Relaxed)),
        }
    }

    /// Tells the device what the mode wants of it, if it does not know yet, nor has refused it, nor cannot at all:
    /// events come at once then. Sleeps; one at a time.
    ///
    /// # Errors
    ///
    /// Those of the firmware; the device then goes on as before.
    pub(crate) fn program(&self, cq: &CqCore) -> Result {
        let events = self.state.lock().governor.mode().events();
        let word = pack(events);
        let known = self.programmed.load(Relaxed) == word || self.refused.load(Relaxed) == word;
        if known || !cq.can_moderate() {
            return Ok(());
        }
        let told = cq.moderate(events.period_us, events.count);
        let refused = match told {
            Ok(()) => {
                self.programmed.store(word, Relaxed);
                NOTHING
            }
            Err(_) => word,
        };
        self.refused.store(refused, Relaxed);
        told
    }
}

impl SendQueue {
    /// Takes over the parameters of the device. Any context; process context does the rest.
    pub(crate) fn moderate(&self, params: &Params) {
        {
            let mut state = self.moderator.state.lock();
            // Read under the lock: of two who do this, the later one has the later values.
            let settings = params.moderation();
            if *state.governor.settings() == settings {
                return;
            }
            let before = state.governor.mode();
            let mode = state.governor.set(settings);
            if mode != before {
                self.completing.switched();
                self.watch_mode(before.traced(), mode.traced());
            }
        }
        self.work.queue();
    }

    /// A look at the queue has found so many entries: what now. Counts it.
    pub(super) fn looked(&self, _turn: &Turn<'_>, found: u32) -> After {
        let now = clock::now();
        let counters = self.completing.counters();
        let mut state = self.moderator.state.lock();
        let state = &mut *state;
        match state.stretch {
            Some(_) => counters.polls.add(1),
            None => counters.events.add(1),
        }
        if self.completing.is_over() {
            return After::Nothing;
        }
        let before = state.governor.mode();
        if let Some(mode) = state.governor.record(found, now) {
            self.completing.switched();
            self.watch_mode(before.traced(), mode.traced());
            self.work.queue();
        }
        let stretch = state.stretch.get_or_insert(Stretch::new(now));
        match stretch.next(state.governor.mode(), found, now) {
            Next::Poll => After::Again,
            Next::Arm => {
                state.stretch = None;
                counters.arms.add(1);
                After::Arm
            }
        }
    }
}
