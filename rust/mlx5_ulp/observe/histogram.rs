// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Histograms of latency.
//!
//! Buckets are eighths of powers of two: below 16 ns each value has one of its own, above that a bucket
//! is at most an eighth as wide as its values, so what is read out is at most 12.5 % too high. The range
//! ends at 68 s; the last bucket takes what is above. A histogram has a fixed size of 2,184 bytes.

use core::fmt;

use super::totals::Counter;

/// Base 2 logarithm of the buckets of each power of two.
const SUB: u32 = 3;

/// Bit of the highest power of two that has buckets.
const TOP: u32 = 35;

/// Number of buckets.
pub const BUCKETS: usize = ((TOP - SUB + 2) << SUB) as usize;

/// The bucket of a value in nanoseconds, below [`BUCKETS`].
#[inline(always)]
pub const fn bucket(ns: u64) -> usize {
    let top = 63 - (ns | 1).leading_zeros();
    if top < SUB {
        return ns as usize;
    }
    if top > TOP {
        return BUCKETS - 1;
    }
    let shift = top.wrapping_sub(SUB);
    let sub = (ns >> shift) as usize & ((1 << SUB) - 1);
    ((shift as usize).wrapping_add(1) << SUB) | sub
}

/// Smallest and largest value of a bucket, in nanoseconds. The last one is open: its largest is that of
/// the range.
pub const fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = if bucket < BUCKETS {
        bucket
    } else {
        BUCKETS - 1
    };
    let row = bucket >> SUB;
    let sub = (bucket & ((1 << SUB) - 1)) as u64;
    if row == 0 {
        return (sub, sub);
    }
    let shift = row.wrapping_sub(1) as u32;
    let low = (1 << SUB | sub) << (shift & 63);
    (low, low | ((1 << (shift & 63)) - 1))
}

/// Counts values. One writer at a time; anybody may read meanwhile.
#[derive(Debug)]
pub struct Histogram {
    counts: [Counter; BUCKETS],
    /// Of all values, in nanoseconds, wrapping.
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            counts: [const { Counter::new() }; BUCKETS],
            sum: Counter::new(),
        }
    }

    /// Counts a value in nanoseconds. For the one writer.
    #[inline]
    pub fn record(&self, ns: u64) {
        if let Some(count) = self.counts.get(bucket(ns)) {
            count.add(1);
        }
        self.sum.add(ns);
    }
}

/// What one or several histograms held at some moment.
///
/// A histogram is never set to zero, which its writer would not notice: keep a snapshot and look at what
/// came [`Snapshot::since`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new()
    }
}

impl Snapshot {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            counts: [0; BUCKETS],
            sum: 0,
        }
    }

    /// Adds what `histogram` holds now. A value that is being counted may be in or not.
    pub fn add(&mut self, histogram: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&histogram.counts) {
            *mine = mine.wrapping_add(theirs.get());
        }
        self.sum = self.sum.wrapping_add(histogram.sum.get());
    }

    /// Takes out what was there at `base`, an earlier snapshot of the same histograms.
    pub fn since(&mut self, base: &Snapshot) {
        for (mine, theirs) in self.counts.iter_mut().zip(&base.counts) {
            *mine = mine.wrapping_sub(*theirs);
        }
        self.sum = self.sum.wrapping_sub(base.sum);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::wrapping_add)
    }

    /// Mean in nanoseconds, rounded down; `None` without values.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count())
    }

    /// The value in nanoseconds that `ppm` millionths of all values do not exceed: 500,000 for the
    /// median, 1,000,000 (and anything above) for the largest. It is the upper bound of a bucket, so it is
    /// up to 12.5 % too high and never too low. `None` without values.
    pub fn quantile(&self, ppm: u32) -> Option<u64> {
        const WHOLE: u64 = 1_000_000;
        let ppm = u64::from(ppm).min(WHOLE);
        let count = self.count();
        // count * ppm / WHOLE, rounded up, without leaving 64 bits.
        let (millions, rest) = (count / WHOLE, count % WHOLE);
        let part = (rest.wrapping_mul(ppm)).wrapping_add(WHOLE - 1) / WHOLE;
        let rank = millions.wrapping_mul(ppm).wrapping_add(part).max(1);
        let mut seen = 0u64;
        for (high, n) in self.buckets().map(|(_, high, n)| (high, n)) {
            seen = seen.wrapping_add(n);
            if seen >= rank {
                return Some(high);
            }
        }
        None
    }

    /// The buckets with values: smallest, largest value in nanoseconds, number of values.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let all = (0..BUCKETS).zip(self.counts.iter());
        all.filter(|(_, n)| **n != 0).map(|(bucket, n)| {
            let (low, high) = bounds(bucket);
            (low, high, *n)
        })
    }
}

/// One line: `count 12 mean 850 p50 831 p90 959 p99 1023 p99.9 1023 max 1023`, in nanoseconds.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count {}", self.count())?;
        let Some(mean) = self.mean() else {
            return Ok(());
        };
        write!(f, " mean {mean}")?;
        for (name, ppm) in [
            ("p50", 500_000),
            ("p90", 900_000),
            ("p99", 990_000),
            ("p99.9", 999_000),
            ("max", 1_000_000),
        ] {
            write!(f, " {name} {}", self.quantile(ppm).unwrap_or(0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        let mut next = 0;
        for b in 0..BUCKETS {
            let (low, high) = bounds(b);
            assert_eq!(low, next, "bucket {b}");
            assert!(high >= low);
            assert_eq!((bucket(low), bucket(high)), (b, b));
            assert!((high - low) * 8 <= low, "bucket {b} is too wide");
            next = high + 1;
        }
        assert_eq!(next, 1 << (TOP + 1));
        assert_eq!(bucket(next), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bounds(usize::MAX), bounds(BUCKETS - 1));
    }

    #[test]
    fn size_is_as_documented() {
        assert_eq!(core::mem::size_of::<Histogram>(), 2184);
    }

    #[test]
    fn an_empty_one_has_no_quantiles() {
        let s = Snapshot::new();
        assert_eq!((s.count(), s.mean(), s.quantile(500_000)), (0, None, None));
        assert_eq!(s.to_string(), "count 0");
    }

    #[test]
    fn one_line() {
        let h = Histogram::new();
        (1..=10).for_each(|ns| h.record(ns));
        let mut s = Snapshot::new();
        s.add(&h);
        assert_eq!(
            s.to_string(),
            "count 10 mean 5 p50 5 p90 9 p99 10 p99.9 10 max 10"
        );
    }

    #[test]
    fn reset_by_difference() {
        let h = Histogram::new();
        h.record(5);
        h.record(1000);
        let mut base = Snapshot::new();
        base.add(&h);
        h.record(7);
        let mut now = Snapshot::new();
        now.add(&h);
        now.since(&base);
        assert_eq!(
            (now.count(), now.mean(), now.quantile(1_000_000)),
            (1, Some(7), Some(7))
        );
    }
}
