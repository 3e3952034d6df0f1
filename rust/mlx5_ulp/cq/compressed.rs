// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Compressed completions (`cqe_comp_en` of a CQ, basic layout).
//!
//! The HCA may report several successes of one QP as a block: a title entry that is like the first of
//! them, and eight bytes ([`Mini`]) for each of them, the first included. `n` successes take the place of
//! `n` entries of the queue, but most of these places stay unwritten:
//!
//! | counter | contents |
//! |---|---|
//! | `c` | title: format 3, number of completions in the field of the byte count |
//! | `c + 1` | minis 0 to 7 |
//! | `c + 8` | minis 8 to 15, if there are so many |
//! | `c + 16`, ... | and so on |
//! | the others up to `c + n - 1` | whatever was there before |
//!
//! The HCA writes the title last. Failures are never compressed: one ends the block before it, and
//! stands behind it as a full entry.
//!
//! # Ownership
//!
//! A place that the HCA did not write still has the owner bit of the round before, which is the one that
//! the next round will look for; and the last byte of a place with minis is part of a byte count. So the
//! consumer stores [`released_op_own`] to the last byte of **each** place of a block when it has taken
//! its completion, before it moves the consumer counter of the doorbell record past it (and a write
//! barrier between). Places are released one by one in order; [`Block`] has read what it needs of a
//! place by then.
//!
//! Formats: `struct mlx5_mini_cqe8` in `include/linux/mlx5/device.h`; places:
//! `mlx5e_decompress_cqes_start` and `_cont` in `drivers/net/ethernet/mellanox/mlx5/core/en_rx.c`.

use super::be;
use super::cqe::{owner, Cqe, Opcode, Success, Tail, SIZE};

/// Minis in one place of the queue (`MLX5_MINI_CQE_ARRAY_SIZE`).
pub const MINIS: usize = 8;

/// The format of a title (`MLX5_COMPRESSED`).
pub const FORMAT: u8 = 3;

/// Whether the entry with this last byte starts a block. It has to be ready
/// ([`super::cqe::ready`]), and [`Block::open`] has the last word.
#[inline(always)]
pub const fn is_title(op_own: u8) -> bool {
    op_own >> 2 & 3 == FORMAT
}

/// What to store to the last byte of a place at counter `ci` that was taken: not valid, whatever round
/// somebody looks for.
#[inline(always)]
pub const fn released_op_own(ci: u32, log_size: u8) -> u8 {
    Opcode::INVALID.0 << 4 | owner(ci, log_size) as u8
}

/// The counter of the place with the minis of completion `index` of the block at `start`.
#[inline]
const fn minis_at(start: u32, index: u32) -> u32 {
    let array = index & !(MINIS as u32 - 1);
    if array == 0 {
        return start.wrapping_add(1);
    }
    start.wrapping_add(array)
}

/// What is different in each completion of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mini {
    /// Requester: index of the WQE. Not there for responders, which count up from the title.
    pub wqe_counter: u16,
    /// Requester: opcode of the WQE.
    pub wqe_opcode: u8,
    /// Bytes received, or read by a READ.
    pub byte_cnt: u32,
}

impl Mini {
    /// The form of a requester (`s_wqe_info`).
    pub fn encode_requester(&self) -> [u8; 8] {
        let mut b = [0; 8];
        be::put16(&mut b, 0, self.wqe_counter);
        b[2] = self.wqe_opcode;
        be::put32(&mut b, 4, self.byte_cnt);
        b
    }

    /// The form of a responder, with the hash or checksum left zero.
    pub fn encode_responder(&self) -> [u8; 8] {
        let mut b = [0; 8];
        be::put32(&mut b, 4, self.byte_cnt);
        b
    }

    /// Reads one as a number in host order.
    #[inline]
    pub const fn decode(word: u64) -> Mini {
        Mini {
            wqe_counter: (word >> 48) as u16,
            wqe_opcode: (word >> 40) as u8,
            byte_cnt: word as u32,
        }
    }
}

