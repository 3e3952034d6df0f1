// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How long completions may wait for their event.

/// What starts the period (`cqc.cq_period_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeriodMode {
    /// The first completion after an event.
    #[default]
    Event,
    /// Each completion anew.
    Completion,
}

/// An event is raised when `count` completions wait, or `period` has passed; at once if one of the two is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moderation {
    /// Nanoseconds.
    pub period: u64,
    pub count: u32,
    pub mode: PeriodMode,
}

impl Moderation {
    /// From `cqc.cq_period` (microseconds), `cqc.cq_max_count` and `cqc.cq_period_mode`.
    pub fn new(period_us: u32, count: u32, mode: u32) -> Self {
        Moderation {
            period: u64::from(period_us) * 1000,
            count,
            mode: if mode == 0 {
                PeriodMode::Event
            } else {
                PeriodMode::Completion
            },
        }
    }

    /// Does each completion start the period anew?
    pub fn restarts(&self) -> bool {
        self.mode == PeriodMode::Completion
    }

    /// When `waiting` completions, the period of which began at `since`, are due; `None`: at once.
    pub fn due(&self, waiting: u32, since: u64) -> Option<u64> {
        if self.period == 0 || self.count == 0 || waiting >= self.count {
            return None;
        }
        Some(since.saturating_add(self.period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_are_needed_and_either_ends_the_wait() {
        assert_eq!(Moderation::new(0, 5, 0).due(1, 100), None);
        assert_eq!(Moderation::new(5, 0, 0).due(1, 100), None);
        let m = Moderation::new(5, 3, 0);
        assert_eq!(m.due(2, 100), Some(5100));
        assert_eq!(m.due(3, 100), None);
        assert!(!m.restarts());
        assert!(Moderation::new(5, 3, 1).restarts());
    }
}
