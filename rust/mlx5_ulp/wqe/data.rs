// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Data segments: local memory by key (`struct mlx5_wqe_data_seg`) or payload inside the WQE
//! (`struct mlx5_wqe_inline_seg`).

use super::be;

/// Bytes of a data segment that points to memory.
pub const SIZE: usize = 16;

/// Bytes before the payload of an inline segment.
pub const INLINE_HEADER: usize = 4;

/// Bit of `byte_count` that says that the payload follows in the WQE (`MLX5_INLINE_SEG`).
pub const INLINE: u32 = 0x8000_0000;

/// Bits of `byte_count` that hold the length of an inline payload
/// (`MLX5_WQE_INLINE_SEG_BYTE_COUNT_MASK`).
pub const INLINE_LENGTH: u32 = 0x3ff;

/// A range of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Length in bytes, 31 bits. In the ring 0 stands for 2 GiB, so an empty range is left out.
    pub byte_count: u32,
    /// The local key.
    pub lkey: u32,
    /// Address in that key.
    pub addr: u64,
}

/// Behind the last range of a receive that has fewer than its WQE has room for
/// (`MLX5_TERMINATE_SCATTER_LIST_LKEY`).
pub const LIST_END: Data = Data {
    byte_count: 0,
    lkey: 0x100,
    addr: 0,
};

impl Data {
    /// The bytes as they stand in the ring.
    #[inline(always)]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        be::put64(
            &mut b,
            0,
            (u64::from(self.byte_count) << 32) | u64::from(self.lkey),
        );
        be::put64(&mut b, 8, self.addr);
        b
    }

    /// Reads any 16 bytes. Whether it is an inline segment is for the caller to see, by [`INLINE`].
    #[inline(always)]
    pub const fn decode(b: &[u8; SIZE]) -> Data {
        Data {
            byte_count: be::get32(b, 0),
            lkey: be::get32(b, 4),
            addr: be::get64(b, 8),
        }
    }
}

/// The header of an inline segment with `len` bytes of payload, at most [`INLINE_LENGTH`].
#[inline(always)]
pub const fn inline_header(len: u16) -> [u8; INLINE_HEADER] {
    (INLINE | (len as u32 & INLINE_LENGTH)).to_be_bytes()
}

/// Segment units of 16 bytes that an inline segment with `len` bytes of payload occupies.
#[inline(always)]
pub const fn inline_ds(len: u16) -> u8 {
    let len = len as u32 & INLINE_LENGTH;
    (len + INLINE_HEADER as u32).div_ceil(16) as u8
}

/// One decoded data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Memory by key.
    Pointer(Data),
    /// Payload inside the WQE.
    Inline(&'a [u8]),
}

/// An inline segment is longer than what is left of the WQE, or a segment is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// Walks over the data segments of a WQE.
///
/// After an error it yields nothing more.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    rest: &'a [u8],
}

impl<'a> Segments<'a> {
    /// `bytes` is the WQE behind its other segments, up to the length that `ds` says.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Segments { rest: bytes }
    }

    fn step(&mut self) -> Result<Segment<'a>, Truncated> {
        let header = self.rest.first_chunk::<4>().ok_or(Truncated)?;
        let count = u32::from_be_bytes(*header);
        let (segment, used) = if count & INLINE != 0 {
            let end = INLINE_HEADER + (count & INLINE_LENGTH) as usize;
            let payload = self.rest.get(INLINE_HEADER..end).ok_or(Truncated)?;
            (Segment::Inline(payload), end.next_multiple_of(SIZE))
        } else {
            let b = self.rest.first_chunk::<SIZE>().ok_or(Truncated)?;
            (Segment::Pointer(Data::decode(b)), SIZE)
        };
        self.rest = self.rest.get(used..).ok_or(Truncated)?;
        Ok(segment)
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<Segment<'a>, Truncated>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.step();
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Data = Data {
        byte_count: 0x1000,
        lkey: 0x0000_0100,
        addr: 0x0102_0304_0506_0708,
    };

    #[test]
    fn bytes_are_where_the_kernel_puts_them() {
        let want = [0, 0, 0x10, 0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(DATA.encode(), want);
        assert_eq!(Data::decode(&want), DATA);
    }

    #[test]
    fn inline_lengths() {
        assert_eq!(inline_header(5), [0x80, 0, 0, 5]);
        assert_eq!(inline_ds(0), 1);
        assert_eq!(inline_ds(12), 1);
        assert_eq!(inline_ds(13), 2);
        assert_eq!(inline_ds(28), 2);
    }

    #[test]
    fn walks_mixed_segments() {
        let mut b = [0u8; 48];
        b[..4].copy_from_slice(&inline_header(13));
        b[4..17].copy_from_slice(b"thirteen char");
        b[32..48].copy_from_slice(&DATA.encode());
        let mut it = Segments::new(&b);
        assert_eq!(it.next(), Some(Ok(Segment::Inline(b"thirteen char"))));
        assert_eq!(it.next(), Some(Ok(Segment::Pointer(DATA))));
        assert_eq!(it.next(), None);
    }

    #[test]
    fn refuses_what_is_cut_off() {
        let mut b = [0u8; 32];
        b[..4].copy_from_slice(&inline_header(29));
        let mut it = Segments::new(&b);
        assert_eq!(it.next(), Some(Err(Truncated)));
        assert_eq!(it.next(), None);
        assert_eq!(
            Segments::new(&DATA.encode()[..15]).next(),
            Some(Err(Truncated))
        );
        assert_eq!(Segments::new(&[0; 3]).next(), Some(Err(Truncated)));
    }
}
