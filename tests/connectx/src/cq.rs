// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues.

use crate::eq::EventQueues;
use crate::hca::Hca;
use crate::io::Io;
use crate::table::Table;

/// A completion queue.
#[derive(Debug)]
pub struct Cq {}

/// Completion queues of a function: CQN 0x80 and up.
pub type Cqs = Table<Cq>;

/// Writes a CQE (64 bytes without the owner bit) to a CQ and raises its event if armed.
pub fn post(_cqs: &mut Cqs, _eqs: &mut EventQueues, _io: &mut Io, _cqn: u32, _cqe: [u8; 64]) {}

/// An arm doorbell: the two big-endian words written to offset 0x20 of a UAR page.
pub fn arm(_hca: &mut Hca, _words: [u32; 2]) {}

/// Moderation timers: raises what is due.
pub fn run(_hca: &mut Hca) {}

/// When [`run`] must be called next, in nanoseconds.
pub fn next_deadline(_hca: &Hca) -> Option<u64> {
    None
}
