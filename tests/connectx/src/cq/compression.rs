// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compressed completions (`cqc.cqe_comp_en`, basic layout).
//!
//! Successes of one queue that differ in little are kept back for a moment and written as a block: a title entry, which
//! is the first of them with their number in place of the byte count, and eight bytes for each of them
//! (`struct mlx5_mini_cqe8`), eight to an entry. `n` completions take `n` entries of the ring, most of which stay
//! unwritten. The consumer's side of it is `mlx5e_decompress_cqes_start` and `_cont`
//! (`drivers/net/ethernet/mellanox/mlx5/core/en_rx.c`), which says where the arrays stand.

use crate::cqfmt::compressed::{FORMAT, MINIS};
use crate::cqfmt::cqe::{Opcode, Tail, SIZE};

/// Offsets in an entry (`struct mlx5_cqe64`).
const RSS_HASH: usize = 0x0c;
const RSS_HASH_TYPE: usize = 0x10;
const CHECK_SUM: usize = 0x14;
const SLID: usize = 0x16;
const SRQN: usize = 0x20;
const RESERVED_40: usize = 0x28;
const BYTE_COUNT: usize = 0x2c;

/// Bytes of a mini entry.
const MINI: usize = 8;

/// What the first half of a responder's mini entry holds (`cqc.mini_cqe_res_format`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MiniFormat {
    /// The RSS hash.
    Hash,
    /// The checksum; hashes are lost.
    Checksum,
}

impl MiniFormat {
    /// From the field of the context; `None` for a format that this device does not have.
    pub fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(MiniFormat::Hash),
            1 => Some(MiniFormat::Checksum),
            _ => None,
        }
    }
}

/// A block in the making.
#[derive(Debug)]
pub struct Session {
    title: [u8; SIZE],
    minis: Vec<[u8; MINI]>,
    /// When the block is written at the latest, in nanoseconds.
    pub ends: u64,
}

fn tail(entry: &[u8; SIZE]) -> Tail {
    entry
        .last_chunk()
        .map_or(Tail::decode(&[0; 8]), Tail::decode)
}

/// Can an entry be part of a block? Failures cannot, nor those that somebody waits for.
fn compressible(tail: &Tail) -> bool {
    let success = matches!(
        tail.opcode(),
        Opcode::REQ
            | Opcode::RESP_WRITE_IMM
            | Opcode::RESP_SEND
            | Opcode::RESP_SEND_IMM
            | Opcode::RESP_SEND_INV
    );
    success && !tail.solicited() && tail.format() == 0
}

/// Copies `len` bytes at `from` to `at`.
fn copy(out: &mut [u8; MINI], at: usize, entry: &[u8; SIZE], from: usize, len: usize) {
    for (to, from) in out
        .iter_mut()
        .skip(at)
        .zip(entry.iter().skip(from).take(len))
    {
        *to = *from;
    }
}

/// What an entry has for itself.
fn mini(entry: &[u8; SIZE], tail: &Tail, format: MiniFormat) -> [u8; MINI] {
    let mut out = [0; MINI];
    copy(&mut out, 4, entry, BYTE_COUNT, 4);
    match (tail.opcode(), format) {
        (Opcode::REQ, _) => {
            let [hi, lo] = tail.wqe_counter.to_be_bytes();
            (out[0], out[1], out[2]) = (hi, lo, tail.wqe_opcode);
        }
        (_, MiniFormat::Hash) => copy(&mut out, 0, entry, RSS_HASH, 4),
        (_, MiniFormat::Checksum) => copy(&mut out, 0, entry, CHECK_SUM, 2),
    }
    out
}

impl Session {
    /// Starts a block with an entry at the time `now`; `None` if the entry cannot be in one.
    pub fn start(entry: &[u8; SIZE], format: MiniFormat, ends: u64) -> Option<Self> {
        let tail = tail(entry);
        compressible(&tail).then(|| Session {
            title: *entry,
            minis: vec![mini(entry, &tail, format)],
            ends,
        })
    }

    /// Completions of the block, at least 1.
    pub fn len(&self) -> u32 {
        // Bounded by the limit of the device.
        self.minis.len() as u32
    }

    /// Takes one more entry, if all that the title says holds for it, too.
    pub fn add(&mut self, entry: &[u8; SIZE], format: MiniFormat) -> bool {
        let (first, next) = (tail(&self.title), tail(entry));
        if !compressible(&next) || first.opcode() != next.opcode() || first.qpn != next.qpn {
            return false;
        }
        let same = |from: usize, to: usize| entry.get(from..to) == self.title.get(from..to);
        let fits = if next.opcode() == Opcode::REQ {
            same(SRQN, SRQN + 4)
        } else {
            // The consumer counts up from the title.
            let counter = first.wqe_counter.wrapping_add(self.minis.len() as u16);
            let carried = match format {
                MiniFormat::Hash => {
                    same(RSS_HASH_TYPE, RSS_HASH_TYPE + 2) && same(CHECK_SUM, CHECK_SUM + 2)
                }
                MiniFormat::Checksum => true,
            };
            next.wqe_counter == counter && carried && same(SLID, RESERVED_40)
        };
        if fits {
            self.minis.push(mini(entry, &next, format));
        }
        fits
    }

    /// The entry itself, if there is but one.
    pub fn single(&self) -> Option<&[u8; SIZE]> {
        (self.minis.len() == 1).then_some(&self.title)
    }

    /// The entries to write, in this order: offset from the block's start, and the bytes. The owner bit of the title,
    /// which comes last, is left to who writes it. `blank` makes the unused rest of an array.
    pub fn entries(&self, mut blank: impl FnMut() -> [u8; SIZE]) -> Vec<(u32, [u8; SIZE])> {
        let mut out = Vec::with_capacity(self.minis.len() / MINIS + 2);
        for (i, minis) in self.minis.chunks(MINIS).enumerate() {
            let mut array = blank();
            for (to, mini) in array.chunks_exact_mut(MINI).zip(minis) {
                to.copy_from_slice(mini);
            }
            // The first array stands behind the title, the others at multiples of eight from it.
            let at = if i == 0 { 1 } else { i * MINIS };
            out.push((at as u32, array));
        }
        let mut title = self.title;
        if let Some(field) = title.get_mut(BYTE_COUNT..BYTE_COUNT + 4) {
            field.copy_from_slice(&self.len().to_be_bytes());
        }
        if let Some(op_own) = title.last_mut() {
            *op_own = (*op_own & 0xf0) | (FORMAT << 2);
        }
        out.push((0, title));
        out
    }
}
