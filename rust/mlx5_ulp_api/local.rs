// SPDX-License-Identifier: GPL-2.0

//! What a request reads or writes at this end.

use super::{
    bindings,
    Range, //
};
use core::marker::PhantomData;

/// Bytes that are copied into the request (`MLX5_ULP_INLINE`): no region, no key, and free again when the post returns.
///
/// No more than [`QueueAttr::max_inline`](super::QueueAttr::max_inline) of them; posting more answers `EMSGSIZE`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bytes<'a> {
    raw: bindings::mlx5_ulp_sge,
    _bytes: PhantomData<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// These.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            raw: bindings::mlx5_ulp_sge {
                addr: bytes.as_ptr() as u64,
                // What is longer than can be said is too long as well.
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                lkey: 0,
            },
            _bytes: PhantomData,
        }
    }
}

/// The local end of a request: `sge`, `num_sge` and `MLX5_ULP_INLINE` of the C interface.
#[derive(Clone, Copy)]
pub(crate) enum Local<'a> {
    /// One range.
    Range(Range<'a>),
    /// Several, one behind the other; or none.
    Ranges(&'a [Range<'a>]),
    /// Bytes in the request itself. Only where the local end is read.
    Inline(Bytes<'a>),
}

impl Local<'_> {
    /// Nothing: of registrations, of messages without a byte.
    pub(crate) const NONE: Self = Self::Ranges(&[]);

    /// `sge`, `num_sge`, and what is to be ORed to `flags`; valid as long as `self`.
    pub(super) fn raw(&self) -> (*const bindings::mlx5_ulp_sge, u32, u32) {
        // `Range` and `Bytes` are a `struct mlx5_ulp_sge` and nothing else.
        match self {
            Self::Range(range) => (core::ptr::from_ref(range).cast(), 1, 0),
            Self::Ranges(ranges) => (ranges.as_ptr().cast(), ranges.len() as u32, 0),
            Self::Inline(bytes) => (
                &raw const bytes.raw,
                1,
                bindings::mlx5_ulp_post_flags_MLX5_ULP_INLINE,
            ),
        }
    }
}

impl<'a> From<Range<'a>> for Local<'a> {
    fn from(range: Range<'a>) -> Self {
        Self::Range(range)
    }
}

impl<'a> From<Bytes<'a>> for Local<'a> {
    fn from(bytes: Bytes<'a>) -> Self {
        Self::Inline(bytes)
    }
}
