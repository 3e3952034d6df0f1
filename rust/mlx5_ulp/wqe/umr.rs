// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Segments that change a memory key: fast registration and local invalidation
//! (`struct mlx5_wqe_umr_ctrl_seg`, `struct mlx5_mkey_seg`).

use super::be;

/// Bytes of the UMR control segment.
pub const CTRL_SIZE: usize = 48;

/// Bytes of the memory key segment.
pub const MKEY_SIZE: usize = 64;

/// Bits of `flags` of the UMR control segment.
pub mod flags {
    /// The translation entries follow in the WQE (`MLX5_UMR_INLINE`).
    pub const INLINE: u8 = 1 << 7;
    /// Fails when the key is free (`MLX5_UMR_CHECK_FREE`).
    pub const CHECK_FREE: u8 = 2 << 5;
    /// Fails when the key is not free (`MLX5_UMR_CHECK_NOT_FREE`).
    pub const CHECK_NOT_FREE: u8 = 1 << 5;
    /// `xlt_offset` says where in the translation table the entries go
    /// (`MLX5_UMR_TRANSLATION_OFFSET_EN`).
    pub const TRANSLATION_OFFSET: u8 = 1 << 4;
}

/// Bits of `mkey_mask`: which fields of the memory key segment are taken (`MLX5_MKEY_MASK_*`).
pub mod mask {
    /// Length.
    pub const LEN: u64 = 1 << 0;
    /// Page size.
    pub const PAGE_SIZE: u64 = 1 << 1;
    /// Start address.
    pub const START_ADDR: u64 = 1 << 6;
    /// Protection domain.
    pub const PD: u64 = 1 << 7;
    /// Remote invalidation allowed.
    pub const EN_RINVAL: u64 = 1 << 8;
    /// Variant byte of the key.
    pub const KEY: u64 = 1 << 13;
    /// QP number.
    pub const QPN: u64 = 1 << 14;
    /// Local read.
    pub const LR: u64 = 1 << 17;
    /// Local write.
    pub const LW: u64 = 1 << 18;
    /// Remote read.
    pub const RR: u64 = 1 << 19;
    /// Remote write.
    pub const RW: u64 = 1 << 20;
    /// Atomics.
    pub const A: u64 = 1 << 21;
    /// Small fence.
    pub const SMALL_FENCE: u64 = 1 << 23;
    /// Free state.
    pub const FREE: u64 = 1 << 29;
}

/// Bits of `flags` of the memory key segment: the rights.
pub mod access {
    /// Local read.
    pub const LOCAL_READ: u8 = 1 << 2;
    /// Local write.
    pub const LOCAL_WRITE: u8 = 1 << 3;
    /// Remote read.
    pub const REMOTE_READ: u8 = 1 << 4;
    /// Remote write.
    pub const REMOTE_WRITE: u8 = 1 << 5;
    /// Atomics.
    pub const ATOMIC: u8 = 1 << 6;
    /// Changes by UMR allowed.
    pub const UMR_EN: u8 = 1 << 7;
}

/// UMR control segment: what changes and how much translation follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmrCtrl {
    /// Bits of [`flags`].
    pub flags: u8,
    /// Length of the translation entries in units of 16 bytes.
    pub xlt_octowords: u16,
    /// Offset in the translation table in units of 16 bytes, low 16 bits.
    pub xlt_offset: u16,
    /// Bits of [`mask`].
    pub mkey_mask: u64,
    /// Bits 47:16 of the offset.
    pub xlt_offset_47_16: u32,
}

impl UmrCtrl {
    /// The bytes as they stand in the ring.
    pub fn encode(&self) -> [u8; CTRL_SIZE] {
        let mut b = [0; CTRL_SIZE];
        b[0] = self.flags;
        be::put16(&mut b, 4, self.xlt_octowords);
        be::put16(&mut b, 6, self.xlt_offset);
        be::put64(&mut b, 8, self.mkey_mask);
        be::put32(&mut b, 16, self.xlt_offset_47_16);
        b
    }

