// SPDX-License-Identifier: GPL-2.0

//! The clock that durations are measured by.

use mlx5_ulp_bindings as bindings;

/// Nanoseconds of the monotonic clock (`ktime_get_mono_fast_ns()`). Any context.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: May be called in any context.
    unsafe { bindings::ktime_get_mono_fast_ns() }
}
