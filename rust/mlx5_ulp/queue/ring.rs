// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Slot arithmetic of a send queue.
//!
//! The send queue is a ring of a power of two of 64-byte basic blocks. Software counts blocks with a
//! free-running 32-bit counter; the HCA sees its low 16 bits, in the control segment, in the doorbell
//! record and in completions. A WQE may need several blocks and continues at the start of the ring when
//! it meets the end.

use super::wqe::{BB, DS, DS_PER_BB};

/// Largest ring, base 2 logarithm of its blocks.
///
/// With at most 2^15 of the 2^16 values of the hardware's counter in flight, an old counter can be told
/// from a new one.
pub const MAX_LOG_BLOCKS: u8 = 15;

/// The shape of one ring.
///
/// # Invariants
///
/// `mask + 1` is a power of two and at most `1 << MAX_LOG_BLOCKS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    mask: u32,
}

impl Ring {
    /// A ring of `1 << log_blocks` basic blocks; `None` above [`MAX_LOG_BLOCKS`].
    pub const fn new(log_blocks: u8) -> Option<Ring> {
        if log_blocks > MAX_LOG_BLOCKS {
            return None;
        }
        Some(Ring {
            mask: (1 << log_blocks) - 1,
        })
    }

    /// The smallest ring that holds `blocks` blocks; `None` for 0 and above the largest.
    pub const fn at_least(blocks: u32) -> Option<Ring> {
        if blocks == 0 || blocks > 1 << MAX_LOG_BLOCKS {
            return None;
        }
        Ring::new(blocks.next_power_of_two().trailing_zeros() as u8)
    }

    /// Number of basic blocks.
    #[inline(always)]
    pub const fn blocks(self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Base 2 logarithm of the number of basic blocks.
    pub const fn log_blocks(self) -> u8 {
        self.blocks().trailing_zeros() as u8
    }

    /// Length in bytes.
    pub const fn bytes(self) -> usize {
        self.blocks() as usize * BB
    }

    /// The slot of the block with this counter, below [`Ring::blocks`].
    #[inline(always)]
    pub const fn slot(self, counter: u32) -> usize {
        (counter & self.mask) as usize
    }

    /// Byte offset of the block with this counter, a multiple of 64 below [`Ring::bytes`].
    #[inline(always)]
    pub const fn block_offset(self, counter: u32) -> usize {
        self.slot(counter) * BB
    }

    /// Byte offset of 16-byte segment `segment` of the WQE that starts at block `counter`, a multiple
    /// of 16 below [`Ring::bytes`]. Past the end of the ring it goes on at its start.
    #[inline(always)]
    pub const fn segment_offset(self, counter: u32, segment: u32) -> usize {
        let per_block = DS_PER_BB as u32;
        let unit = counter.wrapping_mul(per_block).wrapping_add(segment);
        let last = self
            .mask
            .wrapping_mul(per_block)
            .wrapping_add(per_block - 1);
        (unit & last) as usize * DS
    }
}

/// What the HCA is told of a free-running counter: its low 16 bits.
#[inline(always)]
pub const fn hardware(counter: u32) -> u16 {
    counter as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert!(Ring::new(16).is_none());
        assert!(Ring::at_least(0).is_none());
        assert!(Ring::at_least(32769).is_none());
        assert_eq!(Ring::at_least(32768).map(Ring::log_blocks), Some(15));
        assert_eq!(Ring::at_least(1).map(Ring::blocks), Some(1));
        assert_eq!(Ring::at_least(5).map(Ring::bytes), Some(512));
    }

    #[test]
    fn a_wqe_continues_at_the_start() {
        let ring = Ring::new(2).unwrap();
        // Blocks 3, 0, 1 of the ring, also where the 32-bit counter itself wraps.
        for start in [3, 7, u32::MAX] {
            let offsets: Vec<_> = (0..12).map(|s| ring.segment_offset(start, s)).collect();
            let want: Vec<_> = (0..12).map(|s| (3 * 64 + s * 16) % 256).collect();
            assert_eq!(offsets, want);
        }
    }

    #[test]
    fn segment_zero_is_the_block() {
        let ring = Ring::new(15).unwrap();
        for counter in [0, 1, 32767, 32768, 65535, 65536, u32::MAX] {
            assert_eq!(ring.segment_offset(counter, 0), ring.block_offset(counter));
            assert!(ring.block_offset(counter) < ring.bytes());
        }
    }
}
