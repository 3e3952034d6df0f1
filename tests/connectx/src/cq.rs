// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues.
//!
//! The device writes entries at its producer index and raises an event on the EQ of the queue when the driver has
//! armed it. It reads the consumer index from the doorbell record when it has to know whether there is room.

mod moderation;

use crate::buffer::QueueBuffer;
use crate::cqfmt::cqe::{self, Opcode, Tail};
use crate::dma::Kind;
use crate::eq::{AsyncEvent, EventQueues};
use crate::hca::Hca;
use crate::io::Io;
use crate::table::Table;
use crate::timers::Timers;

pub use moderation::{Moderation, PeriodMode};

/// Indices on the bus are 24 bits wide.
const INDEX_MASK: u32 = 0x00ff_ffff;

/// Syndromes of a CQ error event.
const SYNDROME_OVERRUN: u8 = 1;
const SYNDROME_ACCESS: u8 = 2;

/// First number of a CQ.
const FIRST_CQN: u32 = 0x80;

/// The queue has failed: the completion is lost and its queue pair cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqFailed;

/// What the driver waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arm {
    Disarmed,
    Next,
    /// A solicited completion or one in error.
    Solicited,
}

/// Geometry and addresses of a queue.
#[derive(Clone, Debug)]
pub struct CqConfig {
    /// The context as given, for queries.
    pub context: [u8; 0x40],
    /// EQ for completion events.
    pub eqn: u8,
    /// UAR page that its doorbells come through.
    pub uar: u32,
    /// Base 2 logarithm of the number of entries.
    pub log_size: u8,
    /// Bytes of an entry: 64, or 128 with the 64 of interest in the second half.
    pub entry_size: usize,
    pub buffer: QueueBuffer,
    /// Address of the doorbell record: consumer index, arm word.
    pub record: u64,
    /// Write on without looking at the consumer index.
    pub ignore_overrun: bool,
    pub moderation: Moderation,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub config: CqConfig,
    failed: bool,
    /// Entries written since creation; bits above the ring size give the owner bit.
    producer: u32,
    /// Consumer index as last read from the doorbell record.
    consumer: u32,
    arm: Arm,
    /// Completion events raised, modulo 4: an arm doorbell must carry this number.
    event_sn: u8,
    /// Index after the last entry that is solicited or in error.
    last_solicited: Option<u32>,
    /// Completions since the last event, and when the first of them was written.
    unreported: u32,
    unreported_since: u64,
}

/// Completion queues of a function.
#[derive(Debug)]
pub struct Cqs {
    /// Queues by CQN.
    pub table: Table<Cq>,
    /// Moderated events.
    timers: Timers,
}

impl Default for Cqs {
    fn default() -> Self {
        Cqs {
            table: Table::new("cq", FIRST_CQN, 1 << 16),
            timers: Timers::default(),
        }
    }
}

impl Cqs {
    /// Removes a queue.
    ///
    /// # Errors
    ///
    /// As [`Table::remove`].
    pub fn remove(&mut self, cqn: u32) -> crate::cmd::CmdResult<Cq> {
        let cq = self.table.remove(cqn)?;
        self.timers.set(cqn, None);
        Ok(cq)
    }

    /// Forgets all queues: a device reset.
    pub fn clear(&mut self) {
        self.table.clear();
        self.timers.clear();
    }
}

impl Cq {
    /// A queue without entries, not armed.
    pub fn new(config: CqConfig) -> Self {
        Cq {
            config,
            failed: false,
            producer: 0,
            consumer: 0,
            arm: Arm::Disarmed,
            event_sn: 0,
            last_solicited: None,
            unreported: 0,
            unreported_since: 0,
        }
    }

    /// Entries written, modulo 2^24.
    pub fn producer(&self) -> u32 {
        self.producer & INDEX_MASK
    }

    /// Consumer index as last read.
    pub fn consumer(&self) -> u32 {
        self.consumer
    }

    /// Has the queue overrun or lost its memory?
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Is an event due with the next (solicited) completion?
    pub fn armed(&self) -> bool {
        self.arm != Arm::Disarmed
    }

    fn size(&self) -> u32 {
        1 << self.config.log_size
    }

