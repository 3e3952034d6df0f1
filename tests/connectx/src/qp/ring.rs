// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The send queue in guest memory.
//!
//! Its unit is the basic block of 64 bytes; counters of blocks are 16 bits wide and run on. What is posted is told by
//! the doorbell record alone; the doorbell register only makes the device look.
//!
//! A doorbell that may be the start of a BlueFlame copy is held for a while (see [`crate::uar`]). If no copy comes, the
//! record counts as it was when the doorbell arrived: a driver that writes it later does wrong.

use crate::buffer::QueueBuffer;
use crate::dma::{DmaError, Kind};
use crate::io::Io;
use crate::wqe::ctrl::Head;
use crate::wqe::{blocks, BB, DS};

/// A WQE in the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Counter of its first basic block.
    pub index: u16,
    /// Basic blocks that it occupies, at least one.
    pub blocks: u16,
    pub head: Head,
    /// The whole WQE; `None` if its length makes no sense: zero, or beyond what is posted.
    pub bytes: Option<Vec<u8>>,
}

/// Why the ring cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// More blocks are posted and not completed than the ring has.
    Overrun,
    /// The ring or its record cannot be read.
    Dma(DmaError),
}

impl From<DmaError> for RingError {
    fn from(error: DmaError) -> Self {
        RingError::Dma(error)
    }
}

/// A counter of blocks as the record says it, or why it says nothing.
type Posted = Result<u16, DmaError>;

/// What is to be made of the doorbells since the record was last read.
#[derive(Clone, Copy, Debug)]
enum Rung {
    /// There was none.
    No,
    /// One that came alone: the record had this when it arrived.
    Alone(Posted),
    /// The record is to be read.
    Look,
}

/// A send queue.
#[derive(Clone, Debug)]
pub struct SendRing {
    /// Base 2 logarithm of the number of basic blocks.
    pub log_size: u8,
    /// Where in the buffer the ring starts.
    pub offset: u64,
    /// Counters of blocks: posted as last read from the record, fetched, completed.
    posted: u16,
    fetched: u16,
    completed: u16,
    rung: Rung,
    /// The record when a doorbell arrived that is still held; `None` if it was read since.
    seen: Option<Posted>,
    /// A WQE that came through a BlueFlame register as a whole, and its index.
    blueflame: Option<(u16, Vec<u8>)>,
}