/// A title for `count` completions that start with `first`, as the HCA writes it.
pub fn encode_title(first: &Success, count: u32) -> [u8; SIZE] {
    let mut title = *first;
    title.byte_cnt = count;
    title.tail.op_own |= FORMAT << 2;
    title.encode()
}

/// Why an entry of format 3 starts no block. The queue cannot be followed any further: nobody knows how
/// many places the HCA means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The format is another.
    Format(u8),
    /// Only successes of requesters and responders are compressed.
    Kind(Opcode),
    /// Less than 2, more than the HCA's limit, or more than the queue has places.
    Count(u32),
}

impl Malformed {
    /// What is wrong, and the value that is.
    pub const fn reason(self) -> (&'static str, u32) {
        match self {
            Malformed::Format(n) => ("format of a title", n as u32),
            Malformed::Kind(opcode) => ("kind of a compressed entry", opcode.0 as u32),
            Malformed::Count(n) => ("completions of a compressed block", n),
        }
    }
}

/// A block that is being taken. It may be put aside between two completions and taken up again: nothing
/// of it is lost when a poll runs out of budget.
///
/// # Invariants
///
/// `done <= count`; if `done` is not a multiple of [`MINIS`], `minis` is the place that
/// `minis_at(start, done)` says.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    title: Success,
    start: u32,
    count: u32,
    done: u32,
    minis: [u64; MINIS],
}

impl Block {
    /// Starts with the title at counter `ci` of a queue with `1 << log_size` entries. `max` is the most
    /// completions of a block (`cqe_compression_max_num` of the HCA).
    ///
    /// # Errors
    ///
    /// Bytes that are no title. Any bytes are safe to pass.
    pub fn open(title: &[u8; SIZE], ci: u32, log_size: u8, max: u32) -> Result<Block, Malformed> {
        let title = match Cqe::decode(title) {
            Cqe::Success(success) => success,
            Cqe::Failure(failure) => return Err(Malformed::Kind(failure.tail.opcode())),
            Cqe::Other(tail) => return Err(Malformed::Kind(tail.opcode())),
        };
        if !is_title(title.tail.op_own) {
            return Err(Malformed::Format(title.tail.format()));
        }
        let count = title.byte_cnt;
        let places = 1u32.checked_shl(log_size.into()).unwrap_or(u32::MAX);
        if count < 2 || count > max || count > places {
            return Err(Malformed::Count(count));
        }
        Ok(Block {
            title,
            start: ci,
            count,
            done: 0,
            minis: [0; MINIS],
        })
    }

    /// Completions that are left.
    #[inline]
    pub fn left(&self) -> u32 {
        self.count.saturating_sub(self.done)
    }