    /// Entries that the driver has not taken, by the consumer index `ci`.
    fn used(&self, ci: u32) -> u32 {
        self.producer.wrapping_sub(ci) & INDEX_MASK
    }

    /// Both words of the doorbell record: the consumer index, and the arm word. `None` if it cannot be read.
    fn read_record(&self, io: &mut Io) -> Option<[u32; 2]> {
        let mut record = [0; 8];
        io.memory
            .read(Kind::DoorbellRecord, self.config.record, &mut record)
            .ok()?;
        let [a, b, c, d, e, f, g, h] = record;
        Some([
            u32::from_be_bytes([a, b, c, d]) & INDEX_MASK,
            u32::from_be_bytes([e, f, g, h]),
        ])
    }

    /// Is there room for one more entry? Reads the record only if the last consumer index leaves none.
    fn has_room(&mut self, io: &mut Io) -> Result<bool, u8> {
        if self.config.ignore_overrun || self.used(self.consumer) < self.size() {
            return Ok(true);
        }
        self.consumer = io
            .memory
            .read_be32(Kind::DoorbellRecord, self.config.record)
            .map_err(|_| SYNDROME_ACCESS)?
            & INDEX_MASK;
        Ok(self.used(self.consumer) < self.size())
    }

    /// Writes an entry at the producer index and moves on. The owner bit is set here.
    fn write(&mut self, io: &mut Io, mut entry: [u8; cqe::SIZE]) -> Result<(), u8> {
        if !self.has_room(io)? {
            return Err(SYNDROME_OVERRUN);
        }
        if let Some(op_own) = entry.last_mut() {
            *op_own = (*op_own & !1) | u8::from(cqe::owner(self.producer, self.config.log_size));
        }
        let index = u64::from(self.producer & (self.size() - 1));
        let offset = index * self.config.entry_size as u64;
        let buffer = &self.config.buffer;
        let written = if self.config.entry_size == cqe::SIZE {
            buffer.write_entry(&mut io.memory, Kind::Cqe, offset, &entry)
        } else {
            let mut double = io.blank::<128>();
            if let Some(half) = double.get_mut(cqe::SIZE..) {
                half.copy_from_slice(&entry);
            }
            buffer.write_entry(&mut io.memory, Kind::Cqe, offset, &double)
        };
        written.map_err(|_| SYNDROME_ACCESS)?;
        io.counters.cqes += 1;
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }

    /// Moves the queue to another buffer: the last entry in the old one tells the driver so.
    ///
    /// # Errors
    ///
    /// When the old buffer has no room for that entry.
    pub fn resize(
        &mut self,
        io: &mut Io,
        buffer: QueueBuffer,
        log_size: u8,
    ) -> Result<(), CqFailed> {
        let mut entry = io.blank::<{ cqe::SIZE }>();
        if let Some(op_own) = entry.last_mut() {
            *op_own = Opcode::RESIZE.0 << 4;
        }
        self.write(io, entry).map_err(|_| CqFailed)?;
        self.config.buffer = buffer;
        self.config.log_size = log_size;
        Ok(())
    }

    /// Puts the queue in error.
    fn fail(&mut self, cqn: u32, syndrome: u8, eqs: &mut EventQueues, io: &mut Io) {
        self.failed = true;
        log::warn!("CQ {cqn:#x} failed, syndrome {syndrome}");
        eqs.asynchronous(io, AsyncEvent::CqError(cqn, syndrome));
    }

    /// Raises a completion event and disarms.
    fn fire(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        self.arm = Arm::Disarmed;
        self.event_sn = (self.event_sn + 1) & 3;
        self.unreported = 0;
        eqs.completion(io, self.config.eqn, cqn);
    }

