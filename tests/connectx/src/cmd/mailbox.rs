// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Input and output of a command as its handler sees them.

use crate::ifc::{self, Field};
use crate::io::Scramble;

/// Input of a command: all its bytes, header included.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// A field of up to 32 bits.
    pub fn get(&self, field: Field) -> u32 {
        ifc::get(self.0, field)
    }

    /// A field of up to 64 bits.
    pub fn get64(&self, field: Field) -> u64 {
        ifc::get64(self.0, field)
    }

    /// A field of one bit.
    pub fn flag(&self, field: Field) -> bool {
        ifc::flag(self.0, field)
    }

    /// A structure as a slice, cut where the input ends.
    pub fn bytes(&self, field: Field) -> &'a [u8] {
        ifc::bytes(self.0, field)
    }

    /// A structure as an array, zero where the input ends.
    pub fn copy<const N: usize>(&self, field: Field) -> [u8; N] {
        ifc::copy(self.0, field)
    }

    /// What follows the fixed part of a command that ends in an array: `tail(field)` with the
    /// field of the array.
    pub fn tail(&self, array: Field) -> &'a [u8] {
        self.0.get(array.byte_offset()..).unwrap_or(&[])
    }

    /// The array at the end of the input as 64-bit big-endian words (`pas[]`).
    pub fn tail_u64(&self, array: Field) -> Vec<u64> {
        let word = |c: &[u8]| c.iter().fold(0, |v, b| (v << 8) | u64::from(*b));
        self.tail(array).chunks_exact(8).map(word).collect()
    }
}

/// Output of a command. Bits that nothing wrote are reserved: zero, or random with
/// `--scramble-reserved`.
#[derive(Debug)]
pub struct OutputBox {
    data: Vec<u8>,
    written: Vec<u8>,
}

impl OutputBox {
    /// Output of `len` bytes, nothing written.
    pub fn new(len: usize) -> Self {
        Self {
            data: vec![0; len],
            written: vec![0; len],
        }
    }

    /// Length that the driver asked for.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether the driver asked for nothing.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Writes a field of up to 32 bits.
    pub fn set(&mut self, field: Field, value: u32) {
        self.set64(field, value.into());
    }

    /// Writes a field of up to 64 bits.
    pub fn set64(&mut self, field: Field, value: u64) {
        ifc::set64(&mut self.data, field, value);
        ifc::set64(&mut self.written, field, u64::MAX);
    }

    /// Writes bytes at a byte offset, cut where the output ends.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        let places = self.data.iter_mut().zip(&mut self.written).skip(offset);
        for ((data, written), byte) in places.zip(bytes) {
            *data = *byte;
            *written = 0xff;
        }
    }

    /// Writes a structure of bytes where a field stands.
    pub fn put_at(&mut self, field: Field, bytes: &[u8]) {
        self.put(field.byte_offset(), bytes);
    }

    /// Writes `words` as 64-bit big-endian words where an array starts.
    pub fn put_u64s(&mut self, array: Field, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            self.put(array.byte_offset() + 8 * i, &word.to_be_bytes());
        }
    }

    /// Forgets what was written: an error answers nothing but its status.
    pub fn clear(&mut self) {
        self.data.fill(0);
        self.written.fill(0);
    }

    /// The bytes for the driver.
    pub fn finish(mut self, scramble: Option<&mut Scramble>) -> Vec<u8> {
        if let Some(scramble) = scramble {
            let mut noise = vec![0; self.data.len()];
            scramble.fill(&mut noise);
            for ((data, written), noise) in self.data.iter_mut().zip(&self.written).zip(noise) {
                *data |= noise & !written;
            }
        }
        self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field;

    #[test]
    fn scrambling_leaves_what_was_written() {
        let status = field!(mlx5_ifc_alloc_pd_out_bits, status);
        let pd = field!(mlx5_ifc_alloc_pd_out_bits, pd);
        let mut out = OutputBox::new(16);
        out.set(status, 0);
        out.set(pd, 0x1234);
        let bytes = out.finish(Some(&mut Scramble::new(1)));
        assert_eq!(ifc::get(&bytes, status), 0);
        assert_eq!(ifc::get(&bytes, pd), 0x1234);
        assert!(bytes[12..].iter().any(|b| *b != 0));
    }

    #[test]
    fn an_output_that_is_too_short_is_cut() {
        let mut out = OutputBox::new(6);
        out.put(4, &[1, 2, 3, 4]);
        out.put(100, &[1]);
        assert_eq!(out.finish(None), [0, 0, 0, 0, 1, 2]);
    }
}
