// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What requests look like that a queue is made for, and how large it becomes.

use super::ring::{Ring, MAX_LOG_BLOCKS};
use super::wqe::{blocks, data, umr, BB, DS, DS_PER_BB, MAX_BBS, MAX_DS};

/// The size of a queue in requests of a stated shape. A request that needs neither more ranges nor more
/// inline bytes than said here fits while fewer than `depth` are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Most requests in flight, not 0.
    pub depth: u32,
    /// Most data ranges of a request, not 0.
    pub max_sge: u32,
    /// Most bytes of inline payload of a request.
    pub max_inline: u32,
}

impl Shape {
    /// Segments of a WRITE before its data: control and remote address.
    pub const HEAD_DS: u32 = 2;

    /// Most data ranges of any request: a WQE is at most [`MAX_BBS`] blocks long, and its length in
    /// segments must fit six bits.
    pub const MAX_SGE: u32 = Self::most_ranges((MAX_BBS * BB) as u32);

    /// Data ranges of a WRITE that is as long as the WQE of a registration: control, change, key, list.
    pub const REGISTRATION_SGE: u32 =
        (DS + umr::CTRL_SIZE + umr::MKEY_SIZE + data::SIZE).div_ceil(DS) as u32 - Self::HEAD_DS;

    /// Most data ranges of a READ: its WQE fits 512 bytes (`MLX5_MAX_SGE_RD`).
    pub const MAX_READ_SGE: u32 = (512 / DS) as u32 - Self::HEAD_DS;

    /// Most data ranges of a request on a device that takes WQEs of up to `max_wqe` bytes (`max_wqe_sz_sq`), of
    /// whole blocks as `calc_sq_size()` in `drivers/infiniband/hw/mlx5/qp.c` has it.
    pub const fn most_ranges(max_wqe: u32) -> u32 {
        let blocks = max_wqe / BB as u32;
        let segments = if blocks < MAX_BBS as u32 {
            blocks * DS_PER_BB as u32
        } else {
            MAX_DS as u32
        };
        segments.saturating_sub(Self::HEAD_DS)
    }

    /// Most inline payload of a request on such a device: it starts behind the inline header, whose length field
    /// holds it.
    pub const fn most_inline(max_wqe: u32) -> u32 {
        const { assert!(Self::MAX_SGE * DS as u32 - data::INLINE_HEADER as u32 <= data::INLINE_LENGTH) };
        let bytes = Self::most_ranges(max_wqe).wrapping_mul(DS as u32);
        bytes.saturating_sub(data::INLINE_HEADER as u32)
    }

    /// The smallest ring that holds `depth` such requests, on a device that takes WQEs of up to `max_wqe` bytes. `None`
    /// if a value is 0 or out of range, or the ring would be too large.
    pub fn ring(&self, max_wqe: u32) -> Option<Ring> {
        if self.depth == 0
            || self.max_sge == 0
            || self.max_sge > Self::most_ranges(max_wqe)
            || self.max_inline > Self::most_inline(max_wqe)
        {
            return None;
        }
        let inline_ds = u32::from(data::inline_ds(self.max_inline as u16));
        let ds = Self::HEAD_DS.wrapping_add(self.max_sge.max(inline_ds));
        let blocks = self.depth.checked_mul(blocks(ds as u8).into())?;
        Ring::at_least(blocks)
    }

    /// Entries of a table with one for each request in flight: a power of two.
    pub const fn entries(&self) -> usize {
        (self.depth as usize).next_power_of_two()
    }
}

/// The size of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveShape {
    /// Most receives in flight, not 0.
    pub depth: u32,
    /// Most data ranges of a receive, not 0.
    pub max_sge: u32,
}

/// Send rings start at a multiple of so many bytes, two basic blocks: one that is alone starts with a page, and one behind
/// a receive ring where that ends.
pub const RING_ALIGNMENT: usize = 2 * BB;

/// A receive ring: receives of the same length each, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRing {
    /// Base 2 logarithm of the receives.
    pub log_entries: u8,
    /// Base 2 logarithm of the bytes of one.
    pub log_stride: u8,
}

impl ReceiveRing {
    /// Segments of one receive.
    pub const fn segments(self) -> u32 {
        1 << (self.log_stride.saturating_sub(DS.ilog2() as u8) & 31)
    }

    /// Byte offset of segment `segment` of the receive with number `receive`, a multiple of 16 below
    /// [`ReceiveRing::bytes`].
    pub const fn segment_offset(self, receive: u32, segment: u32) -> usize {
        let slot = receive as usize & ((1 << (self.log_entries & 31)) - 1);
        let within = segment & self.segments().wrapping_sub(1);
        (slot << (self.log_stride & 31)) + within as usize * DS
    }

    /// Length in bytes, a multiple of [`RING_ALIGNMENT`] since a send ring may follow.
    pub const fn bytes(self) -> usize {
        1 << (self.log_entries.wrapping_add(self.log_stride) & 63)
    }
}

impl ReceiveShape {
    /// Most ranges of a receive on a device that takes up to `max_stride` bytes for one: strides are powers of two, so
    /// what is beyond the last of them is of no use.
    pub fn most_ranges(max_stride: u32) -> u32 {
        match (max_stride >> DS.ilog2()).checked_ilog2() {
            Some(log) => 1 << log.min(MAX_LOG_BLOCKS.into()),
            None => 0,
        }
    }

