// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fields of firmware layouts: numbers of 1 to 64 bits in big-endian double words.
//!
//! The kernel describes the layouts as structs of byte arrays in which every byte stands for
//! one bit (`<linux/mlx5/mlx5_ifc.h>`). The offset of a member in bytes is thus the offset of
//! the field in bits, and its size the field's width.

use core::marker::PhantomData;

/// A field of the layout `L`, by its place in bits.
///
/// # Invariants
///
/// The field lies within `L`, and either within one aligned 32-bit word, or it is one aligned
/// 64-bit word.
pub struct Field<L> {
    offset: usize,
    width: usize,
    layout: PhantomData<fn() -> L>,
}

impl<L> Clone for Field<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Field<L> {}

impl<L> Field<L> {
    /// The field of `width` bits at bit `offset`.
    ///
    /// # Panics
    ///
    /// If there can be no such field: at compile time, as this is called in constants.
    pub const fn new(offset: usize, width: usize) -> Self {
        assert!(width > 0 && offset + width <= size_of::<L>());
        assert!(
            (width <= 32 && offset / 32 == (offset + width - 1) / 32)
                || (width == 64 && offset % 64 == 0)
        );
        // INVARIANT: just asserted.
        Self {
            offset,
            width,
            layout: PhantomData,
        }
    }

    /// First byte of the 32-bit word, or of the 64-bit word, that has the field.
    const fn byte(self) -> usize {
        self.offset / 32 * 4
    }

    /// How far the field is from the low end of its 32-bit word, and its mask there.
    const fn shift_and_mask(self) -> (usize, u32) {
        let shift = 32 - self.width - self.offset % 32;
        (shift, (u64::MAX >> (64 - self.width)) as u32)
    }

    /// Reads the field from the bytes of its layout.
    ///
    /// Bytes beyond the end of `bytes` count as zero.
    pub fn get(self, bytes: &[u8]) -> u64 {
        let at = bytes.get(self.byte()..).unwrap_or(&[]);
        if self.width == 64 {
            return at.first_chunk().map_or(0, |v| u64::from_be_bytes(*v));
        }
        let (shift, mask) = self.shift_and_mask();
        let word = at.first_chunk().map_or(0, |v| u32::from_be_bytes(*v));
        u64::from((word >> shift) & mask)
    }

    /// Writes the field into the bytes of its layout, and leaves its neighbours alone.
    ///
    /// Of a `value` that is too wide the low bits are written. Nothing happens if `bytes` ends
    /// before the field.
    pub fn set(self, bytes: &mut [u8], value: u64) {
        let at = bytes.get_mut(self.byte()..).unwrap_or(&mut []);
        if self.width == 64 {
            if let Some(v) = at.first_chunk_mut() {
                *v = value.to_be_bytes();
            }
            return;
        }
        let (shift, mask) = self.shift_and_mask();
        if let Some(v) = at.first_chunk_mut() {
            let others = u32::from_be_bytes(*v) & !(mask << shift);
            *v = (others | ((value as u32 & mask) << shift)).to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Layout = [u8; 192];

    #[test]
    fn a_field_reads_back_and_leaves_its_neighbours() {
        for (offset, width) in [
            (0, 1),
            (7, 9),
            (8, 24),
            (32, 32),
            (63, 1),
            (128, 64),
            (64, 31),
        ] {
            let field = Field::<Layout>::new(offset, width);
            let mask = u64::MAX >> (64 - width);
            for fill in [0x00, 0xff] {
                let mut bytes = [fill; 24];
                let value = 0x5a5a_a5a5_1234_8765 & mask;
                field.set(&mut bytes, value);
                assert_eq!(field.get(&bytes), value);
                // All bits outside are as before.
                for bit in (0..192).filter(|b| !(offset..offset + width).contains(b)) {
                    assert_eq!((bytes[bit / 8] >> (7 - bit % 8)) & 1, fill & 1, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_in_network_order() {
        let mut bytes = [0; 24];
        Field::<Layout>::new(40, 24).set(&mut bytes, 0x00ab_cdef);
        assert_eq!(bytes[4..8], [0, 0xab, 0xcd, 0xef]);
    }

    #[test]
    fn a_short_buffer_is_left_alone() {
        let field = Field::<Layout>::new(96, 8);
        let mut bytes = [1; 12];
        field.set(&mut bytes, 7);
        assert_eq!(bytes, [1; 12]);
        assert_eq!(field.get(&bytes), 0);
    }
}
