// SPDX-License-Identifier: GPL-2.0

//! How long requests take, stage by stage and opcode by opcode.
//!
//! While `latency_stats` is off the data path passes two jump labels, each a no-op of a few bytes. While it
//! is on, the poster notes for each request when it was filled and when the doorbell was rung, and the
//! completing side looks at the clocks and counts: one sample for each completion entry, that of the
//! request it is about.
//!
//! Completions run with softirqs off, so on a CPU one of them counts at a time, whatever queue it is for:
//! histograms are by CPU, and a queue has none of its own.
//!
//! The device stamps an entry with its free-running clock (`ts_format` of the queue pair), unless it has none for that:
//! then the two stages that the stamp enters are not counted. What it said is
//! compared with the kernel's monotonic clock by a pair of readings that is not older than
//! [`PAIR_NS`]; the register read that this takes limits how exact the two stages are that it enters,
//! to about a microsecond on a card.

use super::{
    histogram::{
        Histogram,
        Snapshot, //
    },
    opcodes::{
        self,
        Mix,
        OPCODES, //
    },
};
use crate::{
    clock,
    device::Hold,
    hw::cq::CqCore,
    queue::send::SendQueue,
    table,
    wqe::opcode::Opcode, //
};
use core::sync::atomic::{
    AtomicU32,
    AtomicU64,
    Ordering::Relaxed, //
};
use kernel::{
    cpu::nr_cpu_ids,
    fmt,
    jump_label::static_branch_unlikely,
    new_mutex,
    prelude::*,
    sync::{
        Mutex,
        SetOnce, //
    },
};
use mlx5_ulp_bindings as bindings;

/// How long a pair of readings of the clocks is good, nanoseconds.
const PAIR_NS: u64 = 100_000_000;

/// The stages, in the order in which they are passed.
const STAGES: [&str; 4] = [
    "fill_to_doorbell",
    "doorbell_to_device",
    "device_to_poll",
    "poll_to_callback",
];

/// Histograms of one CPU: stages, then [`OPCODES`], then other opcodes.
const HISTOGRAMS: usize = STAGES.len() + OPCODES.len() + 1;

/// Whether anybody measures. A no-op of a few bytes while nobody does.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    // SAFETY: A static key may be looked at by anyone.
    unsafe {
        static_branch_unlikely!(
            bindings::mlx5_ulp_latency_key,
            bindings::mlx5_ulp_static_key,
            key
        )
    }
}

/// While it exists, the data path looks at its clocks.
struct KeyOn(());

impl KeyOn {
    fn new() -> Self {
        // SAFETY: Process context; undone by `drop`.
        unsafe { bindings::mlx5_ulp_shim_latency(true) };
        Self(())
    }
}

impl Drop for KeyOn {
    fn drop(&mut self) {
        // SAFETY: Process context; undoes `new`.
        unsafe { bindings::mlx5_ulp_shim_latency(false) };
    }
}

/// What one device has measured.
#[pin_data]
pub(crate) struct Latency {
    /// Those of each CPU, one behind the other; made when it is turned on for the first time.
    cpus: SetOnce<KVVec<Histogram>>,
    #[pin]
    switch: Mutex<Switch>,
}

struct Switch {
    on: Option<KeyOn>,
    /// What there was when the views were reset.
    base: Option<KVVec<Snapshot>>,
}

impl Latency {
    /// Off.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            cpus: SetOnce::new(),
            switch <- new_mutex!(Switch { on: None, base: None }, "mlx5_ulp_latency"),
        })
    }

    /// Turns it on or off. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn turn(&self, on: bool) -> Result {
        let mut switch = self.switch.lock();
        if on && self.cpus.as_ref().is_none() {
            let count = (nr_cpu_ids() as usize).saturating_mul(HISTOGRAMS);
            self.cpus.populate(table::of_defaults::<Histogram>(count)?);
        }
        if on != switch.on.is_some() {
            switch.on = on.then(KeyOn::new);
        }
        Ok(())
    }

    /// Counts a value in a histogram of this CPU. With softirqs off.
    fn record(&self, histogram: usize, ns: u64) {
        // SAFETY: Just a number; softirqs are off, so the task stays on this CPU.
        let cpu = unsafe { bindings::mlx5_ulp_shim_cpu() } as usize;
        let at = cpu.wrapping_mul(HISTOGRAMS).wrapping_add(histogram);
        if let Some(h) = self.cpus.as_ref().and_then(|cpus| cpus.get(at)) {
            h.record(ns);
        }
    }

    fn snapshot(&self) -> Result<KVVec<Snapshot>> {
        let mut sums = KVVec::with_capacity(HISTOGRAMS, GFP_KERNEL)?;
        for histogram in 0..HISTOGRAMS {
            sums.push(Snapshot::new(), GFP_KERNEL)?;
            let cpus = self.cpus.as_ref().map_or(&[][..], |cpus| cpus);
            if let Some(sum) = sums.last_mut() {
                for h in cpus.iter().skip(histogram).step_by(HISTOGRAMS) {
                    sum.add(h);
                }
            }
        }
        Ok(sums)
    }

    /// The view starts from here. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; then it goes on as before.
    pub(crate) fn reset(&self) -> Result {
        let sums = self.snapshot()?;
        self.switch.lock().base = Some(sums);
        Ok(())
    }

    /// The view; `mix` was posted in so many milliseconds. Sleeps.
    ///
    /// # Errors
    ///
    /// That of `f`, or if there is no memory.
    pub(crate) fn show(&self, mix: &Mix, ms: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sums = self.snapshot().map_err(|_| fmt::Error)?;
        let switch = self.switch.lock();
        let word = if switch.on.is_some() { "on" } else { "off" };
        f.write_fmt(fmt!("latency_stats {word}\n"))?;
        if let Some(base) = &switch.base {
            for (sum, base) in sums.iter_mut().zip(base.iter()) {
                sum.since(base);
            }
        }
        for (name, sum) in STAGES.iter().zip(sums.iter()) {
            f.write_fmt(format_args!("{name} {sum}\n"))?;
        }
        let posted = mix.iter().map(|(op, n)| (op.name().unwrap_or("?"), n));
        let rows = Iterator::chain(posted, [("other", 0)]);
        for ((name, posted), sum) in rows.zip(sums.iter().skip(STAGES.len())) {
            if posted != 0 || sum.count() != 0 {
                let per_second = posted.saturating_mul(1000).checked_div(ms).unwrap_or(0);
                f.write_fmt(format_args!(
                    "opcode {name} posted {posted} per_second {per_second} {sum}\n"
                ))?;
            }
        }
        Ok(())
    }
}

