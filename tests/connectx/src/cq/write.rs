// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writing of completions.
//!
//! A completion is posted by a queue, may be kept back by a fault or for a compressed block, and is written to memory.

use std::collections::VecDeque;

use super::compression::Session;
use super::{Cq, CqFailed, Cqs, INDEX_MASK, SYNDROME_ACCESS, SYNDROME_OVERRUN};
use crate::buffer::QueueBuffer;
use crate::caps::{CQE_COMPRESSION_MAX, CQE_COMPRESSION_TIMEOUT};
use crate::cqfmt::cqe::{self, Opcode, Tail};
use crate::dma::Kind;
use crate::eq::EventQueues;
use crate::faults::Completion;
use crate::io::Io;

/// Completions that a fault keeps back, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    entries: VecDeque<[u8; cqe::SIZE]>,
    /// When all are let go, in nanoseconds, or how many of them are let go at once.
    until: u64,
    bunch: usize,
}

impl Held {
    fn is_due(&self, now: u64) -> bool {
        !self.entries.is_empty() && (now >= self.until || self.entries.len() >= self.bunch)
    }
}

fn tail(entry: &[u8; cqe::SIZE]) -> Tail {
    entry
        .last_chunk()
        .map_or(Tail::decode(&[0; 8]), Tail::decode)
}

impl Cq {
    /// Is there room for `count` more entries? Reads the record only if the last consumer index leaves none.
    fn has_room(&mut self, io: &mut Io, count: u32) -> Result<bool, u8> {
        if count > self.size() {
            return Ok(false);
        }
        if self.config.ignore_overrun || self.used(self.consumer) + count <= self.size() {
            return Ok(true);
        }
        self.consumer = io
            .memory
            .read_be32(Kind::DoorbellRecord, self.config.record)
            .map_err(|_| SYNDROME_ACCESS)?
            & INDEX_MASK;
        Ok(self.used(self.consumer) + count <= self.size())
    }

    /// Writes `entry` at `ahead` places from the producer index.
    fn store(&self, io: &mut Io, ahead: u32, entry: &[u8; cqe::SIZE]) -> Result<(), u8> {
        let index = u64::from(self.producer.wrapping_add(ahead) & (self.size() - 1));
        let offset = index * self.config.entry_size as u64;
        let buffer = &self.config.buffer;
        let written = if self.config.entry_size == cqe::SIZE {
            buffer.write_entry(&mut io.memory, Kind::Cqe, offset, entry)
        } else {
            let mut double = io.blank::<128>();
            if let Some(half) = double.get_mut(cqe::SIZE..) {
                half.copy_from_slice(entry);
            }
            buffer.write_entry(&mut io.memory, Kind::Cqe, offset, &double)
        };
        written.map_err(|_| SYNDROME_ACCESS)
    }

    /// Writes an entry at the producer index and moves on. The owner bit is set here.
    fn write(&mut self, io: &mut Io, mut entry: [u8; cqe::SIZE]) -> Result<(), u8> {
        if !self.has_room(io, 1)? {
            return Err(SYNDROME_OVERRUN);
        }
        self.own(&mut entry);
        self.store(io, 0, &entry)?;
        let tail = tail(&entry);
        self.advance(io, 1, tail.solicited() || tail.opcode().is_error());
        Ok(())
    }

    /// Writes an entry that nothing completed.
    pub(super) fn forge(
        &mut self,
        io: &mut Io,
        mut entry: [u8; cqe::SIZE],
        wrong_owner: bool,
    ) -> Result<(), u8> {
        self.close_session(io)?;
        if !wrong_owner {
            return self.write(io, entry);
        }
        self.own(&mut entry);
        if let Some(op_own) = entry.last_mut() {
            *op_own ^= 1;
        }
        self.store(io, 0, &entry)
    }

    /// Sets the owner bit of an entry at the producer index.
    fn own(&self, entry: &mut [u8; cqe::SIZE]) {
        if let Some(op_own) = entry.last_mut() {
            *op_own = (*op_own & !1) | u8::from(cqe::owner(self.producer, self.config.log_size));
        }
    }

    /// Moves the producer index over `count` completions that were written.
    fn advance(&mut self, io: &mut Io, count: u32, urgent: bool) {
        io.counters.cqes += u64::from(count);
        self.producer = self.producer.wrapping_add(count);
        self.written(count, urgent, io.now);
    }

    /// Takes a completion into a block, or writes it.
    fn put(&mut self, io: &mut Io, entry: [u8; cqe::SIZE]) -> Result<(), u8> {
        let Some(format) = self.config.compression else {
            return self.write(io, entry);
        };
        if let Some(mut session) = self.session.take() {
            let room = self.has_room(io, session.len() + 1)?;
            let added = room && session.add(&entry, format);
            let full = session.len() >= CQE_COMPRESSION_MAX;
            self.session = Some(session);
            if !added || full {
                self.close_session(io)?;
            }
            if added {
                return Ok(());
            }
        }
        if self.has_room(io, 1)? {
            let ends = io.now.saturating_add(CQE_COMPRESSION_TIMEOUT);
            self.session = Session::start(&entry, format, ends);
        }
        if self.session.is_some() {
            return Ok(());
        }
        self.write(io, entry)
    }

