// SPDX-License-Identifier: GPL-2.0

//! Firmware commands: their boxes, and how they are run.

use super::ifc::Field;
use crate::device::Hold;
use core::marker::PhantomData;
use kernel::{
    alloc::AllocError,
    error::to_result,
    ffi::c_int,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Width in bits of a member, from the type of a function that would take its address.
pub(crate) const fn width<L, F>(_: fn(*const L) -> *const F) -> usize {
    size_of::<F>()
}

/// `field!(create_qp_in, qpc.log_sq_size)`: that [`Field`], with its place taken from
/// `struct mlx5_ifc_create_qp_in_bits`.
macro_rules! field {
    ($layout:ident, $($path:tt)+) => { ::kernel::macros::paste! {{
        type Layout = ::mlx5_ulp_bindings::[<mlx5_ifc_ $layout _bits>];
        const FIELD: $crate::hw::ifc::Field<Layout> = $crate::hw::ifc::Field::new(
            ::core::mem::offset_of!(Layout, $($path)+),
            // SAFETY: Never called, only its type matters.
            $crate::hw::cmd::width(|l: *const Layout| unsafe { &raw const (*l).$($path)+ }),
        );
        FIELD
    }}};
}
pub(crate) use field;

/// An inbox or outbox of layout `L`, followed by a list of 64-bit words (addresses of pages).
///
/// # Invariants
///
/// `bytes` is at least as long as the layout.
pub(crate) struct Mailbox<L> {
    bytes: KVVec<u8>,
    layout: PhantomData<L>,
}

impl<L> Mailbox<L> {
    /// Bytes of the layout itself.
    const BYTES: usize = size_of::<L>() / 8;

    /// All zeroes, with no list behind.
    pub(crate) fn new() -> Result<Self, AllocError> {
        Self::with_list(0)
    }

    /// All zeroes, with room for a list of `words` 64-bit words behind the layout.
    pub(crate) fn with_list(words: usize) -> Result<Self, AllocError> {
        let bytes = words
            .checked_mul(8)
            .and_then(|n| n.checked_add(Self::BYTES))
            .ok_or(AllocError)?;
        // INVARIANT: At least `BYTES`.
        Ok(Self {
            bytes: KVVec::from_elem(0, bytes, GFP_KERNEL)?,
            layout: PhantomData,
        })
    }

    /// Sets a field.
    pub(crate) fn set(&mut self, field: Field<L>, value: impl Into<u64>) -> &mut Self {
        field.set(&mut self.bytes, value.into());
        self
    }

    /// Reads a field.
    pub(crate) fn get(&self, field: Field<L>) -> u64 {
        field.get(&self.bytes)
    }

    /// Reads a field of at most 32 bits.
    pub(crate) fn get32(&self, field: Field<L>) -> u32 {
        self.get(field) as u32
    }

    /// Copies bytes as they are (a GID, a MAC address) to `offset`, in bits, of the layout.
    pub(crate) fn copy_from(&mut self, offset: usize, from: &[u8]) -> &mut Self {
        if let Some(to) = self
            .bytes
            .get_mut(offset / 8..)
            .and_then(|b| b.get_mut(..from.len()))
        {
            to.copy_from_slice(from);
        }
        self
    }

    /// Fills the list, up to its length.
    pub(crate) fn set_list(&mut self, words: impl Iterator<Item = u64>) -> &mut Self {
        let mut list = self.bytes.get_mut(Self::BYTES..).unwrap_or(&mut []);
        for word in words {
            let Some((to, rest)) = list.split_first_chunk_mut() else {
                break;
            };
            *to = word.to_be_bytes();
            list = rest;
        }
        self
    }

    /// As the functions of mlx5_core want it; [`Self::len`] bytes long.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u32 {
        // The kernel allocator aligns to 8 bytes at least.
        self.bytes.as_mut_ptr().cast()
    }

    /// Length in bytes with the list, as the functions of mlx5_core want it.
    pub(crate) fn len(&self) -> c_int {
        // Nothing near 2 GiB can be allocated for it.
        self.bytes.len() as c_int
    }
}

/// Runs the command in `inbox` and waits for its answer. Sleeps.
///
/// # Errors
///
/// What mlx5_core makes of the status: `EIO` when the device is dead or refuses for a reason of
/// its own, `EINVAL` for a bad parameter or state, `ENOMEM`, `EAGAIN`, `EBUSY`, `ETIMEDOUT`.
/// mlx5_core writes status and syndrome to the log.
pub(crate) fn exec<I, O>(hold: &Hold, inbox: &mut Mailbox<I>) -> Result<Mailbox<O>> {
    let mut outbox = Mailbox::new()?;
    // SAFETY: `hold` keeps the device alive, and both boxes are valid for the lengths given.
    to_result(unsafe {
        bindings::mlx5_cmd_exec(
            hold.mdev(),
            inbox.as_mut_ptr().cast(),
            inbox.len(),
            outbox.as_mut_ptr().cast(),
            outbox.len(),
        )
    })?;
    Ok(outbox)
}

/// Runs `command`, which destroys an object, and once more if the device has died of it or before it. Sleeps.
///
/// A card that is pulled out while it works does not answer, and the removal of the driver, which may be what waits
/// for us, no longer cuts that short: the command times out. By then mlx5_core takes the device for dead, does not
/// ask it any more, and answers that the object is destroyed (`mlx5_cmd_exec()` and `mlx5_internal_err_ret_value()` in
/// `drivers/net/ethernet/mellanox/mlx5/core/cmd.c`). Nothing is left of such a device that could use our memory.
///
/// # Errors
///
/// Those of [`exec`]: the object may exist, and the device may use what it was given for it.
pub(crate) fn destroy(hold: &Hold, mut command: impl FnMut() -> Result) -> Result {
    command().or_else(|e| if hold.is_down() { command() } else { Err(e) })
}
