// SPDX-License-Identifier: GPL-2.0

//! The timer of the hold time: an hrtimer inside its queue.

use kernel::{
    bindings,
    prelude::*,
    types::Opaque, //
};

/// The monotonic clock, nanoseconds.
pub(crate) fn now() -> i64 {
    // SAFETY: May be called in any context but an NMI.
    unsafe { bindings::ktime_get() }
}

/// Whose timer expires.
pub(crate) trait Expire: Sync {
    /// Offset of the [`Timer`] in it, bytes.
    const TIMER: usize;

    /// Its timer has expired. In hard interrupt context, where the kernel does not thread its interrupts. `Some`:
    /// it runs again, for so many nanoseconds.
    fn expire(&self) -> Option<i64>;
}

/// A timer that its owner contains, pinned.
///
/// The owner stops it by [`Timer::cancel`] before it goes, and does not start it after that.
#[repr(transparent)]
#[pin_data]
pub(crate) struct Timer {
    #[pin]
    raw: Opaque<bindings::hrtimer>,
}

// SAFETY: The timer core does the locking.
unsafe impl Send for Timer {}
// SAFETY: As above.
unsafe impl Sync for Timer {}

impl Timer {
    /// A timer that does not run.
    ///
    /// # Safety
    ///
    /// It must be placed at offset [`Expire::TIMER`] of a `T`, which is not dropped while the timer runs.
    pub(crate) unsafe fn new<T: Expire>() -> impl PinInit<Self> {
        pin_init!(Self {
            // The place is pinned and valid for a timer.
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: As said; the callback is that of the owner's type.
                unsafe {
                    bindings::hrtimer_setup(
                        raw,
                        Some(expired::<T>),
                        bindings::CLOCK_MONOTONIC as i32,
                        bindings::hrtimer_mode_HRTIMER_MODE_REL,
                    )
                }
            }),
        })
    }

    /// Starts it, for `ns` nanoseconds. Any context.
    pub(crate) fn start(&self, ns: i64) {
        // SAFETY: The timer was set up by `new`.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.raw.get(),
                ns,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL,
            )
        };
    }

    /// Stops it, and waits until it does not expire any more. Not from [`Expire::expire`].
    pub(crate) fn cancel(&self) {
        // SAFETY: The timer was set up by `new`.
        unsafe { bindings::hrtimer_cancel(self.raw.get()) };
    }
}

/// Called by the timer core.
///
/// # Safety
///
/// `raw` must be in the timer of a `T` that is alive.
unsafe extern "C" fn expired<T: Expire>(raw: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
    // SAFETY: By the contract of `Timer::new` the owner is so many bytes before its timer, and alive.
    let owner = unsafe { &*raw.cast::<u8>().sub(T::TIMER).cast::<T>() };
    if let Some(ns) = owner.expire() {
        // SAFETY: The timer is the first and only field of a `Timer`, which is alive with its owner.
        unsafe { &*raw.cast::<Timer>() }.start(ns);
    }
    // `HRTIMER_NORESTART`: a timer that was started again in its callback stays so. In some kernel series
    // the bindings have an integer here, in others a type around one.
    // SAFETY: 0 is a value of either.
    unsafe { core::mem::zeroed() }
}
