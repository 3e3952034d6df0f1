// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How completions are noticed: by looking, by interrupt, or by both in turns.
//!
//! | mode | what happens | for |
//! |---|---|---|
//! | [`Mode::Polling`] | looks all the time; arms the queue after a millisecond without completion | few requests, each waited for |
//! | [`Mode::Hybrid`] | looks for 80 us, then arms; the device holds its event back for 20 us | between |
//! | [`Mode::Interrupt`] | looks until the queue is empty, then arms; the device gathers completions for one event | many requests, counted in throughput |
//!
//! `auto` goes from one to the next as the rate of completions crosses a threshold, one step at a time.
//! It must not follow spikes: a policy that did lost a quarter of the throughput with thousands of
//! connections. So the rate is smoothed ([`rate`]), a step back needs a rate a quarter below the
//! threshold, a step is taken only when several windows in a row ask for it and a while after the last
//! one, and that while doubles each time that a step undoes the one before.

pub mod rate;
pub mod settings;

use rate::{Meter, Rate};
use settings::{Choice, Settings};

/// How completions are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// By looking.
    Polling = 0,
    /// By looking four fifths of the time, by interrupt in the rest.
    Hybrid = 1,
    /// By interrupt.
    Interrupt = 2,
}

/// What the device is told about events of a queue (`cq_period`, `cq_max_count`): after arming, the event
/// comes when so much time has passed since the first completion or there are so many, whichever is
/// first. Zeros mean at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// Microseconds, 12 bits.
    pub period_us: u16,
    /// Completions.
    pub count: u16,
}

/// Length of a cycle of [`Mode::Hybrid`], and how much of it is polling, in nanoseconds.
const CYCLE_NS: u64 = 100_000;
const CYCLE_POLL_NS: u64 = 80_000;

/// How long [`Mode::Polling`] looks in vain before it arms, in nanoseconds.
pub const POLL_IDLE_NS: u64 = 1_000_000;

impl Mode {
    /// Its number in tracepoints, behind those of the doorbell's modes.
    pub const fn traced(self) -> u8 {
        16 + self as u8
    }

    /// Its word in parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Polling => "polling",
            Mode::Hybrid => "hybrid",
            Mode::Interrupt => "interrupt",
        }
    }

    /// What to program into the device when the mode is entered.
    pub const fn events(self) -> Events {
        match self {
            // Armed only when idle: the first completion must not wait.
            Mode::Polling => Events {
                period_us: 0,
                count: 0,
            },
            // The rest of the cycle.
            Mode::Hybrid => Events {
                period_us: ((CYCLE_NS - CYCLE_POLL_NS) / 1000) as u16,
                count: u16::MAX,
            },
            // What mlx5_core's network device starts with
            // (MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_USEC, _PKTS).
            Mode::Interrupt => Events {
                period_us: 16,
                count: 32,
            },
        }
    }
}

/// Entries taken in one look, before others on this CPU get a turn.
pub const BUDGET: u32 = 256;

/// What to do after a look at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Look again.
    Poll,
    /// Arm the queue and leave it to the device. The arm command carries the consumer counter, so what
    /// was completed since a look that took all there was raises the event.
    Arm,
}

/// One stretch of looking at a queue, from an event to the arming.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    started_ns: u64,
    /// The last look that found something.
    found_ns: u64,
}

impl Stretch {
    /// Begins with an event, at `now_ns`.
    pub const fn new(now_ns: u64) -> Stretch {
        Stretch {
            started_ns: now_ns,
            found_ns: now_ns,
        }
    }

    /// What to do after a look that found `completions` and ended at `now_ns`.
    ///
    /// Never to arm after a look that took all of its [`BUDGET`]: the device does not tell a second time of
    /// entries that an event has told of (`cqc.last_notified_index`), and such ones may be left over.
    #[inline]
    pub fn next(&mut self, mode: Mode, completions: u32, now_ns: u64) -> Next {
        if completions != 0 {
            self.found_ns = now_ns;
        }
        let goes_on = match mode {
            Mode::Polling => now_ns.saturating_sub(self.found_ns) < POLL_IDLE_NS,
            Mode::Hybrid => now_ns.saturating_sub(self.started_ns) < CYCLE_POLL_NS,
            Mode::Interrupt => completions != 0,
        };
        if goes_on || completions >= BUDGET {
            Next::Poll
        } else {
            Next::Arm
        }
    }
}

