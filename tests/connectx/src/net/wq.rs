// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ring that SQs and RQs have in common (`mlx5_ifc_wq_bits`).

use crate::buffer::QueueBuffer;
use crate::caps::LOG_MAX_WQ_SIZE;
use crate::cmd::{bad_param, CmdError, CmdResult, Status};
use crate::dma::{DmaError, Kind};
use crate::field;
use crate::ifc;
use crate::io::Io;

/// `wq_type` of a ring without links between the WQEs.
const CYCLIC: u32 = 1;

/// A ring of WQEs in guest memory.
#[derive(Debug)]
pub struct WorkQueue {
    buffer: QueueBuffer,
    log_size: u32,
    log_stride: u32,
    /// Address of the doorbell record.
    record: u64,
    /// Protection domain; 0 is none, for a queue that accesses no memory.
    pub pd: u32,
}

impl WorkQueue {
    /// A ring as `bytes` describe it: a `wq` structure with the page list behind it.
    ///
    /// # Errors
    ///
    /// `BAD_PARAM` for what the device cannot do, `BAD_SIZE` beyond its limits, `BAD_INPUT_LEN`
    /// when pages are missing.
    pub fn parse(bytes: &[u8]) -> CmdResult<Self> {
        let get = |field| ifc::get(bytes, field);
        if get(field!(mlx5_ifc_wq_bits, wq_type)) != CYCLIC {
            return bad_param("work queue is not cyclic");
        }
        if get(field!(mlx5_ifc_wq_bits, dbr_umem_valid)) != 0
            || get(field!(mlx5_ifc_wq_bits, wq_umem_valid)) != 0
        {
            return bad_param("work queue in a umem");
        }
        let log_size = get(field!(mlx5_ifc_wq_bits, log_wq_sz));
        let log_stride = get(field!(mlx5_ifc_wq_bits, log_wq_stride));
        if log_size > LOG_MAX_WQ_SIZE || !(4..=9).contains(&log_stride) {
            return Err(CmdError::new(Status::BadSize, "work queue is too large"));
        }
        let pages = field!(mlx5_ifc_wq_bits, pas).byte_offset();
        let pages = QueueBuffer::page_list(bytes.get(pages..).unwrap_or(&[]));
        let log_page = get(field!(mlx5_ifc_wq_bits, log_wq_pg_sz));
        let offset = get(field!(mlx5_ifc_wq_bits, page_offset));
        let len = 1 << (log_size + log_stride);
        let buffer = QueueBuffer::new(pages, log_page, offset.into(), len);
        let buffer =
            buffer.map_err(|_| CmdError::new(Status::BadInputLen, "page list is too short"))?;
        Ok(Self {
            buffer,
            log_size,
            log_stride,
            record: ifc::get64(bytes, field!(mlx5_ifc_wq_bits, dbr_addr)),
            pd: get(field!(mlx5_ifc_wq_bits, pd)),
        })
    }

    /// Bytes of a WQE (RQ) or of a basic block (SQ).
    pub fn stride(&self) -> usize {
        1 << self.log_stride
    }

    /// Number of WQEs or basic blocks in the ring.
    pub fn size(&self) -> u32 {
        1 << self.log_size
    }

    /// WQEs (RQ) or basic blocks (SQ) that are posted from entry `consumer` on, by the producer counter in word `word`
    /// of the doorbell record. A driver that posts more than fits is told from others by [`WorkQueue::size`].
    ///
    /// # Errors
    ///
    /// When the record is not mapped.
    pub fn posted(&self, io: &mut Io, word: u64, consumer: u16) -> Result<u16, DmaError> {
        let addr = self.record.wrapping_add(4 * word);
        let producer = io.memory.read_be32(Kind::DoorbellRecord, addr)? as u16;
        Ok(producer.wrapping_sub(consumer))
    }

    /// Reads `buf.len()` bytes of the ring from the start of entry `index`; wraps at the end.
    ///
    /// # Errors
    ///
    /// When the ring is not mapped.
    pub fn read(
        &self,
        io: &mut Io,
        kind: Kind,
        index: u16,
        buf: &mut [u8],
    ) -> Result<(), DmaError> {
        let len = u64::from(self.size()) << self.log_stride;
        let start = (u64::from(index) << self.log_stride) % len;
        let first = buf.len().min((len - start) as usize);
        let (head, tail) = buf.split_at_mut(first);
        self.buffer.read(&mut io.memory, kind, start, head)?;
        if !tail.is_empty() {
            self.buffer.read(&mut io.memory, kind, 0, tail)?;
        }
        Ok(())
    }
}