    /// The smallest ring that holds `depth` such receives, of at most `max_stride` bytes each. `None` if a
    /// value is 0 or out of range, or the ring would be too large.
    pub fn ring(&self, max_stride: u32) -> Option<ReceiveRing> {
        let in_range = |value: u32| (1..=1 << MAX_LOG_BLOCKS).contains(&value);
        if !in_range(self.depth) || !in_range(self.max_sge) {
            return None;
        }
        let stride = self.max_sge.wrapping_mul(DS as u32).next_power_of_two();
        if stride > max_stride {
            return None;
        }
        // For the device it need not be more than a basic block (`set_rq_size()` in
        // `drivers/infiniband/hw/mlx5/qp.c`).
        let least = (RING_ALIGNMENT as u32).checked_div(stride)?.max(1);
        let entries = self.depth.next_power_of_two().max(least);
        Some(ReceiveRing {
            log_entries: entries.trailing_zeros() as u8,
            log_stride: stride.trailing_zeros() as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_rings() {
        let ring = |depth, max_sge| {
            let ring = ReceiveShape { depth, max_sge }.ring(512);
            ring.map(|r| (r.log_entries, r.log_stride))
        };
        assert_eq!(ring(1, 1), Some((3, 4)));
        assert_eq!(ring(5, 3), Some((3, 6)));
        assert_eq!(ring(1, 32), Some((0, 9)));
        assert_eq!(ring(1, 33), None);
        assert_eq!(ring(0, 1), None);
        assert_eq!(ring(1, 0), None);
        assert_eq!(ring(32768, 1), Some((15, 4)));
        assert_eq!(ring(32769, 1), None);
        assert_eq!(ring(1, u32::MAX), None);
        assert_eq!(ring(8, 3), Some((3, 6)));

        for max_stride in [0, 15, 16, 496, 511, 512, 1 << 20, u32::MAX] {
            let most = ReceiveShape::most_ranges(max_stride);
            let with = |max_sge| ReceiveShape { depth: 1, max_sge }.ring(max_stride);
            assert_eq!(with(most).is_some(), max_stride >= 16, "{max_stride}");
            assert_eq!(with(most + 1), None, "{max_stride}");
        }
    }

    #[test]
    fn a_send_ring_behind_it_is_aligned() {
        for depth in (1..100).chain([1 << 10, 1 << 15]) {
            for max_sge in 1..=32 {
                let ring = ReceiveShape { depth, max_sge }.ring(512).unwrap();
                assert_eq!(ring.bytes() % 128, 0, "{depth} of {max_sge}");
                assert!(1 << ring.log_entries >= depth && ring.segments() >= max_sge);
            }
        }
    }

    #[test]
    fn places_in_a_receive_ring() {
        let shape = ReceiveShape {
            depth: 4,
            max_sge: 3,
        };
        let ring = shape.ring(512).unwrap();
        assert_eq!((ring.bytes(), ring.segments()), (256, 4));
        assert_eq!(ring.segment_offset(0, 0), 0);
        assert_eq!(ring.segment_offset(5, 3), 64 + 48);
        assert_eq!(ring.segment_offset(u32::MAX, u32::MAX), 256 - 16);
    }

    const fn shape(depth: u32, max_sge: u32, max_inline: u32) -> Shape {
        Shape {
            depth,
            max_sge,
            max_inline,
        }
    }

    fn ring_blocks(shape: Shape) -> Option<u32> {
        shape.ring(1024).map(Ring::blocks)
    }

    #[test]
    fn the_largest_request_fits_a_wqe() {
        assert_eq!(Shape::MAX_SGE, 61);
        assert_eq!(Shape::MAX_READ_SGE, 30);
        assert_eq!(Shape::REGISTRATION_SGE, 7);
        assert_eq!(Shape::most_inline(1024), 972);
        assert_eq!(ring_blocks(shape(1, 61, 972)), Some(16));
        assert_eq!(ring_blocks(shape(1, 62, 0)), None);
        assert_eq!(ring_blocks(shape(1, 1, 973)), None);
    }

    #[test]
    fn no_request_is_longer_than_the_device_takes() {
        for (max_wqe, sge, inline) in [
            (u32::MAX, 61, 972),
            (1024, 61, 972),
            (1023, 58, 924),
            (512, 30, 476),
            (192, 10, 156),
            (64, 2, 28),
            (63, 0, 0),
            (0, 0, 0),
        ] {
            let most = (Shape::most_ranges(max_wqe), Shape::most_inline(max_wqe));
            assert_eq!(most, (sge, inline), "{max_wqe}");
            let fits = |sge, inline| shape(1, sge, inline).ring(max_wqe);
            assert_eq!(fits(sge, inline).is_some(), sge != 0, "{max_wqe}");
            let longest = u32::from(blocks((Shape::HEAD_DS + sge) as u8)) * BB as u32;
            assert!(sge == 0 || longest <= max_wqe, "{max_wqe}");
            assert_eq!(fits(sge + 1, 0), None, "{max_wqe}");
            assert_eq!(fits(1, inline + 1), None, "{max_wqe}");
        }
    }

    #[test]
    fn blocks_for_each_request() {
        // Two ranges fill a block, so does 28 bytes of inline payload.
        assert_eq!(ring_blocks(shape(100, 2, 28)), Some(128));
        assert_eq!(ring_blocks(shape(100, 3, 0)), Some(256));
        assert_eq!(ring_blocks(shape(100, 1, 29)), Some(256));
        assert_eq!(shape(100, 1, 0).entries(), 128);
    }

    #[test]
    fn out_of_range() {
        assert_eq!(ring_blocks(shape(0, 1, 0)), None);
        assert_eq!(ring_blocks(shape(1, 0, 0)), None);
        assert_eq!(ring_blocks(shape(32768, 1, 0)), Some(32768));
        assert_eq!(ring_blocks(shape(32769, 1, 0)), None);
        assert_eq!(ring_blocks(shape(u32::MAX, 61, 0)), None);
    }
}
