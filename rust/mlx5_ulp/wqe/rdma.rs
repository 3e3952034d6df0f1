// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Remote address segment of WRITE, READ and atomics (`struct mlx5_wqe_raddr_seg`).

use super::be;

/// Bytes of the segment.
pub const SIZE: usize = 16;

/// Where the operation happens at the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Address in the responder's key.
    pub addr: u64,
    /// The responder's key.
    pub rkey: u32,
}

impl RemoteAddr {
    /// The bytes as they stand in the ring; the last four are reserved and zero.
    #[inline(always)]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        be::put64(&mut b, 0, self.addr);
        // One store, reserved bytes included.
        be::put64(&mut b, 8, u64::from(self.rkey) << 32);
        b
    }

    /// Reads any 16 bytes. Reserved bytes are ignored.
    #[inline(always)]
    pub const fn decode(b: &[u8; SIZE]) -> RemoteAddr {
        RemoteAddr {
            addr: be::get64(b, 0),
            rkey: be::get32(b, 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_the_kernel_puts_them() {
        let seg = RemoteAddr {
            addr: 0x0102_0304_0506_0708,
            rkey: 0x090a_0b0c,
        };
        let want = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0];
        assert_eq!(seg.encode(), want);
        assert_eq!(RemoteAddr::decode(&want), seg);
    }
}