    /// The next completion, as the full entry would have said; `None` at the end of the block.
    ///
    /// `read` copies the place at a counter. After the call, the place at the counter of this completion
    /// (start of the block plus completions before) is to be released.
    ///
    /// All completions of a block have the timestamp of the title.
    #[inline]
    pub fn next(&mut self, read: impl FnOnce(u32) -> [u8; SIZE]) -> Option<Success> {
        if self.done >= self.count {
            return None;
        }
        let at = self.done as usize & (MINIS - 1);
        if at == 0 {
            let place = read(minis_at(self.start, self.done));
            self.minis = core::array::from_fn(|i| be::get64(&place, (i & (MINIS - 1)) * 8));
        }
        let mini = Mini::decode(self.minis[at]);
        let tail = &self.title.tail;
        let (wqe_opcode, wqe_counter) = if tail.opcode() == Opcode::REQ {
            (mini.wqe_opcode, mini.wqe_counter)
        } else {
            let counter = tail.wqe_counter.wrapping_add(self.done as u16);
            (tail.wqe_opcode, counter)
        };
        let success = Success {
            tail: Tail {
                wqe_opcode,
                wqe_counter,
                op_own: tail.op_own & !(FORMAT << 2),
                ..*tail
            },
            byte_cnt: mini.byte_cnt,
            ..self.title
        };
        self.done = self.done.wrapping_add(1);
        Some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cqe::ready;
    use super::*;

    fn success(opcode: Opcode, byte_cnt: u32) -> Success {
        Success {
            tail: Tail {
                wqe_opcode: 0x08,
                qpn: 0x123,
                wqe_counter: 0xfffe,
                signature: 0,
                op_own: Tail::op_own(opcode, false, 0, 6),
            },
            srqn: 5,
            imm: 0,
            byte_cnt,
            timestamp: 77,
            flags_rqpn: 0,
            slid: 0,
            ml_path: 0,
        }
    }

    #[test]
    fn minis_are_where_the_kernel_reads_them() {
        let places: Vec<_> = (0..20).map(|i| minis_at(100, i)).collect();
        assert!(places[..8].iter().all(|&p| p == 101));
        assert!(places[8..16].iter().all(|&p| p == 108));
        assert!(places[16..].iter().all(|&p| p == 116));
        assert_eq!(minis_at(u32::MAX, 0), 0);
        assert_eq!(minis_at(u32::MAX, 8), 7);
    }

    #[test]
    fn mini_formats() {
        let mini = Mini {
            wqe_counter: 0x1234,
            wqe_opcode: 0x56,
            byte_cnt: 0x789a_bcde,
        };
        let want = [0x12, 0x34, 0x56, 0, 0x78, 0x9a, 0xbc, 0xde];
        assert_eq!(mini.encode_requester(), want);
        assert_eq!(Mini::decode(u64::from_be_bytes(want)), mini);
        assert_eq!(mini.encode_responder()[4..], want[4..]);
    }

    #[test]
    fn a_responder_counts_up_from_the_title() {
        let title = encode_title(&success(Opcode::RESP_SEND, 0), 3);
        let mut block = Block::open(&title, 9, 6, 64).unwrap();
        let mut place = [0xee; SIZE];
        for (i, bytes) in place.chunks_exact_mut(8).enumerate() {
            bytes[4..].copy_from_slice(&(i as u32 * 10).to_be_bytes());
        }
        let mut got = Vec::new();
        while let Some(s) = block.next(|at| {
            assert_eq!(at, 10);
            place
        }) {
            assert_eq!((s.tail.opcode(), s.tail.format()), (Opcode::RESP_SEND, 0));
            assert_eq!((s.srqn, s.timestamp), (5, 77));
            got.push((s.tail.wqe_counter, s.byte_cnt));
        }
        assert_eq!(got, [(0xfffe, 0), (0xffff, 10), (0, 20)]);
        assert_eq!(block.left(), 0);
    }

    #[test]
    fn refuses_what_is_no_title() {
        let open = |b: &[u8; SIZE]| Block::open(b, 0, 4, 12).map(|b| b.left());
        let title = |op, n| encode_title(&success(op, 0), n);
        assert_eq!(open(&title(Opcode::REQ, 12)), Ok(12));
        for n in [0, 1, 13, 17, u32::MAX] {
            assert_eq!(open(&title(Opcode::REQ, n)), Err(Malformed::Count(n)));
        }
        let wide = Block::open(&title(Opcode::REQ, 17), 0, 4, 1000).map(|b| b.left());
        assert_eq!(wide, Err(Malformed::Count(17)));
        let plain = success(Opcode::REQ, 2).encode();
        assert_eq!(open(&plain), Err(Malformed::Format(0)));
        for op in [5, 12, 13, 14, 15].map(Opcode) {
            assert_eq!(open(&title(op, 2)), Err(Malformed::Kind(op)));
        }
    }

    #[test]
    fn a_released_place_is_ready_in_no_round() {
        for ci in [0u32, 15, 16, 31, u32::MAX] {
            let op_own = released_op_own(ci, 4);
            for round in 0..4u32 {
                assert!(!ready(op_own, ci.wrapping_add(round * 16), 4));
            }
            // Nor would it be if the kind were not looked at, until the HCA writes it again.
            assert_ne!(op_own & 1, owner(ci.wrapping_add(16), 4) as u8);
        }
    }
}