    /// Writes the block in the making, if there is one.
    fn close_session(&mut self, io: &mut Io) -> Result<(), u8> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        if let Some(entry) = session.single() {
            return self.write(io, *entry);
        }
        for (ahead, mut entry) in session.entries(|| io.blank()) {
            if ahead == 0 {
                self.own(&mut entry);
            }
            self.store(io, ahead, &entry)?;
        }
        io.counters.cqe_blocks += 1;
        self.advance(io, session.len(), false);
        Ok(())
    }

    /// Makes everything that is kept back due.
    pub(super) fn hurry(&mut self) {
        self.held.until = 0;
        if let Some(session) = &mut self.session {
            session.ends = 0;
        }
    }

    /// Writes what is kept back and due by now.
    pub(super) fn release_due(&mut self, io: &mut Io) -> Result<(), u8> {
        if self.held.is_due(io.now) {
            for entry in std::mem::take(&mut self.held.entries) {
                self.put(io, entry)?;
            }
        }
        let ends = self.session.as_ref().map(|session| session.ends);
        if ends.is_some_and(|ends| ends <= io.now) {
            self.close_session(io)?;
        }
        Ok(())
    }

    /// When something that is kept back must be written.
    pub(super) fn write_deadline(&self) -> Option<u64> {
        let held = (!self.held.entries.is_empty()).then_some(self.held.until);
        let session = self.session.as_ref().map(|session| session.ends);
        held.into_iter().chain(session).min()
    }

    /// Moves the queue to another buffer: the last entry in the old one tells the driver so. The entries before it,
    /// which the driver has not taken, it copies.
    ///
    /// # Errors
    ///
    /// See [`ResizeError`].
    pub fn resize(
        &mut self,
        io: &mut Io,
        buffer: QueueBuffer,
        log_size: u8,
    ) -> Result<(), ResizeError> {
        let mut entry = io.blank::<{ cqe::SIZE }>();
        if let Some(op_own) = entry.last_mut() {
            *op_own = Opcode::RESIZE.0 << 4;
        }
        // What was completed before belongs into the old buffer.
        self.hurry();
        self.release_due(io).map_err(|_| ResizeError::OldFull)?;
        let [consumer, _] = self.read_record(io).ok_or(ResizeError::OldFull)?;
        if self.used(consumer) > 1 << log_size {
            return Err(ResizeError::NewTooSmall);
        }
        self.write(io, entry).map_err(|_| ResizeError::OldFull)?;
        self.config.buffer = buffer;
        self.config.log_size = log_size;
        Ok(())
    }
}

/// Why a queue does not move to another buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResizeError {
    /// The old one has no room for the entry that says so, or cannot be reached.
    OldFull,
    /// The new one does not hold the entries that the driver has not taken.
    NewTooSmall,
}

/// Writes a completion queue entry and raises the event that the driver waits for. The owner bit and the time stamp
/// of the entry are set here.
///
/// # Errors
///
/// [`CqFailed`] when there is no such queue, it has failed before, or fails now; the event that says so is raised.
pub fn post(
    cqs: &mut Cqs,
    eqs: &mut EventQueues,
    io: &mut Io,
    cqn: u32,
    mut entry: [u8; cqe::SIZE],
) -> Result<(), CqFailed> {
    let cq = cqs.table.get_mut(cqn).ok_or(CqFailed)?;
    if cq.failed() {
        return Err(CqFailed);
    }
    if !tail(&entry).opcode().is_error() {
        // Error entries have their syndromes where the others have the time stamp.
        if let Some(field) = entry.get_mut(0x30..0x38) {
            field.copy_from_slice(&io.now.to_be_bytes());
        }
    }
    let now = io.now;
    let fault = io.faults.completion(cqn);
    if let Some(Completion::Delayed { ns, bunch }) = fault {
        let held = &mut cq.held;
        if held.entries.is_empty() {
            held.until = now.saturating_add(ns);
            held.bunch = bunch;
        }
    }
    let times = match fault {
        Some(Completion::Dropped) => 0,
        Some(Completion::Doubled) => 2,
        _ => 1,
    };
    let keep = matches!(fault, Some(Completion::Delayed { .. })) || !cq.held.entries.is_empty();
    for _ in 0..times {
        if keep {
            cq.held.entries.push_back(entry);
        } else if let Err(syndrome) = cq.put(io, entry) {
            cq.fail(cqn, syndrome, eqs, io);
            cqs.timers.set(cqn, None);
            return Err(CqFailed);
        }
    }
    cqs.settle(cqn, eqs, io);
    let failed = cqs.table.get(cqn).is_none_or(Cq::failed);
    if failed {
        Err(CqFailed)
    } else {
        Ok(())
    }
}
