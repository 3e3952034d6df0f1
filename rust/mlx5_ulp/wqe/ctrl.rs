// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Control segment: the first 16 bytes of every send WQE (`struct mlx5_wqe_ctrl_seg`).

use super::be;
use super::opcode::Opcode;

/// Bytes of the control segment.
pub const SIZE: usize = 16;

/// The first eight bytes of the control segment. The same bytes, written to the doorbell register, ring
/// the doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Modifier of the opcode; 0 for all RDMA operations.
    pub opmod: u8,
    /// Index of the WQE's first basic block, the 16-bit producer counter before it was posted.
    pub index: u16,
    /// What to do.
    pub opcode: Opcode,
    /// Number of the QP, 24 bits.
    pub qpn: u32,
    /// Length of the WQE in units of 16 bytes, 6 bits.
    pub ds: u8,
}

impl Head {
    /// The bytes as they stand in memory and in the doorbell register.
    #[inline(always)]
    pub fn encode(&self) -> [u8; 8] {
        let mut b = [0; 8];
        let word0 =
            (u32::from(self.opmod) << 24) | (u32::from(self.index) << 8) | u32::from(self.opcode.0);
        let word1 = (self.qpn << 8) | u32::from(self.ds & 0x3f);
        be::put32(&mut b, 0, word0);
        be::put32(&mut b, 4, word1);
        b
    }

    /// Reads any eight bytes; the two bits between `qpn` and `ds` are ignored, as the HCA does.
    #[inline(always)]
    pub const fn decode(b: &[u8; 8]) -> Head {
        Head {
            opmod: b[0],
            index: be::get16(b, 1),
            opcode: Opcode(b[3]),
            qpn: be::get32(b, 4) >> 8,
            ds: b[7] & 0x3f,
        }
    }
}

/// All of a [`Head`] but its index, to make many of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadTemplate(u64);

impl HeadTemplate {
    /// From a head, whose index does not matter.
    pub fn new(head: &Head) -> HeadTemplate {
        HeadTemplate(u64::from_be_bytes(Head { index: 0, ..*head }.encode()))
    }

    /// The bytes of the head with this index.
    #[inline(always)]
    pub const fn at(self, index: u16) -> [u8; 8] {
        self.number(index).to_be_bytes()
    }

    /// The head with this index as a number: what [`u64::to_be_bytes`] gives is [`HeadTemplate::at`].
    #[inline(always)]
    pub const fn number(self, index: u16) -> u64 {
        (index as u64) << 40 | self.0
    }

    /// The number of the head one index further, which must not be 0.
    #[inline(always)]
    pub const fn next(number: u64) -> u64 {
        number.wrapping_add(1 << 40)
    }
}

/// When a WQE yields a completion entry (`fm_ce_se`, bits 3:2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Signal {
    /// Only when it fails.
    OnError = 0,
    /// Only when it is the first that fails (PRM; the kernel has no name for it).
    OnFirstError = 1,
    /// Always.
    Always = 2,
    /// Always, and the entry counts as solicited, so that it raises an event on a CQ armed for such.
    AlwaysWithEvent = 3,
}

/// What must have finished before a WQE starts (`fm_ce_se`, bits 7:5; `MLX5_FENCE_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
// The hardware's names.
#[allow(clippy::enum_variant_names)]
pub enum Fence {
    /// Nothing.
    None = 0,
    /// Earlier local invalidations and registrations.
    InitiatorSmall = 1,
    /// Earlier READs and atomics: the fence of verbs (`MLX5_FENCE_MODE_FENCE`).
    Fence = 2,
    /// All earlier operations.
    StrongOrdering = 3,
    /// Both `InitiatorSmall` and `Fence`.
    SmallAndFence = 4,
}

/// The byte `fm_ce_se`: fence mode, completion, solicited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// Puts the three parts together.
    #[inline(always)]
    pub const fn new(fence: Fence, signal: Signal, solicited: bool) -> Flags {
        Flags(((fence as u8) << 5) | ((signal as u8) << 2) | ((solicited as u8) << 1))
    }

    /// When the WQE yields a completion entry.
    #[inline(always)]
    pub const fn signal(self) -> Signal {
        match (self.0 >> 2) & 3 {
            0 => Signal::OnError,
            1 => Signal::OnFirstError,
            2 => Signal::Always,
            _ => Signal::AlwaysWithEvent,
        }
    }

    /// The fence; `None` for the three values that mean nothing.
    #[inline(always)]
    pub const fn fence(self) -> Option<Fence> {
        Some(match self.0 >> 5 {
            0 => Fence::None,
            1 => Fence::InitiatorSmall,
            2 => Fence::Fence,
            3 => Fence::StrongOrdering,
            4 => Fence::SmallAndFence,
            _ => return None,
        })
    }

    /// Whether the receiver's completion is to be solicited.
    #[inline(always)]
    pub const fn solicited(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether success yields a completion entry.
    #[inline(always)]
    pub const fn signaled(self) -> bool {
        self.0 & 8 != 0
    }
}

