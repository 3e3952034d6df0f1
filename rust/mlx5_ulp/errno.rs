// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate has no name for, in all or in some of the kernel series that
//! these modules build for. Each module uses some of them.
#![allow(dead_code)]

use kernel::{
    bindings,
    prelude::*, //
};

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
    /// The address is not to be had.
    eaddrnotavail = EADDRNOTAVAIL;
    /// The peer has refused.
    econnrefused = ECONNREFUSED;
    /// The peer speaks something else.
    eproto = EPROTO;
    /// What is there is not what was there.
    estale = ESTALE;
}
