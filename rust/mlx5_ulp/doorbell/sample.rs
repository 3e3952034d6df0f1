// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How long requests take, and how long of that they wait for the doorbell.
//!
//! Measured on one batch of many, by the WQE that opens it and so waits longest: from its post to the
//! doorbell, and on to the round of completions that retires it. The clock is read where it would be
//! anyway, when a WQE begins to wait, and twice more for each batch that is measured; requests that do not
//! wait cost nothing.

/// One batch of so many is measured.
pub const EVERY: u32 = 16;

/// What was measured, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From the post to the doorbell.
    pub waited: i64,
    /// From the post to the completion; not less than `waited`.
    pub total: i64,
}

/// The measurement of one queue. Belongs to its poster. Times are of one monotonic clock, nanoseconds.
#[derive(Debug, Default)]
pub struct Sample {
    /// Batches since the last that was measured.
    passed: u32,
    stage: Stage,
    /// Number behind the request that is measured.
    end: u32,
    /// When it was posted.
    since: i64,
    /// For how long it waited.
    waited: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing is measured.
    #[default]
    None,
    /// The WQE waits for the doorbell.
    Waits,
    /// The HCA has it.
    Rung,
}

impl Sample {
    /// Nothing is measured yet.
    pub fn new() -> Sample {
        Sample::default()
    }

    /// A WQE opens a batch at `now`; `end` is the number behind its request. Whether this one is measured.
    pub fn begin(&mut self, end: u32, now: i64) -> bool {
        self.passed = self.passed.saturating_add(1);
        if self.stage != Stage::None || self.passed < EVERY {
            return false;
        }
        *self = Sample {
            passed: 0,
            stage: Stage::Waits,
            end,
            since: now,
            waited: 0,
        };
        true
    }

    /// Whether a batch is being measured: then who completes has to call [`Sample::completed`].
    pub fn is_under_way(&self) -> bool {
        self.stage != Stage::None
    }

    /// The doorbell is rung for what waits.
    pub fn rung(&mut self, now: impl FnOnce() -> i64) {
        if self.stage == Stage::Waits {
            self.stage = Stage::Rung;
            self.waited = now().saturating_sub(self.since).max(0);
        }
    }

    /// Everything before the request with this number is retired.
    pub fn completed(&mut self, retired: u32, now: impl FnOnce() -> i64) -> Option<Latency> {
        // Numbers wrap around, and fewer than half of them are in flight.
        if self.stage != Stage::Rung || (retired.wrapping_sub(self.end) as i32) < 0 {
            return None;
        }
        self.stage = Stage::None;
        Some(Latency {
            waited: self.waited,
            total: now().saturating_sub(self.since).max(self.waited),
        })
    }

    /// Gives up what is being measured: the rules have changed.
    pub fn forget(&mut self) {
        self.stage = Stage::None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample whose batch begins with the request before `end`, at 1000.
    fn begun(end: u32) -> Sample {
        let mut sample = Sample::new();
        for _ in 1..EVERY {
            assert!(!sample.begin(end, 0));
            assert!(!sample.is_under_way());
        }
        assert!(sample.begin(end, 1000));
        sample
    }

    #[test]
    fn one_batch_of_many_from_its_first_post_to_its_completion() {
        let mut sample = begun(7);
        assert!(!sample.begin(9, 1100));
        assert_eq!(sample.completed(6, || unreachable!()), None);
        sample.rung(|| 1300);
        // The next batch is another one.
        sample.rung(|| unreachable!());
        assert_eq!(sample.completed(6, || unreachable!()), None);
        assert!(sample.is_under_way());
        let measured = Latency {
            waited: 300,
            total: 2000,
        };
        assert_eq!(sample.completed(7, || 3000), Some(measured));
        assert!(!sample.is_under_way());
        assert_eq!(sample.completed(8, || unreachable!()), None);
        // Of those that passed meanwhile, one counts.
        for _ in 2..EVERY {
            assert!(!sample.begin(20, 0));
        }
        assert!(sample.begin(20, 0));
    }

    #[test]
    fn numbers_wrap_around() {
        let mut sample = begun(3);
        sample.rung(|| 1000);
        assert_eq!(sample.completed(u32::MAX - 5, || unreachable!()), None);
        assert!(sample.completed(4, || 1001).is_some());
        let mut sample = begun(u32::MAX);
        sample.rung(|| 1000);
        assert!(sample.completed(2, || 1001).is_some());
    }

    #[test]
    fn a_clock_that_stands_gives_no_negative_times() {
        let mut sample = begun(1);
        sample.rung(|| 900);
        let measured = Latency {
            waited: 0,
            total: 0,
        };
        assert_eq!(sample.completed(1, || 900), Some(measured));
        let mut sample = begun(1);
        sample.rung(|| 1500);
        let measured = Latency {
            waited: 500,
            total: 500,
        };
        assert_eq!(sample.completed(1, || 1200), Some(measured));
    }

    #[test]
    fn what_is_forgotten_is_not_reported() {
        let mut sample = begun(1);
        sample.rung(|| 1500);
        sample.forget();
        assert!(!sample.is_under_way());
        assert_eq!(sample.completed(1, || unreachable!()), None);
    }
}