/// The whole control segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctrl {
    /// The part that also rings the doorbell.
    pub head: Head,
    /// Checksum of the WQE for QPs created with signatures; 0 otherwise.
    pub signature: u8,
    /// Fence, completion and solicited bits.
    pub flags: Flags,
    /// Immediate data, key to invalidate or number of the key to change, as the opcode says. A number in
    /// host order; on the wire and in memory it is big-endian.
    pub imm: u32,
}

impl Ctrl {
    /// The bytes as they stand in the ring.
    #[inline(always)]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        b[..8].copy_from_slice(&self.head.encode());
        // One word, with the two reserved bytes in the middle.
        let flags = (u32::from(self.signature) << 24) | u32::from(self.flags.0);
        be::put64(&mut b, 8, (u64::from(flags) << 32) | u64::from(self.imm));
        b
    }

    /// The bytes of a segment that begins with `head` and has neither signature nor immediate data.
    #[inline(always)]
    pub fn with_head(head: [u8; 8], flags: Flags) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        b[..8].copy_from_slice(&head);
        be::put64(&mut b, 8, u64::from(flags.0) << 32);
        b
    }

    /// Reads any 16 bytes. Reserved bytes are ignored.
    #[inline(always)]
    pub const fn decode(b: &[u8; SIZE]) -> Ctrl {
        Ctrl {
            head: Head::decode(&[b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            signature: b[8],
            flags: Flags(b[11]),
            imm: be::get32(b, 12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CTRL: Ctrl = Ctrl {
        head: Head {
            opmod: 0x12,
            index: 0x3456,
            opcode: Opcode::RDMA_WRITE_IMM,
            qpn: 0xab_cdef,
            ds: 3,
        },
        signature: 0x77,
        flags: Flags::new(Fence::Fence, Signal::Always, true),
        imm: 0x8899_aabb,
    };

    #[test]
    fn bytes_are_where_the_kernel_puts_them() {
        // mlx5_wqe_ctrl_seg: opmod_idx_opcode, qpn_ds, signature, rsvd[2], fm_ce_se, imm
        let want = [
            0x12, 0x34, 0x56, 0x09, 0xab, 0xcd, 0xef, 0x03, 0x77, 0, 0, 0x4a, 0x88, 0x99, 0xaa,
            0xbb,
        ];
        assert_eq!(CTRL.encode(), want);
        assert_eq!(Ctrl::decode(&want), CTRL);
    }

    #[test]
    fn a_template_makes_heads() {
        let template = HeadTemplate::new(&CTRL.head);
        for index in [0, 0x3456, 0xffff] {
            let head = Head { index, ..CTRL.head };
            assert_eq!(template.at(index), head.encode());
            if index != 0xffff {
                let next = HeadTemplate::next(template.number(index));
                assert_eq!(next, template.number(index + 1));
            }
            let ctrl = Ctrl {
                head,
                signature: 0,
                imm: 0,
                ..CTRL
            };
            assert_eq!(
                Ctrl::with_head(template.at(index), CTRL.flags),
                ctrl.encode()
            );
        }
    }

    #[test]
    fn every_flag_byte_decodes() {
        for b in 0..=255u8 {
            let f = Flags(b);
            if let Some(fence) = f.fence() {
                let again = Flags::new(fence, f.signal(), f.solicited());
                assert_eq!(again.0, b & 0xee);
            }
            assert_eq!(
                f.signaled(),
                matches!(f.signal(), Signal::Always | Signal::AlwaysWithEvent)
            );
        }
    }

    #[test]
    fn length_does_not_leak_into_the_queue_number() {
        let head = Head {
            ds: 0xff,
            ..CTRL.head
        };
        assert_eq!(Head::decode(&head.encode()).ds, 0x3f);
        assert_eq!(Head::decode(&head.encode()).qpn, 0xab_cdef);
    }
}
