// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Big-endian fields at fixed places of fixed-size arrays.
//!
//! Everything that the HCA reads or writes is big-endian. `at` is a constant at every call, so the
//! range check is decided by the compiler and nothing of it is left in the code.

/// The 16-bit field at byte `at`.
#[inline(always)]
pub const fn get16<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

/// The 32-bit field at byte `at`.
#[inline(always)]
pub const fn get32<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// The 64-bit field at byte `at`.
#[inline(always)]
pub const fn get64<const N: usize>(b: &[u8; N], at: usize) -> u64 {
    ((get32(b, at) as u64) << 32) | get32(b, at + 4) as u64
}

/// Stores a 16-bit field at byte `at`.
#[inline(always)]
pub fn put16<const N: usize>(b: &mut [u8; N], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_be_bytes());
}

/// Stores a 32-bit field at byte `at`.
#[inline(always)]
pub fn put32<const N: usize>(b: &mut [u8; N], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_be_bytes());
}

/// Stores a 64-bit field at byte `at`.
#[inline(always)]
pub fn put64<const N: usize>(b: &mut [u8; N], at: usize, v: u64) {
    b[at..at + 8].copy_from_slice(&v.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_place_and_order() {
        let mut b = [0u8; 16];
        put16(&mut b, 1, 0x0102);
        put32(&mut b, 3, 0x0304_0506);
        put64(&mut b, 8, 0x0708_090a_0b0c_0d0e);
        assert_eq!(b, [0, 1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(get16(&b, 1), 0x0102);
        assert_eq!(get32(&b, 3), 0x0304_0506);
        assert_eq!(get64(&b, 8), 0x0708_090a_0b0c_0d0e);
    }
}
