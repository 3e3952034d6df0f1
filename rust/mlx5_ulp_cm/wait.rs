// SPDX-License-Identifier: GPL-2.0

//! An event that a task waits for, which may be killed meanwhile or not want to wait for ever: the completion of
//! the kernel crate can only be waited for to the end.

use kernel::{
    bindings,
    ffi::{
        c_long,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Something that happens once, `struct completion`.
#[pin_data]
pub(crate) struct Happening {
    #[pin]
    raw: Opaque<bindings::completion>,
}

// SAFETY: A completion has its own lock.
unsafe impl Send for Happening {}
// SAFETY: As above.
unsafe impl Sync for Happening {}

impl Happening {
    /// It has not happened.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|raw: *mut bindings::completion| {
                // SAFETY: The place is valid and pinned.
                unsafe { bindings::init_completion(raw) };
            }),
        })
    }

    /// It has happened: nobody waits any more. Any context.
    pub(crate) fn tell(&self) {
        // SAFETY: Initialized by `new`.
        unsafe { bindings::complete_all(self.raw.get()) };
    }

    /// Waits for it. Sleeps.
    pub(crate) fn wait(&self) {
        // SAFETY: Initialized by `new`.
        unsafe { bindings::wait_for_completion(self.raw.get()) };
    }

    /// Waits for it as long as the task lives, and no longer than `timeout_ms` unless that is 0. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINTR` when the task was killed, `ETIMEDOUT`.
    pub(crate) fn wait_for(&self, timeout_ms: c_uint) -> Result {
        let jiffies = match timeout_ms {
            // MAX_SCHEDULE_TIMEOUT
            0 => c_long::MAX as c_ulong,
            ms => msecs_to_jiffies(ms).max(1),
        };
        // SAFETY: Initialized by `new`.
        match unsafe { bindings::wait_for_completion_killable_timeout(self.raw.get(), jiffies) } {
            0 => Err(ETIMEDOUT),
            left if left < 0 => Err(EINTR),
            _ => Ok(()),
        }
    }
}
