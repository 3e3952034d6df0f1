// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receive WQEs: where a message may be put.
//!
//! Posting a receive is silent: the driver writes the WQE and counts it in the doorbell record, which the device reads
//! when a message arrives.

use super::work::{Piece, Pieces};
use crate::buffer::QueueBuffer;
use crate::dma::{DmaError, Kind};
use crate::io::Io;
use crate::mkey::RESERVED_LKEY;
use crate::wqe::data::{Data, SIZE};

/// Where the completion of a receive goes, and word 0x20 of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    pub cqn: u32,
    pub number: u32,
}

/// A receive WQE that was taken from its queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveWqe {
    /// For the completion: counter of a queue of its own, index in a shared one.
    pub index: u16,
    /// Protection domain of a shared queue, which its segments are checked against.
    pub pd: Option<u32>,
    /// What an XRC SRQ says of its completions, instead of the queue pair.
    pub report: Option<Report>,
    pub segments: Pieces,
}

/// The data segments of a receive WQE, up to the one that ends the list or the end of the WQE.
pub fn segments(bytes: &[u8]) -> Pieces {
    let mut out = Pieces::default();
    for chunk in bytes.chunks_exact(SIZE) {
        let Some(data) = chunk.first_chunk().map(Data::decode) else {
            break;
        };
        if data.byte_count == 0 && data.lkey == RESERVED_LKEY {
            break;
        }
        let piece = Piece::Pointer {
            len: match data.byte_count & 0x7fff_ffff {
                0 => 1 << 31,
                n => n.into(),
            },
            lkey: data.lkey,
            addr: data.addr,
        };
        out.len = out.len.saturating_add(piece.len());
        out.pieces.push(piece);
    }
    out
}

/// Why a receive queue of its own gives no WQE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveError {
    /// More WQEs are posted than the queue has room for.
    Overrun,
    /// The queue or its record cannot be read.
    Dma(DmaError),
}

impl From<DmaError> for ReceiveError {
    fn from(error: DmaError) -> Self {
        ReceiveError::Dma(error)
    }
}

/// The receive queue of a queue pair.
#[derive(Clone, Debug)]
pub struct ReceiveRing {
    /// Base 2 logarithm of the number of WQEs.
    pub log_size: u8,
    /// Bytes of a WQE.
    pub stride: usize,
    /// WQEs posted as last read from the record, and consumed, modulo 65536.
    posted: u16,
    consumed: u16,
}

impl ReceiveRing {
    /// An empty queue.
    pub fn new(log_size: u8, stride: usize) -> Self {
        ReceiveRing {
            log_size,
            stride,
            posted: 0,
            consumed: 0,
        }
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> u64 {
        (self.stride as u64) << self.log_size
    }

    /// WQEs consumed, modulo 65536.
    pub fn consumed(&self) -> u16 {
        self.consumed
    }

    /// WQEs posted as last seen, modulo 65536.
    pub fn posted(&self) -> u16 {
        self.posted
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        self.posted = 0;
        self.consumed = 0;
    }

    /// Is a WQE posted? Reads the record only if all WQEs known so far are consumed.
    ///
    /// # Errors
    ///
    /// See [`ReceiveError`].
    pub fn has_wqe(&mut self, io: &mut Io, record: u64) -> Result<bool, ReceiveError> {
        if self.posted == self.consumed {
            self.posted = io.memory.read_be32(Kind::DoorbellRecord, record)? as u16;
        }
        let waiting = self.posted.wrapping_sub(self.consumed);
        if u32::from(waiting) > 1 << self.log_size {
            return Err(ReceiveError::Overrun);
        }
        Ok(waiting != 0)
    }

    /// Takes the next WQE; `None` if none is posted. The ring starts at the first byte of `buffer`.
    ///
    /// # Errors
    ///
    /// See [`ReceiveError`].
    pub fn pop(
        &mut self,
        io: &mut Io,
        buffer: &QueueBuffer,
        record: u64,
    ) -> Result<Option<ReceiveWqe>, ReceiveError> {
        if !self.has_wqe(io, record)? {
            return Ok(None);
        }
        let index = self.consumed;
        let slot = u64::from(index) & ((1 << self.log_size) - 1);
        let mut bytes = vec![0; self.stride];
        buffer.read(
            &mut io.memory,
            Kind::RecvWqeFetch,
            slot * self.stride as u64,
            &mut bytes,
        )?;
        self.consumed = index.wrapping_add(1);
        io.counters.recv_wqes += 1;
        Ok(Some(ReceiveWqe {
            index,
            pd: None,
            report: None,
            segments: segments(&bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::GuestMemory;

    #[test]
    fn the_list_ends_at_its_terminator() {
        let seg = |byte_count, lkey| {
            Data {
                byte_count,
                lkey,
                addr: 0x10,
            }
            .encode()
        };
        let bytes = [seg(8, 1), seg(0, RESERVED_LKEY), seg(8, 2)].concat();
        let pieces = segments(&bytes);
        assert_eq!((pieces.pieces.len(), pieces.len), (1, 8));
        assert_eq!(segments(&[seg(4, 1), seg(5, 2)].concat()).len, 9);
        assert_eq!(segments(&seg(0, 1)).len, 1 << 31);
        assert_eq!(segments(&[0; 15]).pieces.len(), 0);
    }

    #[test]
    fn the_ring_wraps_at_16_bits_and_notices_an_overrun() {
        let mut io = Io::new(None);
        io.memory = GuestMemory::anonymous(0, 0x2000);
        let buffer = QueueBuffer::new(vec![0x1000], 0, 0, 0x100).unwrap();
        let mut ring = ReceiveRing::new(2, 16);
        for i in 0..0x1_0010u32 {
            io.memory
                .write(Kind::Payload, 0, &((i + 1) & 0xffff).to_be_bytes())
                .unwrap();
            let wqe = ring.pop(&mut io, &buffer, 0).unwrap().unwrap();
            assert_eq!(u32::from(wqe.index), i & 0xffff);
            assert_eq!(ring.pop(&mut io, &buffer, 0), Ok(None));
        }
        let too_many = u32::from(ring.consumed()) + 5;
        io.memory
            .write(Kind::Payload, 0, &too_many.to_be_bytes())
            .unwrap();
        assert_eq!(ring.pop(&mut io, &buffer, 0), Err(ReceiveError::Overrun));
        assert!(matches!(
            ReceiveRing::new(2, 16).pop(&mut io, &buffer, 0x8000),
            Err(ReceiveError::Dma(_))
        ));
    }
}
