// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues.
//!
//! The device writes entries at its producer index and raises an event on the EQ of the queue when the driver has
//! armed it. It reads the consumer index from the doorbell record when it has to know whether there is room.
//!
//! * [`write`]: from a completion to entries in memory. [`compression`]: several of them in one block.
//! * [`arm`]: what the driver waits for. [`event`]: telling it. [`moderation`]: not too often.

mod arm;
mod compression;
mod event;
mod moderation;
mod write;

use crate::buffer::QueueBuffer;
use crate::cqfmt::cqe::SIZE;
use crate::dma::Kind;
use crate::eq::EventQueues;
use crate::hca::Hca;
use crate::io::Io;
use crate::table::Table;
use crate::timers::Timers;

pub use arm::arm;
pub use compression::MiniFormat;
pub use moderation::{Moderation, PeriodMode};
pub use write::{post, ResizeError};

use compression::Session;
use write::Held;

/// Indices on the bus are 24 bits wide.
const INDEX_MASK: u32 = 0x00ff_ffff;

/// Syndromes of a CQ error event.
const SYNDROME_OVERRUN: u8 = 1;
const SYNDROME_ACCESS: u8 = 2;

/// `cqc.status` (`MLX5_CQC_STATUS_*`): overflow, write failure.
const STATUS_OVERFLOW: u32 = 0x9;
const STATUS_WRITE_FAILURE: u32 = 0xa;

/// `cqc.st` (`MLX5_CQC_ST_*`): armed for solicited ones, armed, fired.
const ST_SOLICITED: u32 = 0x6;
const ST_ARMED: u32 = 0x9;
const ST_FIRED: u32 = 0xa;

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
    /// Blocks of compressed completions, if the driver wants them.
    pub compression: Option<MiniFormat>,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub config: CqConfig,
    /// The syndrome with which it failed.
    failure: Option<u8>,
    /// Entries written since creation; bits above the ring size give the owner bit.
    producer: u32,
    /// Consumer index as last read from the doorbell record.
    consumer: u32,
    arm: Arm,
    /// Completion events raised, modulo 4: an arm doorbell must carry this number.
    event_sn: u8,
    /// Index after the last entry that an event has told of.
    last_notified: u32,
    /// Index after the last entry that is solicited or in error, if no event has told of it.
    last_solicited: Option<u32>,
    /// Completions that no event has told of and, when the queue was armed last, the driver had not taken; and when
    /// the first of them was written.
    unreported: u32,
    unreported_since: u64,
    /// A solicited completion, or one in error, was written after the arming.
    urgent: bool,
    /// Completions that are to become a compressed block.
    session: Option<Session>,
    /// Completions that a fault keeps back.
    held: Held,
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

    /// Makes a queue do what is due, and sets its timer for what is not yet.
    fn settle(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        let Some(cq) = self.table.get_mut(cqn).filter(|cq| !cq.failed()) else {
            return;
        };
        let deadline = match cq.release_due(io) {
            Ok(()) => cq.report(cqn, eqs, io),
            Err(syndrome) => {
                cq.fail(cqn, syndrome, eqs, io);
                None
            }
        };
        let deadlines = [deadline, cq.write_deadline()];
        let deadline = deadlines.into_iter().flatten().min();
        self.timers.set(cqn, deadline.filter(|_| !cq.failed()));
    }

    /// Writes all that was completed so far: before a queue pair is told that nothing of it comes any more.
    pub fn drain(&mut self, cqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        if let Some(cq) = self.table.get_mut(cqn) {
            cq.hurry();
            self.settle(cqn, eqs, io);
        }
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
            failure: None,
            producer: 0,
            consumer: 0,
            arm: Arm::Disarmed,
            event_sn: 0,
            last_notified: 0,
            last_solicited: None,
            unreported: 0,
            unreported_since: 0,
            urgent: false,
            session: None,
            held: Held::default(),
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

    /// Index after the last entry that an event has told of.
    pub fn last_notified(&self) -> u32 {
        self.last_notified
    }

    /// Has the queue overrun or lost its memory?
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// `cqc.status`.
    pub fn status(&self) -> u32 {
        match self.failure {
            None => 0,
            Some(SYNDROME_OVERRUN) => STATUS_OVERFLOW,
            Some(_) => STATUS_WRITE_FAILURE,
        }
    }

    /// `cqc.st`.
    pub fn arm_state(&self) -> u32 {
        match self.arm {
            Arm::Disarmed => ST_FIRED,
            Arm::Next => ST_ARMED,
            Arm::Solicited => ST_SOLICITED,
        }
    }

    /// Is an event due with the next (solicited) completion?
    pub fn armed(&self) -> bool {
        self.arm != Arm::Disarmed
    }

    /// Where it stands, for people.
    pub fn state(&self) -> serde_json::Value {
        serde_json::json!({
            "eq": self.config.eqn,
            "producer": self.producer(),
            "consumer": self.consumer,
            "armed": self.armed(),
            "events": self.event_sn,
            "unreported": self.unreported,
            "failed": self.failed(),
            "period_us": self.config.moderation.period / 1000,
            "max_count": self.config.moderation.count,
        })
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
}

/// Makes a queue do what is due: after a change of what it waits for.
pub fn settle(hca: &mut Hca, cqn: u32) {
    let Hca { cqs, eqs, io, .. } = hca;
    cqs.settle(cqn, eqs, io);
}

/// Writes an entry that no completion is behind, and raises the event for it. One with the owner bit of the round
/// before is not there yet: the next one takes its place.
///
/// # Errors
///
/// When there is no such queue, or it has no room.
pub fn forge(
    hca: &mut Hca,
    cqn: u32,
    entry: [u8; SIZE],
    wrong_owner: bool,
) -> Result<(), &'static str> {
    let Hca { cqs, eqs, io, .. } = hca;
    let cq = cqs.table.get_mut(cqn).ok_or("no such completion queue")?;
    cq.forge(io, entry, wrong_owner)
        .map_err(|_| "the completion queue has no room")?;
    cqs.settle(cqn, eqs, io);
    Ok(())
}

/// Timers of queues: writes and raises what is due.
pub fn run(hca: &mut Hca) {
    let Hca { cqs, eqs, io, .. } = hca;
    while let Some(cqn) = cqs.timers.pop_due(io.now) {
        cqs.settle(cqn, eqs, io);
    }
}

/// When [`run`] must be called next, in nanoseconds.
pub fn next_deadline(hca: &Hca) -> Option<u64> {
    hca.cqs.timers.next()
}
