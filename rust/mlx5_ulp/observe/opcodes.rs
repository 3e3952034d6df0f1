// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is counted by opcode, and what the mix of opcodes says.

use crate::wqe::opcode::Opcode;

/// How many opcodes are told apart.
pub const COUNT: usize = 10;

/// Opcodes that are told apart, the usual one first.
pub const OPCODES: [Opcode; COUNT] = [
    Opcode::RDMA_WRITE,
    Opcode::RDMA_WRITE_IMM,
    Opcode::RDMA_READ,
    Opcode::ATOMIC_CS,
    Opcode::ATOMIC_FA,
    Opcode::SEND,
    Opcode::SEND_IMM,
    Opcode::SEND_INVAL,
    Opcode::UMR,
    Opcode::NOP,
];

/// Share of atomics above which they are worth a warning, percent.
pub const MANY_ATOMICS: u64 = 10;

/// The place of an opcode in [`OPCODES`], [`COUNT`] for any other.
#[inline]
pub const fn place(opcode: Opcode) -> usize {
    match opcode {
        Opcode::RDMA_WRITE => 0,
        Opcode::RDMA_WRITE_IMM => 1,
        Opcode::RDMA_READ => 2,
        Opcode::ATOMIC_CS => 3,
        Opcode::ATOMIC_FA => 4,
        Opcode::SEND => 5,
        Opcode::SEND_IMM => 6,
        Opcode::SEND_INVAL => 7,
        Opcode::UMR => 8,
        Opcode::NOP => 9,
        _ => COUNT,
    }
}

/// What was posted, by place in [`OPCODES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix(pub [u64; COUNT]);

impl Mix {
    /// Each opcode, and how much was posted of it.
    pub fn iter(&self) -> impl Iterator<Item = (Opcode, u64)> + '_ {
        OPCODES.iter().copied().zip(self.0.iter().copied())
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.0.iter().copied().fold(0, u64::wrapping_add)
    }

    /// Those of them that are atomics.
    pub fn atomics(&self) -> u64 {
        let of_it = self.iter().filter(|(opcode, _)| opcode.is_atomic());
        of_it.fold(0, |sum, (_, count)| sum.wrapping_add(count))
    }

    /// Share of atomics in hundredths of a percent, rounded down.
    pub fn atomics_share(&self) -> u64 {
        let part = self.atomics().saturating_mul(10_000);
        part.checked_div(self.requests()).unwrap_or(0)
    }

    /// Whether more than [`MANY_ATOMICS`] percent are atomics.
    pub fn has_many_atomics(&self) -> bool {
        self.atomics().saturating_mul(100) > self.requests().saturating_mul(MANY_ATOMICS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opcode_has_its_place_and_others_have_none() {
        for (at, &opcode) in OPCODES.iter().enumerate() {
            assert_eq!(place(opcode), at);
        }
        let others = (0..=255).map(Opcode).filter(|op| !OPCODES.contains(op));
        assert!(others.map(place).all(|at| at == COUNT));
    }

    /// So many of each: WRITEs, compare-and-swaps, fetch-and-adds, NOPs.
    fn mix(writes: u64, swaps: u64, adds: u64, nops: u64) -> Mix {
        let mut mix = Mix::default();
        for (opcode, count) in [
            (Opcode::RDMA_WRITE, writes),
            (Opcode::ATOMIC_CS, swaps),
            (Opcode::ATOMIC_FA, adds),
            (Opcode::NOP, nops),
        ] {
            mix.0[place(opcode)] = count;
        }
        mix
    }

    #[test]
    fn more_than_a_tenth_of_atomics_are_many() {
        assert!(!mix(0, 0, 0, 0).has_many_atomics());
        assert!(!mix(80, 5, 5, 10).has_many_atomics());
        assert!(mix(79, 5, 6, 10).has_many_atomics());
        assert!(mix(0, 1, 0, 0).has_many_atomics());
    }

    #[test]
    fn the_share_of_atomics_is_in_hundredths_of_a_percent() {
        assert_eq!(mix(0, 0, 0, 0).atomics_share(), 0);
        assert_eq!(mix(2, 1, 0, 0).atomics_share(), 3333);
        assert_eq!(mix(0, 1, 1, 0).atomics_share(), 10_000);
        assert_eq!(mix(u64::MAX >> 8, 1, 0, 0).atomics_share(), 0);
    }
}
