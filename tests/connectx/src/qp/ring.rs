// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The send queue in guest memory.
//!
//! Its unit is the basic block of 64 bytes; counters of blocks are 16 bits wide and run on. What is posted is told by
//! the doorbell record alone; the doorbell register only makes the device look.

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
    /// A doorbell came in since the record was last read.
    rung: bool,
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
            rung: false,
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

    /// A doorbell came in.
    pub fn ring(&mut self, index: u16, blueflame: Option<Vec<u8>>) {
        self.rung = true;
        if let Some(copy) = blueflame {
            self.blueflame = Some((index, copy));
        }
    }

    /// Makes the next [`poll`](Self::poll) read the record although no doorbell came.
    pub fn look(&mut self) {
        self.rung = true;
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
        self.rung || self.posted != self.fetched
    }

    /// Reads the record if a doorbell came in.
    ///
    /// # Errors
    ///
    /// See [`RingError`].
    pub fn poll(&mut self, io: &mut Io, record: u64) -> Result<(), RingError> {
        if !self.rung {
            return Ok(());
        }
        self.rung = false;
        let word = record.checked_add(4).ok_or(DmaError {
            addr: record,
            len: 8,
        })?;
        self.posted = io.memory.read_be32(Kind::DoorbellRecord, word)? as u16;
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

/// The head of a BlueFlame copy and the length of its WQE, if the copy holds the WQE as a whole.
fn whole(copy: &[u8], waiting: u16) -> Option<(Head, usize)> {
    let head = Head::decode(copy.first_chunk()?);
    let len = usize::from(head.ds) * DS;
    (head.ds != 0 && len <= copy.len() && blocks(head.ds) <= waiting).then_some((head, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::GuestMemory;
    use crate::wqe::opcode::Opcode;

    const RECORD: u64 = 0x3000;

    struct Bench {
        io: Io,
        buffer: QueueBuffer,
        ring: SendRing,
    }

    impl Bench {
        /// A ring of 4 blocks at 0x1000.
        fn new() -> Self {
            let mut io = Io::new(None);
            io.memory = GuestMemory::anonymous(0, 0x4000);
            Bench {
                io,
                buffer: QueueBuffer::new(vec![0x1000], 0, 0, 0x100).unwrap(),
                ring: SendRing::new(2, 0),
            }
        }

        fn put(&mut self, index: u16, ds: u8, fill: u8) {
            let head = Head {
                opmod: 0,
                index,
                opcode: Opcode::NOP,
                qpn: 1,
                ds,
            };
            let mut bytes = vec![fill; usize::from(blocks(ds).max(1)) * BB];
            bytes[..8].copy_from_slice(&head.encode());
            for (i, block) in bytes.chunks(BB).enumerate() {
                let slot = (u64::from(index) + i as u64) & 3;
                self.io
                    .memory
                    .write(Kind::Payload, 0x1000 + slot * 64, block)
                    .unwrap();
            }
        }

        fn post(&mut self, counter: u16) {
            let word = u32::from(counter).to_be_bytes();
            self.io
                .memory
                .write(Kind::Payload, RECORD + 4, &word)
                .unwrap();
        }

        fn next(&mut self) -> Option<Fetched> {
            self.ring.poll(&mut self.io, RECORD).unwrap();
            self.ring.fetch(&mut self.io, &self.buffer).unwrap()
        }
    }

    #[test]
    fn a_doorbell_without_its_record_fetches_nothing() {
        let mut b = Bench::new();
        b.put(0, 1, 1);
        b.ring.ring(0, None);
        assert_eq!(b.next(), None);
        b.post(1);
        assert_eq!(b.next(), None, "the record is read on a doorbell only");
        b.ring.ring(0, None);
        assert_eq!(b.next().map(|f| f.index), Some(0));
    }

    #[test]
    fn wqes_wrap_at_the_end_of_the_ring_and_of_the_counter() {
        let mut b = Bench::new();
        let mut index = 0u16;
        for round in 0..50_000u32 {
            let ds = (round % 12 + 1) as u8;
            b.put(index, ds, round as u8);
            let next = index.wrapping_add(blocks(ds));
            b.post(next);
            b.ring.ring(index, None);
            let f = b.next().unwrap();
            assert_eq!((f.index, f.blocks), (index, blocks(ds)));
            let bytes = f.bytes.unwrap();
            assert_eq!(bytes.len(), usize::from(ds) * DS);
            assert!(bytes[8..].iter().all(|b| *b == round as u8));
            b.ring.complete(next);
            index = next;
        }
    }

    #[test]
    fn an_overrun_is_an_error() {
        let mut b = Bench::new();
        b.post(5);
        b.ring.ring(0, None);
        assert_eq!(b.ring.poll(&mut b.io, RECORD), Err(RingError::Overrun));
    }

    #[test]
    fn lengths_that_make_no_sense_take_one_block() {
        let mut b = Bench::new();
        b.put(0, 0, 0);
        b.put(1, 9, 0);
        b.post(3);
        b.ring.ring(0, None);
        for index in [0, 1] {
            let f = b.next().unwrap();
            assert_eq!((f.index, f.blocks, f.bytes), (index, 1, None));
        }
    }

    #[test]
    fn a_whole_copy_replaces_the_fetch() {
        let mut b = Bench::new();
        b.put(0, 4, 1);
        let mut copy = vec![2; 64];
        copy[..8].copy_from_slice(
            &Head {
                opmod: 0,
                index: 0,
                opcode: Opcode::NOP,
                qpn: 1,
                ds: 4,
            }
            .encode(),
        );
        b.post(1);
        b.ring.ring(0, Some(copy.clone()));
        assert_eq!(b.next().unwrap().bytes, Some(copy.clone()));
        assert_eq!(b.io.memory.reads(Kind::WqeFetch).accesses, 0);
        assert_eq!(b.io.counters.wqes_from_blueflame, 1);

        // Longer than the copy: fetched from memory.
        b.ring.complete(1);
        b.put(1, 5, 3);
        copy[7] = 5;
        b.post(3);
        b.ring.ring(1, Some(copy));
        assert_eq!(b.next().unwrap().bytes.map(|b| b[70]), Some(3));
        assert_eq!(b.io.counters.wqes_from_blueflame, 1);
    }
}
