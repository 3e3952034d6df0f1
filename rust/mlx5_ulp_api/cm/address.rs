// SPDX-License-Identifier: GPL-2.0

//! Addresses.

use super::bindings;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// `AF_UNSPEC`.
const ANY_FAMILY: u16 = 0;

/// An IP address and a port, of the first network namespace.
#[derive(Clone, Copy)]
pub(crate) struct Address(bindings::__kernel_sockaddr_storage);

impl Address {
    /// Reads an address of IPv4 or IPv6, this with its zone if it needs one (`fe80::1%eth0`), and a port. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what is none.
    pub(crate) fn parse(address: &CStr, port: &CStr) -> Result<Self> {
        // SAFETY: All zeroes is a valid value of this plain structure.
        let mut this = Self(unsafe { core::mem::zeroed() });
        // SAFETY: Two strings, a place for the answer, and a namespace that is always there.
        to_result(unsafe {
            bindings::inet_pton_with_scope(
                namespace(),
                ANY_FAMILY,
                address.as_char_ptr(),
                port.as_char_ptr(),
                &mut this.0,
            )
        })?;
        Ok(this)
    }

    /// A port of all addresses of this host.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no IPv6.
    pub(crate) fn any(port: u16) -> Result<Self> {
        // Of both versions.
        let mut this = Self::parse(c"::", c"0")?;
        let place = (&raw mut this.0).cast::<bindings::sockaddr_in6>();
        // SAFETY: What `parse` has made of an address of IPv6.
        unsafe { (*place).sin6_port = port.to_be() };
        Ok(this)
    }

    /// As C takes it, valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *const bindings::sockaddr {
        (&raw const self.0).cast()
    }
}

/// `&init_net`.
pub(super) fn namespace() -> *mut bindings::net {
    &raw mut bindings::init_net
}