/// Windows in a row that must ask for a step.
const CONFIRM: u8 = 4;

/// Windows between two steps: least and most.
const MIN_HOLD: u16 = 8;
const MAX_HOLD: u16 = 256;

/// A step that undoes one not longer ago than this is a sign of flapping, in windows.
const FLAP: u16 = 128;

/// Decides on the mode of one completion queue.
///
/// Not shared: it belongs to whoever polls the queue.
///
/// # Invariants
///
/// `hold` is in `MIN_HOLD..=MAX_HOLD`. With a fixed choice, `mode` is that.
#[derive(Clone, Debug)]
pub struct Governor {
    settings: Settings,
    hybrid: Rate,
    interrupt: Rate,
    meter: Meter,
    mode: Mode,
    /// Windows in a row that asked for the same step.
    asked: u8,
    /// Windows since the last step.
    since: u16,
    /// Windows to wait before the next one.
    hold: u16,
    /// Where the last step came from.
    before: Mode,
}

impl Governor {
    /// `auto` starts by polling.
    pub fn new(settings: Settings, now_ns: u64) -> Governor {
        let mut governor = Governor {
            settings,
            hybrid: Rate::default(),
            interrupt: Rate::default(),
            meter: Meter::new(now_ns),
            mode: Mode::Polling,
            asked: 0,
            since: MAX_HOLD,
            hold: MIN_HOLD,
            before: Mode::Polling,
        };
        governor.set(settings);
        governor
    }

