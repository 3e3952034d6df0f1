// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Layouts of commands, contexts and registers.
//!
//! The kernel describes every structure of the command interface as a C structure in which one
//! byte stands for one bit (`include/linux/mlx5/mlx5_ifc.h`). `layouts.rs` is bindgen's view of
//! it; [`field!`](crate::field) turns a path into such a structure into a [`Field`]: bit offset
//! and width. Dwords are big endian and bit 31 of a dword comes first.
//!
//! Buffers come from a guest and may be shorter than the structure, so access is total: bits
//! beyond the end read as zero, and writes to them are dropped.

#[rustfmt::skip]
#[allow(clippy::all, non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]
pub mod layouts;

/// Where a field stands in a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset of the most significant bit, in bits from the start of the structure.
    pub offset: usize,
    /// Number of bits.
    pub width: usize,
}

impl Field {
    /// The same field of a structure that starts `bytes` further on.
    pub const fn shifted(self, bytes: usize) -> Field {
        Field {
            offset: self.offset + bytes * 8,
            width: self.width,
        }
    }

    /// Offset of the first byte. Meant for fields that are byte arrays.
    pub const fn byte_offset(self) -> usize {
        self.offset / 8
    }

    /// Size in bytes. Meant for fields that are byte arrays.
    pub const fn byte_len(self) -> usize {
        self.width / 8
    }
}

/// Number of bits of the field that a projection selects; used by [`field!`](crate::field).
#[doc(hidden)]
pub const fn width_of<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// The [`Field`](crate::ifc::Field) of a structure of `mlx5_ifc.h`:
/// `field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.log_eq_size)`.
#[macro_export]
macro_rules! field {
    ($typ:ident, $($path:tt)+) => {{
        const FIELD: $crate::ifc::Field = $crate::ifc::Field {
            offset: ::core::mem::offset_of!($crate::ifc::layouts::$typ, $($path)+),
            width: $crate::ifc::width_of::<$crate::ifc::layouts::$typ, _>(|t| &t.$($path)+),
        };
        FIELD
    }};
}

/// Size in bytes of a structure of `mlx5_ifc.h`.
#[macro_export]
macro_rules! size {
    ($typ:ident) => {
        (::core::mem::size_of::<$crate::ifc::layouts::$typ>() / 8)
    };
}

/// Reads a field of up to 64 bits.
pub fn get64(buf: &[u8], field: Field) -> u64 {
    let mut value = 0;
    for bit in field.offset..field.offset + field.width.min(64) {
        let byte = buf.get(bit / 8).copied().unwrap_or(0);
        value = (value << 1) | u64::from((byte >> (7 - bit % 8)) & 1);
    }
    value
}

/// Reads a field of up to 32 bits.
pub fn get(buf: &[u8], field: Field) -> u32 {
    debug_assert!(field.width <= 32);
    get64(buf, field) as u32
}

/// Reads a field of one bit.
pub fn flag(buf: &[u8], field: Field) -> bool {
    get64(buf, field) != 0
}

/// Writes a field of up to 64 bits. Higher bits of `value` are dropped.
pub fn set64(buf: &mut [u8], field: Field, value: u64) {
    let width = field.width.min(64);
    for i in 0..width {
        let bit = field.offset + i;
        if let Some(byte) = buf.get_mut(bit / 8) {
            let mask = 1 << (7 - bit % 8);
            if (value >> (width - 1 - i)) & 1 != 0 {
                *byte |= mask;
            } else {
                *byte &= !mask;
            }
        }
    }
}

/// Writes a field of up to 32 bits. Higher bits of `value` are dropped.
pub fn set(buf: &mut [u8], field: Field, value: u32) {
    debug_assert!(field.width <= 32);
    set64(buf, field, value.into());
}

/// The bytes of a structure inside a buffer, cut where the buffer ends.
pub fn bytes(buf: &[u8], field: Field) -> &[u8] {
    let start = field.byte_offset().min(buf.len());
    let end = (field.byte_offset() + field.byte_len()).min(buf.len());
    &buf[start..end]
}

/// Copies the bytes of a structure into a buffer of the full size, zero where `buf` ends.
pub fn copy<const N: usize>(buf: &[u8], field: Field) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes(buf, field)) {
        *to = *from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_kernel_has_them() {
        let f = field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.log_eq_size);
        assert_eq!((f.offset, f.width), ((0x1c * 8) + 3, 5));
        assert_eq!(size!(mlx5_ifc_create_eq_in_bits), 0x110);
        assert_eq!(size!(mlx5_ifc_cmd_hca_cap_bits), 0x100);
        assert_eq!(size!(mlx5_ifc_qpc_bits), 0xe8);
    }

    #[test]
    fn get_returns_what_set_wrote_and_leaves_the_rest() {
        let f = field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.uar_page);
        let mut buf = [0xff; 0x40];
        set(&mut buf, f, 0x12_3456);
        assert_eq!(get(&buf, f), 0x12_3456);
        assert_eq!(buf[0x1c..0x20], [0xff, 0x12, 0x34, 0x56]);
    }

    #[test]
    fn a_short_buffer_reads_zero_and_takes_no_write() {
        let f = field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.uar_page);
        let mut buf = [0xff; 0x1e];
        assert_eq!(get(&buf, f), 0xff_0000);
        set(&mut buf, f, 0);
        assert_eq!(buf[0x1d], 0);
        assert_eq!(
            bytes(&buf, field!(mlx5_ifc_create_eq_in_bits, eq_context_entry)).len(),
            0xe
        );
    }
}