impl SendRing {
    /// An empty ring of `1 << log_size` blocks.
    pub fn new(log_size: u8, offset: u64) -> Self {
        SendRing {
            log_size,
            offset,
            posted: 0,
            fetched: 0,
            completed: 0,
            rung: Rung::No,
            seen: None,
            blueflame: None,
        }
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> u64 {
        (BB as u64) << self.log_size
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        *self = Self::new(self.log_size, self.offset);
    }

    /// A doorbell arrives, and it is not known yet whether more of its WQE follows.
    pub fn see(&mut self, io: &Io, record: u64) {
        let posted = counter(record).and_then(|word| io.memory.peek_be32(word));
        self.seen = Some(posted.map(|posted| posted as u16));
    }

    /// Nothing has followed the doorbell. If the record was read since it arrived, there is nothing left to do.
    pub fn ring_alone(&mut self) {
        let Some(seen) = self.seen.take() else {
            return;
        };
        if !matches!(self.rung, Rung::Look) {
            self.rung = Rung::Alone(seen);
        }
    }

    /// A doorbell came in.
    pub fn ring(&mut self, index: u16, blueflame: Option<Vec<u8>>) {
        self.rung = Rung::Look;
        if let Some(copy) = blueflame {
            self.blueflame = Some((index, copy));
        }
    }

    /// Makes the next [`poll`](Self::poll) read the record although no doorbell came.
    pub fn look(&mut self) {
        self.rung = Rung::Look;
    }

    /// Counter of blocks fetched.
    pub fn fetched(&self) -> u16 {
        self.fetched
    }

    /// Counter of blocks posted, as last seen.
    pub fn posted(&self) -> u16 {
        self.posted
    }

    /// Notes that everything before this counter has completed.
    pub fn complete(&mut self, upto: u16) {
        self.completed = upto;
    }

    /// Could a WQE be fetched, as far as the doorbells so far tell?
    pub fn has_work(&self) -> bool {
        !matches!(self.rung, Rung::No) || self.posted != self.fetched
    }

    /// Reads the record if a doorbell came in, or takes what it was when that arrived.
    ///
    /// # Errors
    ///
    /// See [`RingError`].
    pub fn poll(&mut self, io: &mut Io, record: u64) -> Result<(), RingError> {
        let seen = match std::mem::replace(&mut self.rung, Rung::No) {
            Rung::No => return Ok(()),
            Rung::Alone(seen) => Some(seen?),
            Rung::Look => None,
        };
        let word = counter(record)?;
        self.posted = match seen {
            Some(posted) => {
                io.memory.count_read(Kind::DoorbellRecord, word, 4);
                posted
            }
            None => {
                self.seen = None;
                io.memory.read_be32(Kind::DoorbellRecord, word)? as u16
            }
        };
        let pending = self.posted.wrapping_sub(self.completed);
        if u32::from(pending) > 1 << self.log_size {
            return Err(RingError::Overrun);
        }
        Ok(())
    }

    /// Takes the next WQE; `None` if all that is posted was taken.
    ///
    /// # Errors
    ///
    /// See [`RingError`].
    pub fn fetch(
        &mut self,
        io: &mut Io,
        buffer: &QueueBuffer,
    ) -> Result<Option<Fetched>, RingError> {
        let waiting = self.posted.wrapping_sub(self.fetched);
        if waiting == 0 {
            return Ok(None);
        }
        let index = self.fetched;
        let copy = match self.blueflame.take() {
            Some((at, copy)) if at == index => Some(copy),
            // For a WQE behind this one; a copy for any other place is stale.
            Some((at, copy)) if at.wrapping_sub(index) < waiting => {
                self.blueflame = Some((at, copy));
                None
            }
            _ => None,
        };
        let fetched = match copy.and_then(|copy| whole(&copy, waiting).map(|wqe| (wqe, copy))) {
            Some(((head, len), mut copy)) => {
                io.counters.wqes_from_blueflame += 1;
                copy.truncate(len);
                Fetched {
                    index,
                    blocks: blocks(head.ds),
                    head,
                    bytes: Some(copy),
                }
            }
            None => self.read(io, buffer, index, waiting)?,
        };
        self.fetched = index.wrapping_add(fetched.blocks);
        Ok(Some(fetched))
    }

    fn read(
        &self,
        io: &mut Io,
        buffer: &QueueBuffer,
        index: u16,
        waiting: u16,
    ) -> Result<Fetched, RingError> {
        let mut bytes = vec![0; BB];
        self.read_blocks(io, buffer, index, &mut bytes)?;
        let head = bytes
            .first_chunk()
            .map_or(Head::decode(&[0; 8]), Head::decode);
        let count = blocks(head.ds);
        if count == 0 || count > waiting {
            return Ok(Fetched {
                index,
                blocks: 1,
                head,
                bytes: None,
            });
        }
        bytes.resize(usize::from(count) * BB, 0);
        if let Some((_, rest)) = bytes.split_at_mut_checked(BB) {
            self.read_blocks(io, buffer, index.wrapping_add(1), rest)?;
        }
        bytes.truncate(usize::from(head.ds) * DS);
        Ok(Fetched {
            index,
            blocks: count,
            head,
            bytes: Some(bytes),
        })
    }

    /// Reads whole blocks from block counter `index` on, in one access up to the end of the ring and one behind it.
    fn read_blocks(
        &self,
        io: &mut Io,
        buffer: &QueueBuffer,
        index: u16,
        out: &mut [u8],
    ) -> Result<(), DmaError> {
        let size = 1u64 << self.log_size;
        let first = u64::from(index) & (size - 1);
        let room = usize::try_from((size - first) * BB as u64).unwrap_or(usize::MAX);
        let (front, back) = out.split_at_mut(room.min(out.len()));
        for (block, part) in [(first, front), (0, back)] {
            if !part.is_empty() {
                let offset = self.offset + block * BB as u64;
                buffer.read(&mut io.memory, Kind::WqeFetch, offset, part)?;
            }
        }
        Ok(())
    }
}

/// Where the send counter of a record is.
fn counter(record: u64) -> Result<u64, DmaError> {
    record.checked_add(4).ok_or(DmaError {
        addr: record,
        len: 8,
    })
}

/// The head of a BlueFlame copy and the length of its WQE, if the copy holds the WQE as a whole.
fn whole(copy: &[u8], waiting: u16) -> Option<(Head, usize)> {
    let head = Head::decode(copy.first_chunk()?);
    let len = usize::from(head.ds) * DS;
    (head.ds != 0 && len <= copy.len() && blocks(head.ds) <= waiting).then_some((head, len))
}

#[cfg(test)]
mod tests;
