// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Access checks: who wants what, and does the key allow it?

use super::context::Mkey;
use super::{Mkeys, NULL_MKEY, RESERVED_LKEY};

/// What an access needs the key to allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    Atomic,
}

impl Right {
    fn granted_by(self, mkey: &Mkey) -> bool {
        let rights = mkey.rights();
        match self {
            Right::LocalRead => rights.local_read,
            Right::LocalWrite => rights.local_write,
            Right::RemoteRead => rights.remote_read,
            Right::RemoteWrite => rights.remote_write,
            Right::Atomic => rights.atomic,
        }
    }

    /// What an indirect key needs of the keys it refers to: they are local to it.
    pub(super) fn beneath(self) -> Self {
        match self {
            Right::LocalRead | Right::RemoteRead => Right::LocalRead,
            Right::LocalWrite | Right::RemoteWrite | Right::Atomic => Right::LocalWrite,
        }
    }
}

/// A checked access: who wants what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub key: u32,
    pub va: u64,
    pub len: u64,
    pub right: Right,
    /// Protection domain and number of the QP, and whether it may use the reserved key.
    pub pd: u32,
    pub qpn: u32,
    pub reserved_lkey: bool,
}

/// Why an access is refused. The number is the vendor syndrome in the error completion: it has no meaning on a card
/// that is published, here it tells the reasons apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// No such key, or another variant of it.
    UnknownKey = 0x51,
    /// The key is free: not registered yet, or invalidated.
    Free = 0x52,
    /// The key belongs to another protection domain, or to another QP.
    Pd = 0x53,
    /// The key lacks the right.
    Right = 0x54,
    /// The access reaches beyond the key.
    Bounds = 0x55,
    /// No translation entry, or one without the permission.
    NotPresent = 0x56,
    /// Keys refer to keys deeper than the device follows.
    TooDeep = 0x57,
    /// The address is not in guest memory.
    Dma = 0x58,
    /// The way through lists of keys is longer than the device goes for one packet.
    TooLong = 0x59,
}

impl Mkeys {
    /// Checks everything about an access but its translation entries. A length of zero passes without a look at the
    /// key (IBTA 9.7.4.1: no check for zero-length operations).
    ///
    /// # Errors
    ///
    /// The first check that fails, in the order of [`Fault`].
    pub fn check(&self, access: &Access) -> Result<(), Fault> {
        if access.len == 0 {
            return Ok(());
        }
        // Two keys exist without a context, as local keys alone: `ibv_alloc_null_mr(3)` gives no rkey either.
        let local = matches!(access.right, Right::LocalRead | Right::LocalWrite);
        let allowed = match access.key {
            NULL_MKEY => local,
            RESERVED_LKEY => local && access.reserved_lkey,
            _ => return check_key(self.lookup(access.key)?, access),
        };
        allowed.then_some(()).ok_or(Fault::UnknownKey)
    }
}

fn check_key(mkey: &Mkey, access: &Access) -> Result<(), Fault> {
    if mkey.is_free() {
        return Err(Fault::Free);
    }
    if !mkey.is_of(access.pd, access.qpn) {
        return Err(Fault::Pd);
    }
    if !access.right.granted_by(mkey) {
        return Err(Fault::Right);
    }
    let Some(key_len) = mkey.length() else {
        // All of the address space, but an access does not wrap around its end.
        let fits = access.va.checked_add(access.len - 1).is_some();
        return fits.then_some(()).ok_or(Fault::Bounds);
    };
    let fits = access
        .va
        .checked_sub(mkey.start())
        .and_then(|offset| offset.checked_add(access.len))
        .is_some_and(|end| end <= key_len);
    fits.then_some(()).ok_or(Fault::Bounds)
}