    /// Takes over new settings. Returns the mode from now on: with `auto` the present one, until the rate
    /// asks for another.
    pub fn set(&mut self, settings: Settings) -> Mode {
        self.settings = settings;
        self.hybrid = Rate::from_per_second(settings.hybrid_thresh());
        self.interrupt = Rate::from_per_second(settings.interrupt_thresh());
        self.asked = 0;
        if let Choice::Fixed(mode) = settings.choice() {
            self.mode = mode;
        }
        self.mode
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The mode.
    #[inline(always)]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Completions per second, smoothed; as of the last call to [`Governor::record`].
    pub const fn per_second(&self) -> u64 {
        self.meter.rate().per_second()
    }

    /// Counts `completions` that were found by a look at `now_ns`, 0 included. Returns the mode if it
    /// changed: then its [`Mode::events`] are to be programmed.
    #[inline(always)]
    pub fn record(&mut self, completions: u32, now_ns: u64) -> Option<Mode> {
        let ended = self.meter.record(completions, now_ns);
        if ended.is_none() {
            return None;
        }
        self.windows_ended(ended)
    }

    #[cold]
    #[inline(never)]
    fn windows_ended(&mut self, mut ended: rate::Ended) -> Option<Mode> {
        let before = self.mode;
        while let Some(rate) = self.meter.close(&mut ended) {
            self.since = self.since.saturating_add(1);
            if self.settings.choice() == Choice::Auto {
                self.consider(rate);
            }
        }
        (self.mode != before).then_some(self.mode)
    }

    /// One window more: a step, if it is time.
    fn consider(&mut self, rate: Rate) {
        let wanted = match self.mode {
            Mode::Polling if rate >= self.hybrid => Mode::Hybrid,
            Mode::Hybrid if rate >= self.interrupt => Mode::Interrupt,
            Mode::Hybrid if rate < self.hybrid.three_quarters() => Mode::Polling,
            Mode::Interrupt if rate < self.interrupt.three_quarters() => Mode::Hybrid,
            _ => {
                self.asked = 0;
                return;
            }
        };
        self.asked = self.asked.saturating_add(1);
        if self.asked < CONFIRM || self.since < self.hold {
            return;
        }
        self.hold = if wanted == self.before && self.since < FLAP.max(self.hold.saturating_mul(2)) {
            self.hold.saturating_mul(2).min(MAX_HOLD)
        } else {
            MIN_HOLD
        };
        self.before = self.mode;
        self.mode = wanted;
        self.asked = 0;
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::rate::LOG_WINDOW_NS;
    use super::*;

    const WINDOW: u64 = 1 << LOG_WINDOW_NS;

    /// Runs `windows` windows at a rate, in eight looks each, and returns the changes.
    fn run(g: &mut Governor, now: &mut u64, windows: u64, per_second: u64) -> Vec<Mode> {
        let each = (per_second * (WINDOW / 8) / 1_000_000_000) as u32;
        let mut changes = Vec::new();
        for _ in 0..windows * 8 {
            *now += WINDOW / 8;
            changes.extend(g.record(each, *now));
        }
        changes
    }

    fn auto() -> (Governor, u64) {
        (Governor::new(Settings::DEFAULT, 0), 0)
    }

    #[test]
    fn follows_a_lasting_change_step_by_step() {
        let (mut g, mut now) = auto();
        assert_eq!(g.mode(), Mode::Polling);
        assert_eq!(run(&mut g, &mut now, 100, 40_000), []);
        assert_eq!(run(&mut g, &mut now, 100, 100_000), [Mode::Hybrid]);
        assert_eq!(run(&mut g, &mut now, 100, 400_000), [Mode::Interrupt]);
        assert_eq!(run(&mut g, &mut now, 400, 100_000), [Mode::Hybrid]);
        assert_eq!(run(&mut g, &mut now, 400, 10_000), [Mode::Polling]);
        // From one end to the other: not in one step, but within half a second.
        let (mut g, mut now) = auto();
        let up = run(&mut g, &mut now, 60, 1_000_000);
        assert_eq!(up, [Mode::Hybrid, Mode::Interrupt]);
    }

    #[test]
    fn does_not_follow_spikes() {
        let (mut g, mut now) = auto();
        for _ in 0..50 {
            assert_eq!(run(&mut g, &mut now, 1, 150_000), []);
            assert_eq!(run(&mut g, &mut now, 20, 30_000), []);
        }
        // Nor a gap in busy traffic.
        let (mut g, mut now) = auto();
        run(&mut g, &mut now, 100, 1_000_000);
        assert_eq!(g.mode(), Mode::Interrupt);
        for _ in 0..50 {
            assert_eq!(run(&mut g, &mut now, 3, 0), []);
            assert_eq!(run(&mut g, &mut now, 20, 1_000_000), []);
        }
    }

    #[test]
    fn between_threshold_and_three_quarters_nothing_happens() {
        for rate in [40_000, 45_000, 49_000] {
            let (mut g, mut now) = auto();
            assert_eq!(run(&mut g, &mut now, 200, rate), [], "{rate} from below");
            run(&mut g, &mut now, 100, 80_000);
            assert_eq!(g.mode(), Mode::Hybrid);
            assert_eq!(run(&mut g, &mut now, 400, rate), [], "{rate} from above");
        }
        for rate in [160_000, 180_000, 196_000] {
            let (mut g, mut now) = auto();
            run(&mut g, &mut now, 200, rate);
            assert_eq!(g.mode(), Mode::Hybrid, "{rate} from below");
            run(&mut g, &mut now, 200, 300_000);
            assert_eq!(g.mode(), Mode::Interrupt);
            assert_eq!(run(&mut g, &mut now, 400, rate), [], "{rate} from above");
        }
    }

    #[test]
    fn flapping_traffic_changes_the_mode_ever_less() {
        let (mut g, mut now) = auto();
        let mut changes = Vec::new();
        for _ in 0..20 {
            let mut n = 0;
            for _ in 0..10 {
                n += run(&mut g, &mut now, 15, 20_000).len();
                n += run(&mut g, &mut now, 15, 120_000).len();
            }
            changes.push(n);
        }
        // At first each turn is followed, in the end one in twenty or so.
        assert!(changes[0] >= 5, "{changes:?}");
        assert!(changes[10..].iter().all(|&n| n <= 2), "{changes:?}");
        // And it is forgiven.
        run(&mut g, &mut now, 2000, 20_000);
        assert_eq!(g.mode(), Mode::Polling);
        run(&mut g, &mut now, 2000, 120_000);
        assert_eq!(g.mode(), Mode::Hybrid);
        assert_eq!(g.hold, MIN_HOLD);
    }

    #[test]
    fn a_fixed_mode_stays() {
        for mode in [Mode::Polling, Mode::Hybrid, Mode::Interrupt] {
            let settings = Settings::DEFAULT.changed_by(mode.name().as_bytes());
            let mut g = Governor::new(settings.unwrap(), 0);
            let mut now = 0;
            for rate in [0, 10_000_000, 100_000, 0] {
                assert_eq!(run(&mut g, &mut now, 100, rate), []);
                assert_eq!(g.mode(), mode);
            }
            // Back to auto, from where it is.
            assert_eq!(g.set(Settings::DEFAULT), mode);
            run(&mut g, &mut now, 400, 0);
            assert_eq!(g.mode(), Mode::Polling);
        }
    }

    #[test]
    fn new_thresholds_count_at_once() {
        let (mut g, mut now) = auto();
        run(&mut g, &mut now, 100, 20_000);
        assert_eq!(g.mode(), Mode::Polling);
        let low = Settings::DEFAULT
            .changed_by(b"hybrid_thresh=10000")
            .unwrap();
        g.set(low);
        assert_eq!(run(&mut g, &mut now, 10, 20_000), [Mode::Hybrid]);
    }

    #[test]
    fn hybrid_polls_four_fifths_of_the_time() {
        // Traffic without end: the device raises its event 20 us after it was armed.
        let device = u64::from(Mode::Hybrid.events().period_us) * 1000;
        let (mut now, mut polling) = (0u64, 0u64);
        while now < 100_000_000 {
            let mut stretch = Stretch::new(now);
            loop {
                now += 700;
                polling += 700;
                if stretch.next(Mode::Hybrid, 1, now) == Next::Arm {
                    break;
                }
            }
            now += device;
        }
        let share = polling * 1000 / now;
        assert!((790..=810).contains(&share), "{share} of 1000");
    }

    #[test]
    fn nobody_arms_with_entries_left_over() {
        let modes = [Mode::Polling, Mode::Hybrid, Mode::Interrupt];
        for mode in modes {
            let mut s = Stretch::new(0);
            assert_eq!(s.next(mode, BUDGET, 1 << 40), Next::Poll, "{mode:?}");
        }
        let mut s = Stretch::new(0);
        assert_eq!(s.next(Mode::Hybrid, BUDGET - 1, 1 << 40), Next::Arm);
    }

    #[test]
    fn polling_ends_when_idle_and_interrupt_when_empty() {
        let mut s = Stretch::new(0);
        assert_eq!(s.next(Mode::Polling, 0, POLL_IDLE_NS - 1), Next::Poll);
        assert_eq!(s.next(Mode::Polling, 1, POLL_IDLE_NS), Next::Poll);
        assert_eq!(s.next(Mode::Polling, 0, 2 * POLL_IDLE_NS - 1), Next::Poll);
        assert_eq!(s.next(Mode::Polling, 0, 2 * POLL_IDLE_NS), Next::Arm);
        let mut s = Stretch::new(0);
        assert_eq!(s.next(Mode::Interrupt, 7, 5), Next::Poll);
        assert_eq!(s.next(Mode::Interrupt, 0, 6), Next::Arm);
        // A clock that goes back does not wrap into eternity.
        let mut s = Stretch::new(1 << 40);
        assert_eq!(s.next(Mode::Polling, 0, 0), Next::Poll);
    }

    #[test]
    fn the_device_can_take_the_values() {
        for mode in [Mode::Polling, Mode::Hybrid, Mode::Interrupt] {
            assert!(mode.events().period_us < 1 << 12);
        }
        assert_eq!(Mode::Hybrid.events().period_us, 20);
    }
}
