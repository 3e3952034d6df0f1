// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Atomic segments (`struct mlx5_wqe_atomic_seg`, `struct mlx5_wqe_masked_atomic_seg`).
//!
//! They stand between the remote address segment and the data segment that receives the old value. Only masked
//! compare-and-swap has four operands; masked fetch-and-add of 8 bytes has two, addend and field boundaries, and the
//! plain segment. So UCX writes them for mlx5 (`uct_rc_mlx5_txqp_dptr_post` in `src/uct/ib/mlx5/rc/rc_mlx5.inl`,
//! `uct_ib_mlx5_atomic_masked_fadd64_seg` in `src/uct/ib/mlx5/ib_mlx5.h` of github.com/openucx/ucx), and the kernel for
//! mlx4 (`set_atomic_seg`, `set_masked_atomic_seg` in `drivers/infiniband/hw/mlx4/qp.c`). The kernel's mlx5_ib does not
//! post masked ones.

use super::be;

/// Bytes of the plain segment.
pub const SIZE: usize = 16;

/// Bytes of the masked segment.
pub const MASKED_SIZE: usize = 32;

/// `opmod` of the control segment of a masked atomic of 8 bytes: extended, and the logarithm of the size less 2
/// (`UCT_IB_MLX5_OPMOD_EXT_ATOMIC` in `src/uct/ib/mlx5/ib_mlx5.h` of UCX).
pub const OPMOD_MASKED_8_BYTES: u8 = 8 | (3 - 2);

/// Whether a device carries out the two atomics of verbs, of 8 bytes, as this module's interface describes them: numbers
/// in the order of the CPU. From `atomic_operations`, `atomic_size_qp` and `atomic_req_8B_endianness_mode` of its
/// capabilities, as `get_atomic_caps()` in `drivers/infiniband/hw/mlx5/main.c` judges them. A device that knows no such
/// order, or was not asked for it, takes what is in memory for big-endian.
pub const fn has_standard(operations: u32, sizes: u32, order: u32) -> bool {
    /// `MLX5_ATOMIC_OPS_CMP_SWAP` and `MLX5_ATOMIC_OPS_FETCH_ADD` of `<linux/mlx5/driver.h>`.
    const BOTH: u32 = 1 << 0 | 1 << 1;
    /// `MLX5_ATOMIC_SIZE_QP_8BYTES` of `drivers/infiniband/hw/mlx5/mlx5_ib.h`.
    const OF_8_BYTES: u32 = 1 << 3;
    operations & BOTH == BOTH && sizes & OF_8_BYTES != 0 && order != 0
}

/// Operands of compare-and-swap, fetch-and-add and masked fetch-and-add, numbers in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// New value of compare-and-swap, addend of fetch-and-add.
    pub swap_add: u64,
    /// Expected value of compare-and-swap; unused (0) by fetch-and-add. Masked fetch-and-add: the top bit of each
    /// field, over which no carry passes.
    pub compare: u64,
}

impl Atomic {
    /// The bytes as they stand in the ring.
    #[inline(always)]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        be::put64(&mut b, 0, self.swap_add);
        be::put64(&mut b, 8, self.compare);
        b
    }

    /// Reads any 16 bytes.
    #[inline(always)]
    pub const fn decode(b: &[u8; SIZE]) -> Atomic {
        Atomic {
            swap_add: be::get64(b, 0),
            compare: be::get64(b, 8),
        }
    }
}

/// Operands of masked compare-and-swap, numbers in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedAtomic {
    /// New value.
    pub swap_add: u64,
    /// Expected value.
    pub compare: u64,
    /// Bits that are replaced.
    pub swap_add_mask: u64,
    /// Bits that are compared.
    pub compare_mask: u64,
}

impl MaskedAtomic {
    /// The bytes as they stand in the ring.
    #[inline(always)]
    pub fn encode(&self) -> [u8; MASKED_SIZE] {
        let mut b = [0; MASKED_SIZE];
        be::put64(&mut b, 0, self.swap_add);
        be::put64(&mut b, 8, self.compare);
        be::put64(&mut b, 16, self.swap_add_mask);
        be::put64(&mut b, 24, self.compare_mask);
        b
    }

    /// Reads any 32 bytes.
    #[inline(always)]
    pub const fn decode(b: &[u8; MASKED_SIZE]) -> MaskedAtomic {
        MaskedAtomic {
            swap_add: be::get64(b, 0),
            compare: be::get64(b, 8),
            swap_add_mask: be::get64(b, 16),
            compare_mask: be::get64(b, 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_atomics_need_both_operations_the_size_and_the_order() {
        assert!(has_standard(3, 8, 1));
        assert!(has_standard(0xf, 0x38, 1));
        assert!(!has_standard(1, 8, 1));
        assert!(!has_standard(2, 8, 1));
        assert!(!has_standard(3, 0x30, 1));
        assert!(!has_standard(3, 8, 0));
    }

    #[test]
    fn bytes_are_where_the_kernel_puts_them() {
        let seg = Atomic {
            swap_add: 1,
            compare: 2,
        };
        assert_eq!(
            seg.encode(),
            [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
        );
        assert_eq!(Atomic::decode(&seg.encode()), seg);

        let seg = MaskedAtomic {
            swap_add: 1,
            compare: 2,
            swap_add_mask: 3,
            compare_mask: 4,
        };
        for (i, quad) in seg.encode().chunks(8).enumerate() {
            assert_eq!(quad, (i as u64 + 1).to_be_bytes());
        }
        assert_eq!(MaskedAtomic::decode(&seg.encode()), seg);
    }
}
