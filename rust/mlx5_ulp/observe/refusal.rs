// SPDX-License-Identifier: GPL-2.0

//! What the log says of a text that was written to a file of a device, and that it does not take.

use crate::device::Device;
use kernel::prelude::*;
use mlx5_ulp_bindings as bindings;

/// Says why `file` of `device` has refused a text: a line, of at most ten in five seconds. May sleep.
///
/// # Errors
///
/// `ENOMEM`, then the log has no line.
pub(super) fn report(device: &Device, file: &CStr, reason: &CStr) -> Result {
    let name = device.name()?;
    // SAFETY: Three strings, which it only reads.
    unsafe {
        bindings::mlx5_ulp_shim_refused(
            name.as_char_ptr(),
            file.as_char_ptr(),
            reason.as_char_ptr(),
        )
    };
    Ok(())
}
