// SPDX-License-Identifier: GPL-2.0

//! The function's own network addresses, as the RDMA core manages them.

use crate::device::Hold;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// An address of the port that RoCE v2 can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddress {
    /// Its index in the GID table.
    pub(crate) index: u8,
    /// The address: IPv6, or IPv4 mapped into it.
    pub(crate) gid: [u8; 16],
    /// MAC address of the port.
    pub(crate) mac: [u8; 6],
}

/// The only port of a function.
const PORT: u32 = 1;

impl LocalAddress {
    /// The entry at `index` of the GID table. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none of RoCE v2 at that place, `ENODEV` if its network device is
    /// just going away.
    pub(crate) fn at(hold: &Hold, index: u8) -> Result<Self> {
        // SAFETY: `hold` keeps the RDMA device registered. It checks port and index.
        let attr = from_err_ptr(unsafe {
            bindings::rdma_get_gid_attr(hold.ibdev(), PORT, index.into()).cast_mut()
        })
        .map_err(|_| ENOENT)?;
        let mut mac = [0; 6];
        // SAFETY: The reference to `attr` is kept until below; the MAC has room for 6 bytes, and
        // nobody asks for the VLAN.
        let ret = to_result(unsafe {
            bindings::rdma_read_gid_l2_fields(attr, core::ptr::null_mut(), mac.as_mut_ptr())
        });
        // SAFETY: As above; a GID is 16 bytes, whatever they mean.
        let (kind, gid) = unsafe { ((*attr).gid_type, (*attr).gid.raw) };
        // SAFETY: The reference taken above is given back, and `attr` not used after.
        unsafe { bindings::rdma_put_gid_attr(attr) };
        ret?;
        if kind != bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP {
            return Err(ENOENT);
        }
        Ok(Self { index, gid, mac })
    }

    /// The first entry of RoCE v2. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none (yet: the table follows the addresses of the network device).
    pub(crate) fn first(hold: &Hold) -> Result<Self> {
        (0..=u8::MAX)
            .find_map(|index| Self::at(hold, index).ok())
            .ok_or(ENOENT)
    }
}
