// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate has no name for in some of the kernel series.

use kernel::{
    bindings,
    prelude::*, //
};

/// Not connected.
pub(crate) fn enotconn() -> Error {
    Error::from_errno(-(bindings::ENOTCONN as i32))
}

/// Operation not supported.
pub(crate) fn eopnotsupp() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// What is there is not what was there.
pub(crate) fn estale() -> Error {
    Error::from_errno(-(bindings::ESTALE as i32))
}