/// When a request was filled and rung; 0 for not at all.
#[derive(Default)]
struct Times {
    filled: AtomicU64,
    rung: AtomicU64,
}

/// What a queue notes of its requests in flight.
pub(crate) struct Notes {
    /// By request; made when it is measured for the first time.
    times: SetOnce<KVVec<Times>>,
    /// Requests rung, free running. The poster's.
    rung: AtomicU32,
    /// A reading of the device's clock, and of ours at the same moment. The completing side's.
    ticks: AtomicU64,
    ns: AtomicU64,
    /// Frequency of the clock that the device stamps entries with, kHz; 0 if it does not tell, or the clock is another.
    khz: u32,
}

impl Notes {
    /// Nothing noted.
    pub(crate) fn new(hold: &Hold) -> Self {
        Self {
            times: SetOnce::new(),
            rung: AtomicU32::new(0),
            ticks: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            khz: match hold.caps() {
                caps if caps.free_running_stamps => caps.device_frequency_khz,
                _ => 0,
            },
        }
    }

    /// Prepares for `entries` requests in flight, a power of two. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn prepare(&self, entries: usize) -> Result {
        if self.times.as_ref().is_some() {
            return Ok(());
        }
        self.times.populate(table::of_defaults::<Times>(entries)?);
        Ok(())
    }

    /// Forgets what was noted: a request that was posted while nobody looked has no times.
    pub(crate) fn forget(&self) {
        for times in self.times.as_ref().map_or(&[][..], |times| times) {
            times.filled.store(0, Relaxed);
        }
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> usize {
        self.times.as_ref().map_or(0, |t| size_of_val(&**t))
    }

    fn of(&self, request: u32) -> Option<&Times> {
        let times = self.times.as_ref()?;
        times.get(request as usize & times.len().wrapping_sub(1))
    }

    /// Our time of a moment on the device's clock, as seen at `now`.
    fn time_of(&self, ring: &CqCore, stamp: u64, now: u64) -> Option<u64> {
        if now.wrapping_sub(self.ns.load(Relaxed)) > PAIR_NS {
            let (before, ticks, after) = (clock::now(), ring.device_clock(), clock::now());
            self.ticks.store(ticks, Relaxed);
            let half = after.wrapping_sub(before) >> 1;
            self.ns.store(before.wrapping_add(half), Relaxed);
        }
        let ticks = stamp.wrapping_sub(self.ticks.load(Relaxed)) as i64;
        // The stamp is not trusted: what is too far off is no time.
        let ns = ticks
            .checked_mul(1_000_000)?
            .checked_div(i64::from(self.khz))?;
        self.ns.load(Relaxed).checked_add_signed(ns)
    }
}

impl SendQueue {
    /// Notes that `count` requests from number `first` on are filled. For the poster.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_filled(&self, first: u32, count: u32) {
        let now = clock::now();
        for i in 0..count {
            if let Some(times) = self.notes.of(first.wrapping_add(i)) {
                times.rung.store(0, Relaxed);
                times.filled.store(now, Relaxed);
            }
        }
    }

    /// Notes that the doorbell is rung for all requests before number `end`. For the poster.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_rung(&self, end: u32) {
        let now = clock::now();
        let from = self.notes.rung.load(Relaxed);
        // At most so many are in flight; the rest was rung while nobody looked.
        let count = end.wrapping_sub(from).min(self.shape().depth);
        for i in 1..=count {
            if let Some(times) = self.notes.of(end.wrapping_sub(i)) {
                times.rung.store(now, Relaxed);
            }
        }
        self.notes.rung.store(end, Relaxed);
    }

    /// Completes requests by `retire`, the last of them number `end - 1`, and measures that one: the entry
    /// about it came with this `stamp` and this opcode. Softirqs are off.
    #[cold]
    #[inline(never)]
    pub(crate) fn measure(
        &self,
        ring: &CqCore,
        stamp: u64,
        opcode: Opcode,
        end: u32,
        retire: impl FnOnce(),
    ) {
        let polled = clock::now();
        // Before its credit comes back and the place is used anew.
        let (filled, rung) = match self.notes.of(end.wrapping_sub(1)) {
            Some(times) => (times.filled.swap(0, Relaxed), times.rung.load(Relaxed)),
            None => (0, 0),
        };
        retire();
        let done = clock::now();
        if filled == 0 || rung == 0 {
            return;
        }
        let latency = &self.latency;
        latency.record(0, rung.saturating_sub(filled));
        if let Some(device) = self.notes.time_of(ring, stamp, polled) {
            latency.record(1, device.saturating_sub(rung));
            latency.record(2, polled.saturating_sub(device));
        }
        latency.record(3, done.saturating_sub(polled));
        let place = STAGES.len().wrapping_add(opcodes::place(opcode));
        latency.record(place, done.saturating_sub(filled));
    }
}
