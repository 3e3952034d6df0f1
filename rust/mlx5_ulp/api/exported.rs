// SPDX-License-Identifier: GPL-2.0

//! What functions that C calls have in common. Not only those of `<mlx5_ulp.h>`: `mlx5_ulp_cm` has this file, too.

use kernel::prelude::*;

/// Checks that a function is what the header declares under its name, so that no C caller and the function
/// disagree about arguments. `bindings` must be those of the header.
macro_rules! declared {
    ($($name:ident),* $(,)?) => {
        const _: () = {
            $(
                #[allow(clippy::overly_complex_bool_expr, clippy::nonminimal_bool)]
                let _ = if true { bindings::$name } else { $name };
            )*
        };
    };
}
pub(crate) use declared;

/// What a function that returns a handle returns: the pointer, or an `ERR_PTR()`.
pub(crate) fn pointer_result<T>(result: Result<*mut T>) -> *mut T {
    match result {
        Ok(handle) => handle,
        Err(e) => e.to_ptr(),
    }
}

/// What a function that returns an error number returns.
#[inline(always)]
pub(crate) fn int_result(result: Result) -> kernel::ffi::c_int {
    match result {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}