    /// Reads any 48 bytes. Reserved bytes are ignored.
    pub const fn decode(b: &[u8; CTRL_SIZE]) -> UmrCtrl {
        UmrCtrl {
            flags: b[0],
            xlt_octowords: be::get16(b, 4),
            xlt_offset: be::get16(b, 6),
            mkey_mask: be::get64(b, 8),
            xlt_offset_47_16: be::get32(b, 16),
        }
    }
}

/// Memory key segment: the new contents of the key's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mkey {
    /// Whether the key is free, that is, not usable (`MLX5_MKEY_STATUS_FREE`).
    pub free: bool,
    /// Rights, bits of [`access`].
    pub access: u8,
    /// Low two bits of the access mode: 0 PA, 1 MTT, 2 KLM, 3 KSM.
    pub mode: u8,
    /// QP that may use the key, 24 bits; all ones for any.
    pub qpn: u32,
    /// Variant byte of the key.
    pub variant: u8,
    /// Flags in bits 31:24 (`MLX5_MKEY_*`), protection domain in bits 23:0.
    pub flags_pd: u32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Room of the translation table in units of 16 bytes.
    pub xlt_oct_size: u32,
    /// Base 2 logarithm of the page size.
    pub log_page_size: u8,
}

impl Mkey {
    const FREE: u8 = 1 << 6;

    /// The bytes as they stand in the ring.
    pub fn encode(&self) -> [u8; MKEY_SIZE] {
        let mut b = [0; MKEY_SIZE];
        if self.free {
            b[0] = Self::FREE;
        }
        b[2] = self.access & 0xfc | self.mode & 3;
        be::put32(&mut b, 4, (self.qpn << 8) | u32::from(self.variant));
        be::put32(&mut b, 12, self.flags_pd);
        be::put64(&mut b, 16, self.start);
        be::put64(&mut b, 24, self.len);
        be::put32(&mut b, 52, self.xlt_oct_size);
        b[59] = self.log_page_size;
        b
    }

    /// Reads any 64 bytes. Reserved bytes are ignored.
    pub const fn decode(b: &[u8; MKEY_SIZE]) -> Mkey {
        Mkey {
            free: b[0] & Self::FREE != 0,
            access: b[2] & 0xfc,
            mode: b[2] & 3,
            qpn: be::get32(b, 4) >> 8,
            variant: b[7],
            flags_pd: be::get32(b, 12),
            start: be::get64(b, 16),
            len: be::get64(b, 24),
            xlt_oct_size: be::get32(b, 52),
            log_page_size: b[59],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn umr_ctrl_round_trip_and_places() {
        let seg = UmrCtrl {
            flags: flags::INLINE | flags::CHECK_NOT_FREE,
            xlt_octowords: 0x0102,
            xlt_offset: 0x0304,
            mkey_mask: mask::FREE | mask::LEN,
            xlt_offset_47_16: 0x0506_0708,
        };
        let b = seg.encode();
        assert_eq!(b[0], 0xa0);
        assert_eq!(b[4..8], [1, 2, 3, 4]);
        assert_eq!(b[8..16], [0, 0, 0, 0, 0x20, 0, 0, 1]);
        assert_eq!(b[16..20], [5, 6, 7, 8]);
        assert_eq!(UmrCtrl::decode(&b), seg);
    }

    #[test]
    fn mkey_round_trip_and_places() {
        let seg = Mkey {
            free: true,
            access: access::LOCAL_READ | access::REMOTE_WRITE,
            mode: 1,
            qpn: 0xff_ffff,
            variant: 0x42,
            flags_pd: 0x0100_0007,
            start: 0x1000,
            len: 0x2000,
            xlt_oct_size: 4,
            log_page_size: 12,
        };
        let b = seg.encode();
        assert_eq!(b[..8], [0x40, 0, 0x25, 0, 0xff, 0xff, 0xff, 0x42]);
        assert_eq!(b[52..60], [0, 0, 0, 4, 0, 0, 0, 12]);
        assert_eq!(Mkey::decode(&b), seg);
    }
}
