// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How many completions there are per second, smoothed.
//!
//! Completions are counted in windows of fixed length, a power of two of nanoseconds, and the counts
//! enter a moving average with weight one quarter. So an event costs an addition and a comparison, a
//! window a shift; thresholds are converted to the same unit when they are set. A burst of one window
//! moves the average by a quarter of its height.

/// Base 2 logarithm of the length of a window in nanoseconds: 8.4 ms.
pub const LOG_WINDOW_NS: u32 = 23;

/// Bits behind the binary point of an average.
const FRACTION: u32 = 8;

/// Base 2 logarithm of the weight of one window, negated.
const WEIGHT: u32 = 2;

/// Windows after which nothing is left of an average.
const FORGOTTEN: u64 = 128;

/// Completions per window, with `FRACTION` bits behind the binary point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// So many completions per second.
    pub const fn from_per_second(n: u32) -> Rate {
        Rate(((n as u64) << (LOG_WINDOW_NS + FRACTION)) / 1_000_000_000)
    }

    /// Completions per second.
    pub const fn per_second(self) -> u64 {
        self.0.saturating_mul(1_000_000_000) >> (LOG_WINDOW_NS + FRACTION)
    }

    /// Three quarters of it.
    pub const fn three_quarters(self) -> Rate {
        Rate(self.0.saturating_sub(self.0 >> 2))
    }
}

/// Counts completions. One owner: whoever polls the queue.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Number of the present window since time 0.
    window: u64,
    /// Completions in it.
    count: u32,
    average: Rate,
}

impl Meter {
    /// Nothing yet. Times are nanoseconds of a clock that does not go back; where it does, the time
    /// before is used.
    pub const fn new(now_ns: u64) -> Meter {
        Meter {
            window: now_ns >> LOG_WINDOW_NS,
            count: 0,
            average: Rate(0),
        }
    }

    /// Counts `n` completions at `now_ns`. Returns how many windows ended since the last call;
    /// [`Meter::close`] wants to be called for each of them, but for no more than it takes.
    #[inline(always)]
    pub fn record(&mut self, n: u32, now_ns: u64) -> Ended {
        let window = now_ns >> LOG_WINDOW_NS;
        if window <= self.window {
            self.count = self.count.saturating_add(n);
            return Ended { left: 0, n: 0 };
        }
        let left = window.wrapping_sub(self.window).min(FORGOTTEN);
        self.window = window;
        Ended { left, n }
    }

    /// Lets the next of the windows that ended enter the average; `None` after the last.
    pub fn close(&mut self, ended: &mut Ended) -> Option<Rate> {
        if ended.left == 0 {
            return None;
        }
        ended.left = ended.left.wrapping_sub(1);
        let window = u64::from(self.count) << FRACTION;
        let average = self.average.0;
        // Both are below 2^40.
        self.average.0 = average
            .wrapping_sub(average >> WEIGHT)
            .wrapping_add(window >> WEIGHT);
        // The new completions belong to the present window, which is open.
        self.count = if ended.left == 0 { ended.n } else { 0 };
        Some(self.average)
    }

    /// The average.
    pub const fn rate(&self) -> Rate {
        self.average
    }
}

/// Windows that ended and are not yet in the average.
#[derive(Debug)]
#[must_use = "windows that ended must be closed"]
pub struct Ended {
    left: u64,
    /// Completions of the window that is open now.
    n: u32,
}

impl Ended {
    /// Whether none ended.
    #[inline(always)]
    pub const fn is_none(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(meter: &mut Meter, n: u32, now: u64) {
        let mut ended = meter.record(n, now);
        while meter.close(&mut ended).is_some() {}
    }

    #[test]
    fn units_convert() {
        for n in [100, 50_000, 200_000, 100_000_000] {
            let back = Rate::from_per_second(n).per_second();
            assert!(u64::from(n).abs_diff(back) <= 1, "{n} {back}");
        }
        assert!(Rate::from_per_second(100) > Rate(200));
        assert_eq!(Rate(100).three_quarters(), Rate(75));
    }

    #[test]
    fn a_steady_rate_is_found() {
        for rate in [1000u64, 60_000, 1_000_000] {
            let mut meter = Meter::new(0);
            for i in 0..rate {
                feed(&mut meter, 1, i * 1_000_000_000 / rate);
            }
            let found = meter.rate().per_second();
            assert!(found.abs_diff(rate) * 20 <= rate, "{rate} {found}");
        }
    }

    #[test]
    fn idle_time_is_counted_when_it_is_over() {
        let mut meter = Meter::new(0);
        for i in 0..100u64 {
            feed(&mut meter, 1000, i << LOG_WINDOW_NS);
        }
        let busy = meter.rate();
        feed(&mut meter, 1, 108 << LOG_WINDOW_NS);
        assert!(meter.rate() < busy.three_quarters());
        feed(&mut meter, 1, 1 << 60);
        assert!(meter.rate() <= Rate(3));
    }

    #[test]
    fn a_clock_that_goes_back_does_no_harm() {
        let mut meter = Meter::new(u64::MAX);
        feed(&mut meter, u32::MAX, 0);
        feed(&mut meter, u32::MAX, 5);
        assert_eq!(meter.rate(), Rate(0));
        let mut meter = Meter::new(0);
        feed(&mut meter, u32::MAX, 1);
        feed(&mut meter, u32::MAX, u64::MAX);
        feed(&mut meter, u32::MAX, u64::MAX);
    }
}
