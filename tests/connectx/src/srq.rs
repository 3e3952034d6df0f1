// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shared receive queues.
//!
//! SRQs, XRC SRQs and RMPs share one number space and differ in their commands alone. The driver counts the posted
//! WQEs in the doorbell record. Where they are is a linked list: each WQE begins with the index of the next one.

use crate::buffer::QueueBuffer;
use crate::caps::LOG_MAX_SRQ;
use crate::dma::{DmaError, Kind};
use crate::eq::{AsyncEvent, EventQueues};
use crate::io::Io;
use crate::qp::receive::{self, ReceiveWqe, Report};
use crate::table::Table;

/// Event type of an SRQ that has fallen below its limit (`MLX5_EVENT_TYPE_SRQ_RQ_LIMIT`).
const EVENT_LIMIT: u8 = 0x14;
/// Event type of an SRQ whose WQEs cannot be read (`MLX5_EVENT_TYPE_SRQ_CATAS_ERROR`).
const EVENT_CATASTROPHIC: u8 = 0x12;

/// Bytes of the segment in front of each WQE of a linked list (`struct mlx5_wqe_srq_next_seg`).
const NEXT_SEGMENT: usize = 16;

/// By which command a queue came into being; only the commands of the same kind work on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SrqKind {
    Basic,
    Xrc,
    Rmp,
}

/// What an XRC SRQ has beyond the others.
#[derive(Clone, Copy, Debug)]
pub struct Extended {
    /// Its domain; only queue pairs of the same one reach it.
    pub xrcd: u32,
    /// Where its receives complete.
    pub cqn: u32,
    /// Number that stands in completions instead of its own; `None` for the old layout of completions.
    pub user_index: Option<u32>,
}

/// Geometry and addresses of a queue.
#[derive(Clone, Debug)]
pub struct SrqConfig {
    pub kind: SrqKind,
    /// The context as given, for queries.
    pub context: Vec<u8>,
    pub pd: u32,
    /// Of an XRC SRQ.
    pub extended: Option<Extended>,
    pub buffer: QueueBuffer,
    /// Base 2 logarithm of the number of WQEs.
    pub log_size: u8,
    /// Bytes of a WQE.
    pub stride: usize,
    /// Address of the doorbell record; its first word counts posted WQEs.
    pub record: u64,
    /// WQEs follow each other in the ring instead of being linked.
    pub cyclic: bool,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    pub config: SrqConfig,
    /// Index of the next WQE to consume, in a linked list.
    head: u16,
    /// WQEs consumed, modulo 65536.
    consumed: u16,
    /// WQEs posted as last read from the record.
    posted: u16,
    /// Raise an event once fewer WQEs than this are posted; 0 when no event is wanted.
    limit: u16,
    failed: bool,
}

/// Shared receive queues of a function.
#[derive(Debug)]
pub struct Srqs {
    /// Queues by number.
    pub table: Table<Srq>,
}

impl Default for Srqs {
    fn default() -> Self {
        Self {
            table: Table::new("srq", 1, 1 << LOG_MAX_SRQ),
        }
    }
}

impl Srq {
    /// A queue with nothing consumed.
    pub fn new(config: SrqConfig, limit: u16) -> Self {
        Srq {
            config,
            head: 0,
            consumed: 0,
            posted: 0,
            limit,
            failed: false,
        }
    }

    /// Arms the limit event.
    pub fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// The limit, if its event is still to come.
    pub fn limit(&self) -> u16 {
        self.limit
    }

    /// Could WQEs of the queue not be read?
    pub fn failed(&self) -> bool {
        self.failed
    }

    fn available(&self) -> u16 {
        self.posted.wrapping_sub(self.consumed)
    }

    /// Takes the next receive WQE; `None` if none is posted.
    ///
    /// A queue whose memory cannot be read, or with more WQEs posted than it has room for, has failed: it gives no
    /// more, and the event that says so was raised.
    pub fn pop(&mut self, srqn: u32, eqs: &mut EventQueues, io: &mut Io) -> Option<ReceiveWqe> {
        if self.failed {
            return None;
        }
        match self.try_pop(srqn, io) {
            Ok(wqe) => {
                self.report_limit(srqn, eqs, io);
                wqe
            }
            Err(error) => {
                log::warn!("SRQ {srqn:#x} failed: {error}");
                self.failed = true;
                eqs.asynchronous(io, AsyncEvent::Srq(EVENT_CATASTROPHIC, srqn));
                None
            }
        }
    }

    /// Raises the limit event if fewer WQEs are posted than the limit just set.
    pub fn check_limit(&mut self, srqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        // A record that cannot be read is found out with the next message.
        if let Ok(word) = io
            .memory
            .read_be32(Kind::DoorbellRecord, self.config.record)
        {
            self.posted = word as u16;
            self.report_limit(srqn, eqs, io);
        }
    }

    fn report_limit(&mut self, srqn: u32, eqs: &mut EventQueues, io: &mut Io) {
        if self.limit != 0 && self.available() < self.limit {
            self.limit = 0;
            eqs.asynchronous(io, AsyncEvent::Srq(EVENT_LIMIT, srqn));
        }
    }

    fn try_pop(&mut self, srqn: u32, io: &mut Io) -> Result<Option<ReceiveWqe>, DmaError> {
        if self.available() == 0 || self.limit != 0 {
            self.posted =
                io.memory
                    .read_be32(Kind::DoorbellRecord, self.config.record)? as u16;
        }
        if self.available() == 0 {
            return Ok(None);
        }
        let mask = (1u32 << self.config.log_size) - 1;
        if u32::from(self.available()) > mask + 1 {
            return Err(DmaError {
                addr: self.config.record,
                len: 4,
            });
        }
        let index = if self.config.cyclic {
            self.consumed
        } else {
            self.head
        } & mask as u16;
        let mut bytes = vec![0; self.config.stride];
        let offset = u64::from(index) * self.config.stride as u64;
        self.config
            .buffer
            .read(&mut io.memory, Kind::RecvWqeFetch, offset, &mut bytes)?;
        let segments = if self.config.cyclic {
            bytes.as_slice()
        } else {
            // `struct mlx5_wqe_srq_next_seg`: the index is its second half-word.
            if let Some([_, _, high, low]) = bytes.first_chunk() {
                self.head = u16::from_be_bytes([*high, *low]);
            }
            bytes.get(NEXT_SEGMENT..).unwrap_or_default()
        };
        self.consumed = self.consumed.wrapping_add(1);
        io.counters.recv_wqes += 1;
        Ok(Some(ReceiveWqe {
            index,
            pd: Some(self.config.pd),
            report: self.config.extended.map(|extended| Report {
                cqn: extended.cqn,
                number: extended.user_index.unwrap_or(srqn),
            }),
            segments: receive::segments(segments),
        }))
    }
}