    /// Raises the event that is due by now, if one is; returns when to look again.
    fn report(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) -> Option<u64> {
        if self.arm != Arm::Next || self.unreported == 0 {
            return None;
        }
        match self
            .config
            .moderation
            .due(self.unreported, self.unreported_since)
        {
            Some(time) if time > io.now => Some(time),
            _ => {
                self.fire(cqn, eqs, io);
                None
            }
        }
    }
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
    if cq.failed {
        return Err(CqFailed);
    }
    let tail = entry
        .last_chunk()
        .map_or(Tail::decode(&[0; 8]), Tail::decode);
    let urgent = tail.solicited() || tail.opcode().is_error();
    if !tail.opcode().is_error() {
        // Error entries have their syndromes where the others have the time stamp.
        if let Some(field) = entry.get_mut(0x30..0x38) {
            field.copy_from_slice(&io.now.to_be_bytes());
        }
    }
    if let Err(syndrome) = cq.write(io, entry) {
        cq.fail(cqn, syndrome, eqs, io);
        cqs.timers.set(cqn, None);
        return Err(CqFailed);
    }
    if cq.unreported == 0 || cq.config.moderation.restarts() {
        cq.unreported_since = io.now;
    }
    cq.unreported = cq.unreported.saturating_add(1);
    if urgent {
        cq.last_solicited = Some(cq.producer());
    }
    if urgent && cq.arm != Arm::Disarmed {
        cq.fire(cqn, eqs, io);
    }
    let deadline = cq.report(cqn, eqs, io);
    cqs.timers.set(cqn, deadline);
    Ok(())
}

/// An arm doorbell: the two big-endian words written to offset 0x20 of UAR page `page`.
///
/// The doorbell names the queue, and makes the device read the doorbell record. What is wanted stands there: the
/// consumer index, and in the second word the sequence number, command and index of the arming. A driver that does
/// not write them before it rings gets no event, and in the end an overrun.
///
/// An arming whose sequence number is not that of the next event is stale: the event it asks for was raised, and the
/// driver has not seen it yet.
pub fn arm(hca: &mut Hca, page: u32, words: [u32; 2]) {
    let Hca { cqs, eqs, io, .. } = hca;
    let [rung, number] = words;
    let cqn = number & INDEX_MASK;
    let Some(cq) = cqs.table.get_mut(cqn) else {
        io.counters.mmio.ignored += 1;
        return;
    };
    if cq.config.uar != page {
        io.counters.mmio.foreign_uar += 1;
        return;
    }
    let Some([consumer, command]) = cq.read_record(io) else {
        cq.fail(cqn, SYNDROME_ACCESS, eqs, io);
        cqs.timers.set(cqn, None);
        return;
    };
    if command != rung {
        io.counters.mmio.arm_mismatches += 1;
        log::warn!("CQ {cqn:#x}: armed with {rung:#x}, but the doorbell record says {command:#x}");
    }
    cq.consumer = consumer;
    let sn = ((command >> 28) & 3) as u8;
    if cq.failed || sn != cq.event_sn {
        log::debug!(
            "CQ {cqn:#x}: arm with sequence number {sn}, expected {}",
            cq.event_sn
        );
        return;
    }
    let seen = command & INDEX_MASK;
    let solicited_only = (command >> 24) & 1 != 0;
    if solicited_only {
        // An arm for any completion is not taken back by one for solicited ones.
        if cq.arm == Arm::Disarmed {
            cq.arm = Arm::Solicited;
        }
        let waiting = cq
            .last_solicited
            .is_some_and(|index| crate::wire::psn_diff(index, seen) > 0);
        if waiting {
            cq.fire(cqn, eqs, io);
        }
        return;
    }
    cq.arm = Arm::Next;
    if cq.used(seen) == 0 {
        cq.unreported = 0;
    } else if cq.unreported == 0 {
        // Reported before, but still there: the driver stopped short of them.
        cq.unreported = cq.used(seen);
        cq.unreported_since = io.now;
    }
    let deadline = cq.report(cqn, eqs, io);
    cqs.timers.set(cqn, deadline);
}

/// Moderation timers: raises what is due.
pub fn run(hca: &mut Hca) {
    let Hca { cqs, eqs, io, .. } = hca;
    while let Some(cqn) = cqs.timers.pop_due(io.now) {
        if let Some(cq) = cqs.table.get_mut(cqn) {
            let deadline = cq.report(cqn, eqs, io);
            cqs.timers.set(cqn, deadline);
        }
    }
}

/// When [`run`] must be called next, in nanoseconds.
pub fn next_deadline(hca: &Hca) -> Option<u64> {
    hca.cqs.timers.next()
}
