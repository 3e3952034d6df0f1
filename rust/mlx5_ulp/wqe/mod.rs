// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Work queue elements: what the HCA reads from a send queue.
//!
//! A WQE is a control segment followed by segments that the opcode asks for, all in units of 16 bytes
//! ([`DS`]). It starts on a 64-byte basic block ([`BB`]) and occupies whole blocks; its index in the ring
//! counts blocks. Each file holds the layout of one segment, to encode and to decode: the module encodes,
//! the software ConnectX decodes the same bytes with the same code.
//!
//! Decoding is total: any bytes give a value or an error, never a panic.
//!
//! Layouts: `include/linux/mlx5/qp.h` of the kernel; PRM, "Send WQE Construction".

use super::be;

pub mod atomic;
pub mod av;
pub mod ctrl;
pub mod data;
pub mod merge;
pub mod opcode;
pub mod rdma;
pub mod umr;

/// Bytes of a data segment unit, in which the control segment counts (`MLX5_SEND_WQE_DS`).
pub const DS: usize = 16;

/// Bytes of a basic block (`MLX5_SEND_WQE_BB`).
pub const BB: usize = 64;

/// Words of 8 bytes in a basic block: what CPUs write to a register at a time.
pub const BLOCK_WORDS: usize = BB / 8;

/// Segment units in a basic block (`MLX5_SEND_WQEBB_NUM_DS`).
pub const DS_PER_BB: usize = BB / DS;

/// Largest number of basic blocks of one WQE (`MLX5_SEND_WQE_MAX_WQEBBS`).
pub const MAX_BBS: usize = 16;

/// Largest number of segment units of one WQE: the field `ds` has six bits.
pub const MAX_DS: usize = 63;

/// Number of basic blocks that `ds` segment units occupy.
#[inline(always)]
pub const fn blocks(ds: u8) -> u16 {
    (ds as u16).div_ceil(DS_PER_BB as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_round_up() {
        assert_eq!(blocks(1), 1);
        assert_eq!(blocks(4), 1);
        assert_eq!(blocks(5), 2);
        assert_eq!(blocks(63), 16);
        assert_eq!(blocks(0), 0);
    }
}
