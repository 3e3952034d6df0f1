// SPDX-License-Identifier: GPL-2.0

//! The file `trace` of a device: its last events as lines of text.
//!
//! It listens to the module's own tracepoints while it is switched on, so the data path has
//! nothing but their static keys.

use super::{
    event_log::{
        Event,
        EventLog,
        Line,
        Record,
        Slot, //
    },
    refusal,
    trace_filter::Filter,
};
use crate::device::Device;
use core::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};
use kernel::{
    error::to_result,
    ffi::c_void,
    fmt,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SetOnce, //
    },
    uaccess::UserSliceReader, //
};
use mlx5_ulp_bindings as bindings;

/// Events kept, 32 bytes each.
const EVENTS: usize = 4096;
/// Longest filter that makes sense.
const MAX_FILTER: usize = 256;

/// The log of one device.
///
/// # Invariants
///
/// While `listening` is set, the tracepoints call the probes with a pointer to `self`.
#[pin_data(PinnedDrop)]
pub(crate) struct TraceLog {
    device: Arc<Device>,
    /// Its function, see [`Hold::pci_address`](crate::device::Hold::pci_address).
    pci: u32,
    /// A packed [`Filter`].
    filter: AtomicU64,
    /// When it was switched on last, nanoseconds.
    start: AtomicU64,
    /// Made when it is switched on for the first time.
    events: SetOnce<EventLog<KVVec<Slot>>>,
    /// Held around changes.
    #[pin]
    listening: Mutex<bool>,
}

impl TraceLog {
    /// The log of a device, switched off.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is being removed.
    pub(crate) fn new(device: &Arc<Device>) -> Result<impl PinInit<Self>> {
        let (device, pci) = (device.clone(), device.hold()?.pci_address());
        Ok(pin_init!(Self {
            device,
            pci,
            filter: AtomicU64::new(Filter::OFF.pack()),
            start: AtomicU64::new(0),
            events: SetOnce::new(),
            listening <- new_mutex!(false, "mlx5_ulp_trace"),
        }))
    }

