// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate has no name for, in all or in some of the kernel series that
//! this module builds for.

use kernel::prelude::*;
use mlx5_ulp_bindings as bindings;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:ident;)*) => { $(
        $(#[$doc])*
        #[cold]
        pub(crate) fn $name() -> Error {
            Error::from_errno(-(bindings::$code as i32))
        }
    )* };
}

codes! {
    /// Operation not supported.
    eopnotsupp = EOPNOTSUPP;
    /// Already connected.
    eisconn = EISCONN;
    /// Not connected.
    enotconn = ENOTCONN;
    /// Canceled: flushed behind an error.
    ecanceled = ECANCELED;
    /// The peer failed.
    eremoteio = EREMOTEIO;
}
