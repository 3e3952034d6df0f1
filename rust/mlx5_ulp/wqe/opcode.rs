// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Opcodes of send WQEs (`MLX5_OPCODE_*` of `include/linux/mlx5/device.h`).

/// Opcode of a send WQE: any byte, with names for those that exist.
///
/// Not an enum: the byte may come from a ring that somebody else filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Opcode = Opcode($value);)*

            /// All opcodes that have a name.
            pub const KNOWN: &'static [Opcode] = &[$(Opcode::$name),*];

            /// The name by which verbs and the PRM know this opcode.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// Does nothing, completes.
    NOP = 0x00, "NOP";
    /// SEND that invalidates a key of the receiver.
    SEND_INVAL = 0x01, "SEND_INVAL";
    /// RDMA WRITE.
    RDMA_WRITE = 0x08, "RDMA_WRITE";
    /// RDMA WRITE that consumes a receive and hands over 32 bits.
    RDMA_WRITE_IMM = 0x09, "RDMA_WRITE_IMM";
    /// SEND.
    SEND = 0x0a, "SEND";
    /// SEND with 32 bits of immediate data.
    SEND_IMM = 0x0b, "SEND_IMM";
    /// Large send offload (Ethernet).
    LSO = 0x0e, "LSO";
    /// RDMA READ.
    RDMA_READ = 0x10, "RDMA_READ";
    /// Atomic compare and swap of 8 bytes.
    ATOMIC_CS = 0x11, "ATOMIC_CS";
    /// Atomic fetch and add of 8 bytes.
    ATOMIC_FA = 0x12, "ATOMIC_FA";
    /// Compare and swap under masks.
    ATOMIC_MASKED_CS = 0x14, "ATOMIC_MASKED_CS";
    /// Fetch and add with a mask of field boundaries.
    ATOMIC_MASKED_FA = 0x15, "ATOMIC_MASKED_FA";
    /// Binds a memory window.
    BIND_MW = 0x18, "BIND_MW";
    /// Sets protection state variables (signature).
    SET_PSV = 0x20, "SET_PSV";
    /// User-mode memory registration: changes a memory key.
    UMR = 0x25, "UMR";
    /// Enhanced multi-packet send (Ethernet).
    ENHANCED_MPSW = 0x29, "ENHANCED_MPSW";
}

impl Opcode {
    /// Whether a remote address segment follows the control segment.
    pub const fn has_remote_address(self) -> bool {
        matches!(
            self,
            Opcode::RDMA_WRITE
                | Opcode::RDMA_WRITE_IMM
                | Opcode::RDMA_READ
                | Opcode::ATOMIC_CS
                | Opcode::ATOMIC_FA
                | Opcode::ATOMIC_MASKED_CS
                | Opcode::ATOMIC_MASKED_FA
        )
    }

    /// Whether this is one of the atomic operations.
    pub const fn is_atomic(self) -> bool {
        matches!(
            self,
            Opcode::ATOMIC_CS
                | Opcode::ATOMIC_FA
                | Opcode::ATOMIC_MASKED_CS
                | Opcode::ATOMIC_MASKED_FA
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_have_names_and_others_do_not() {
        for op in Opcode::KNOWN {
            assert!(op.name().is_some());
        }
        let named = (0..=255).filter(|&b| Opcode(b).name().is_some()).count();
        assert_eq!(named, Opcode::KNOWN.len());
    }

    #[test]
    fn atomics_have_a_remote_address() {
        for op in Opcode::KNOWN {
            assert!(!op.is_atomic() || op.has_remote_address());
        }
    }
}