    /// Prints the filter and the events.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(events) = self.events.as_ref() else {
            return Ok(());
        };
        let details = Filter::unpack(self.filter.load(Relaxed)).details;
        let start = self.start.load(Relaxed);
        for record in events.iter() {
            let line = Line {
                record: &record,
                start,
                details,
            };
            writeln!(f, "{line}")?;
        }
        match events.lost() {
            0 => Ok(()),
            lost => writeln!(f, "# {lost} events lost"),
        }
    }

    /// Takes a new filter. Switching on starts with an empty log.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none, which is said in the log, `ENOMEM`.
    pub(crate) fn store(&self, reader: &mut UserSliceReader) -> Result {
        let mut text = [0; MAX_FILTER];
        let Some(text) = text.get_mut(..reader.len()) else {
            return self.refuse();
        };
        reader.read_slice(text)?;

        let mut listening = self.listening.lock();
        let old = Filter::unpack(self.filter.load(Relaxed));
        let Ok(new) = old.parse(text) else {
            return self.refuse();
        };
        if new.on && !old.on {
            self.prepare()?;
        }
        if new.on && !*listening {
            self.listen()?;
        } else if !new.on && *listening {
            self.ignore();
        }
        *listening = new.on;
        self.filter.store(new.pack(), Relaxed);
        Ok(())
    }

    /// Says what it would have taken.
    fn refuse(&self) -> Result {
        refusal::report(&self.device, c"trace", Filter::WORDS)?;
        Err(EINVAL)
    }

    /// Makes or empties the log.
    fn prepare(&self) -> Result {
        if self.events.as_ref().is_none() {
            let mut slots = KVVec::with_capacity(EVENTS, GFP_KERNEL)?;
            for _ in 0..EVENTS {
                slots.push(Slot::default(), GFP_KERNEL)?;
            }
            // Nobody else makes one: the caller has the lock.
            self.events.populate(EventLog::new(slots).ok_or(ENOMEM)?);
        }
        if let Some(events) = self.events.as_ref() {
            events.clear();
        }
        self.start.store(now(), Relaxed);
        Ok(())
    }

    /// The probes with their tracepoints.
    fn probes() -> [(*mut bindings::tracepoint, *mut c_void); 4] {
        [
            (
                &raw mut bindings::__tracepoint_mlx5_ulp_post,
                post as *mut c_void,
            ),
            (
                &raw mut bindings::__tracepoint_mlx5_ulp_doorbell,
                doorbell as *mut c_void,
            ),
            (
                &raw mut bindings::__tracepoint_mlx5_ulp_completion,
                completion as *mut c_void,
            ),
            (
                &raw mut bindings::__tracepoint_mlx5_ulp_mode,
                mode as *mut c_void,
            ),
        ]
    }

    fn data(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    fn listen(&self) -> Result {
        for (at, (point, probe)) in Self::probes().into_iter().enumerate() {
            // SAFETY: The probe has the parameters of its tracepoint, and `self` is pinned and
            // stops listening before it is dropped.
            let ret = unsafe { bindings::tracepoint_probe_register(point, probe, self.data()) };
            if let Err(e) = to_result(ret) {
                self.ignore_first(at);
                return Err(e);
            }
        }
        Ok(())
    }

    fn ignore(&self) {
        self.ignore_first(Self::probes().len());
    }

    /// Takes the first `n` probes out and waits for those that run.
    fn ignore_first(&self, n: usize) {
        for (point, probe) in Self::probes().into_iter().take(n) {
            // SAFETY: They were registered with these values.
            unsafe { bindings::tracepoint_probe_unregister(point, probe, self.data()) };
        }
        // SAFETY: May sleep here: called from a write to the file, or when the device goes.
        unsafe { bindings::mlx5_ulp_shim_tracepoint_synchronize() };
    }

    /// Logs an event of the device at `pci`. Any context.
    fn log(&self, pci: u32, record: Record) {
        if pci != self.pci || !Filter::unpack(self.filter.load(Relaxed)).takes(&record) {
            return;
        }
        if let Some(events) = self.events.as_ref() {
            events.push(&record);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for TraceLog {
    fn drop(self: Pin<&mut Self>) {
        if *self.listening.lock() {
            self.ignore();
        }
    }
}

/// Nanoseconds since the system started.
fn now() -> u64 {
    // SAFETY: May be called in any context.
    unsafe { bindings::ktime_get_mono_fast_ns() }
}

/// A record of something that happens now.
fn record(event: Event, qpn: u32, index: u16, code: u8, detail: u32) -> Record {
    Record {
        time: now(),
        qpn,
        pid: kernel::current!().pid() as u32,
        event,
        index,
        code,
        detail,
    }
}

/// Probe of `mlx5_ulp_post`.
///
/// # Safety
///
/// `data` must be a [`TraceLog`] that listens.
unsafe extern "C" fn post(
    data: *mut c_void,
    pci: u32,
    qpn: u32,
    index: u16,
    opcode: u8,
    bytes: u32,
) {
    // SAFETY: By the contract of this function.
    let log = unsafe { &*data.cast::<TraceLog>() };
    log.log(pci, record(Event::Post, qpn, index, opcode, bytes));
}

/// Probe of `mlx5_ulp_doorbell`.
///
/// # Safety
///
/// `data` must be a [`TraceLog`] that listens.
unsafe extern "C" fn doorbell(data: *mut c_void, pci: u32, qpn: u32, producer: u16, wqes: u32) {
    // SAFETY: By the contract of this function.
    let log = unsafe { &*data.cast::<TraceLog>() };
    log.log(pci, record(Event::Doorbell, qpn, producer, 0, wqes));
}

/// Probe of `mlx5_ulp_completion`.
///
/// # Safety
///
/// `data` must be a [`TraceLog`] that listens.
unsafe extern "C" fn completion(
    data: *mut c_void,
    pci: u32,
    qpn: u32,
    counter: u16,
    opcode: u8,
    syndrome: u8,
) {
    // SAFETY: By the contract of this function.
    let log = unsafe { &*data.cast::<TraceLog>() };
    log.log(
        pci,
        record(Event::Completion, qpn, counter, syndrome, opcode.into()),
    );
}

/// Probe of `mlx5_ulp_mode`.
///
/// # Safety
///
/// `data` must be a [`TraceLog`] that listens.
unsafe extern "C" fn mode(data: *mut c_void, pci: u32, qpn: u32, from: u8, to: u8) {
    // SAFETY: By the contract of this function.
    let log = unsafe { &*data.cast::<TraceLog>() };
    log.log(pci, record(Event::Mode, qpn, 0, from, to.into()));
}
