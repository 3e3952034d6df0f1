// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How long a posted WQE may wait for the doorbell.
//!
//! When the first WQE begins to wait, a timer is set to the end of its hold time, unless it runs already.
//! Ringing does not stop the timer: when it expires, either the WQE still waits and is rung, or another
//! one has begun to wait since then and the timer is set again, to the end of that one's time, or it
//! stops. So the timer is started once in a hold time at most, and nothing waits longer.

/// Range of the hold time, microseconds.
pub const RANGE_US: core::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Usual hold time, microseconds.
pub const DEFAULT_US: u32 = 50;

/// The hold time of one queue. Belongs to its poster. Times are of one monotonic clock, nanoseconds.
#[derive(Debug)]
pub struct Hold {
    /// Longest time.
    limit: i64,
    /// When the first of those that wait began to.
    since: i64,
    /// Whether the timer runs.
    running: bool,
}

/// What the timer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Rings, and stops.
    Ring,
    /// Runs again for so many nanoseconds.
    Again(i64),
    /// Stops.
    Stop,
}

impl Hold {
    /// With the usual time.
    pub const fn new() -> Hold {
        Hold {
            limit: DEFAULT_US as i64 * 1000,
            since: 0,
            running: false,
        }
    }

    /// Changes the time to `us` microseconds, brought into [`RANGE_US`], at `now`. `Some`: the timer runs for
    /// too long, and has to be started anew, for so many nanoseconds.
    pub fn set(&mut self, us: u32, now: i64) -> Option<i64> {
        let us = us.clamp(*RANGE_US.start(), *RANGE_US.end());
        let limit = i64::from(us).wrapping_mul(1000);
        let shorter = limit < core::mem::replace(&mut self.limit, limit);
        (shorter && self.running).then(|| self.left(now).max(1))
    }

    /// Nanoseconds until the first of those that wait, if any does, has waited for long enough.
    fn left(&self, now: i64) -> i64 {
        self.limit.wrapping_sub(now.wrapping_sub(self.since))
    }

    /// The first WQE begins to wait, at `now`. `Some`: the timer has to be started, for so many
    /// nanoseconds.
    pub fn begin(&mut self, now: i64) -> Option<i64> {
        self.since = now;
        if core::mem::replace(&mut self.running, true) {
            return None;
        }
        Some(self.limit)
    }

    /// The timer has expired, at `now`. `waiting` says whether anything waits.
    pub fn expired(&mut self, waiting: bool, now: i64) -> Expiry {
        let left = self.left(now);
        // A timer that was started anew while it expired does so twice.
        self.running = waiting && left > 0;
        if self.running {
            Expiry::Again(left)
        } else if waiting {
            Expiry::Ring
        } else {
            Expiry::Stop
        }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_microseconds_by_default() {
        let mut hold = Hold::new();
        assert_eq!(hold.begin(1000), Some(50_000));
        assert_eq!(hold.expired(true, 51_000), Expiry::Ring);
    }

    #[test]
    fn one_timer_for_all_that_wait() {
        let mut hold = Hold::new();
        assert_eq!(hold.set(10, 0), None);
        assert_eq!(hold.begin(0), Some(10_000));
        // Rung meanwhile, and another one begins to wait: the timer runs already.
        assert_eq!(hold.begin(4_000), None);
        assert_eq!(hold.expired(true, 10_000), Expiry::Again(4_000));
        assert_eq!(hold.expired(true, 14_000), Expiry::Ring);
        // Nothing waits any more.
        assert_eq!(hold.begin(20_000), Some(10_000));
        assert_eq!(hold.expired(false, 30_000), Expiry::Stop);
        assert_eq!(hold.begin(31_000), Some(10_000));
    }

    #[test]
    fn the_time_is_brought_into_its_range() {
        let mut hold = Hold::new();
        hold.set(0, 0);
        assert_eq!(hold.begin(0), Some(1000));
        let mut hold = Hold::new();
        hold.set(u32::MAX, 0);
        assert_eq!(hold.begin(0), Some(1_000_000_000));
    }

    #[test]
    fn a_shorter_time_holds_for_what_waits_already() {
        let mut hold = Hold::new();
        hold.set(1_000_000, 0);
        hold.begin(0);
        // Begun 10 us ago: 40 are left of 50.
        assert_eq!(hold.set(50, 10_000), Some(40_000));
        assert_eq!(hold.expired(true, 50_000), Expiry::Ring);
        // Nothing runs.
        assert_eq!(hold.set(10, 60_000), None);
        assert_eq!(hold.begin(70_000), Some(10_000));
        // Long over.
        assert_eq!(hold.set(1, 79_000), Some(1));
        // A longer one changes nothing before the timer expires.
        assert_eq!(hold.set(100, 79_000), None);
        assert_eq!(hold.expired(true, 80_000), Expiry::Again(90_000));
        // Started anew while it expired: twice.
        assert_eq!(hold.expired(true, 170_000), Expiry::Ring);
        assert_eq!(hold.expired(false, 170_000), Expiry::Stop);
    }
}
