// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The memory of a queue: a list of pages that the driver handed over when it created the queue.

use crate::dma::{DmaError, GuestMemory, Kind};

/// Pages of a queue, addressed by byte offset from the queue's first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueBuffer {
    pages: Vec<u64>,
    page_shift: u32,
    /// Where in the first page the queue starts.
    start: u64,
}

/// The page list does not hold the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall;

impl QueueBuffer {
    /// A queue of `len` bytes in `pages`, each `4096 << log_page_size` long. It starts `page_offset` 64ths of a page
    /// into the first one, the unit of all queue contexts.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] when the pages end before the queue does, or the page size has more than 63 bits.
    pub fn new(
        mut pages: Vec<u64>,
        log_page_size: u32,
        page_offset: u64,
        len: u64,
    ) -> Result<Self, TooSmall> {
        let page_shift = log_page_size + 12;
        let page = 1u64.checked_shl(page_shift).ok_or(TooSmall)?;
        let start = (page / 64).checked_mul(page_offset).ok_or(TooSmall)?;
        let room = page.checked_mul(pages.len() as u64).ok_or(TooSmall)?;
        let end = start.checked_add(len).ok_or(TooSmall)?;
        if end > room {
            return Err(TooSmall);
        }
        // A guest may send megabytes of list with each of many small queues.
        let needed = end.div_ceil(page);
        pages.truncate(usize::try_from(needed).unwrap_or(usize::MAX));
        pages.shrink_to_fit();
        Ok(QueueBuffer {
            pages,
            page_shift,
            start,
        })
    }

    /// The big-endian page addresses of a command, as many as there are.
    pub fn page_list(bytes: &[u8]) -> Vec<u64> {
        bytes
            .chunks_exact(8)
            .filter_map(|chunk| chunk.try_into().ok())
            .map(u64::from_be_bytes)
            .collect()
    }

    /// The page addresses, for queries.
    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// The guest address of the byte at `offset` and the number of bytes that follow it in its page.
    fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let at = self.start.checked_add(offset)?;
        let page_size = 1u64.checked_shl(self.page_shift)?;
        let page = self
            .pages
            .get(usize::try_from(at >> self.page_shift).ok()?)?;
        let in_page = at & (page_size - 1);
        // The low bits of a page address are flags or reserved.
        Some(((page & !0xfff).checked_add(in_page)?, page_size - in_page))
    }

    /// Calls `f(address, range of the buffer)` for each piece of `len` bytes at `offset` that lies in one page.
    fn pieces(
        &self,
        offset: u64,
        len: usize,
        mut f: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), DmaError>,
    ) -> Result<(), DmaError> {
        let mut done = 0;
        while done < len {
            let (addr, rest) = self
                .locate(offset.wrapping_add(done as u64))
                .ok_or(DmaError { addr: offset, len })?;
            let n = usize::try_from(rest).unwrap_or(len).min(len - done);
            f(addr, done..done + n)?;
            done += n;
        }
        Ok(())
    }

    /// Reads from the queue.
    ///
    /// # Errors
    ///
    /// When the pages do not reach so far or are not mapped.
    pub fn read(
        &self,
        memory: &mut GuestMemory,
        kind: Kind,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), DmaError> {
        let len = out.len();
        self.pieces(offset, len, |addr, range| {
            memory.read(kind, addr, out.get_mut(range).unwrap_or_default())
        })
    }

    /// Writes an entry that lies within one page, its last byte after all others (see [`GuestMemory::write_entry`]).
    ///
    /// # Errors
    ///
    /// When the pages do not reach so far, the entry crosses a page, or the page is not mapped.
    pub fn write_entry(
        &self,
        memory: &mut GuestMemory,
        kind: Kind,
        offset: u64,
        entry: &[u8],
    ) -> Result<(), DmaError> {
        let error = DmaError {
            addr: offset,
            len: entry.len(),
        };
        let (addr, rest) = self.locate(offset).ok_or(error)?;
        if rest < entry.len() as u64 {
            return Err(error);
        }
        memory.write_entry(kind, addr, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_across_pages_in_list_order() {
        let mut m = GuestMemory::anonymous(0, 0x4000);
        m.write(Kind::Payload, 0x3ffc, &[1, 2, 3, 4]).unwrap();
        m.write(Kind::Payload, 0x1000, &[5, 6, 7, 8]).unwrap();
        let b = QueueBuffer::new(vec![0x3000, 0x1000], 0, 0, 0x2000).unwrap();
        let mut out = [0; 8];
        b.read(&mut m, Kind::WqeFetch, 0xffc, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(b.read(&mut m, Kind::WqeFetch, 0x1ffc, &mut out).is_err());
    }

    #[test]
    fn a_queue_must_fit_its_pages() {
        assert!(QueueBuffer::new(vec![0; 2], 0, 0, 0x2000).is_ok());
        assert_eq!(QueueBuffer::new(vec![0; 2], 0, 1, 0x2000), Err(TooSmall));
        assert_eq!(QueueBuffer::new(vec![], 0, 0, 1), Err(TooSmall));
        assert_eq!(QueueBuffer::new(vec![0], 60, 0, 1), Err(TooSmall));
        assert!(QueueBuffer::new(vec![0], 1, 32, 0x1000).is_ok());
    }

    #[test]
    fn pages_behind_the_queue_are_not_kept() {
        for (len, kept) in [(0, 0), (1, 1), (0x1000, 1), (0x1001, 2)] {
            let buffer = QueueBuffer::new(vec![0; 1000], 0, 0, len).unwrap();
            assert_eq!(buffer.pages().len(), kept, "{len}");
            assert_eq!(buffer.pages.capacity(), kept, "{len}");
        }
        let buffer = QueueBuffer::new(vec![0; 1000], 0, 32, 0x1000).unwrap();
        assert_eq!(buffer.pages().len(), 2);
    }

    #[test]
    fn an_entry_does_not_cross_a_page() {
        let mut m = GuestMemory::anonymous(0, 0x2000);
        let b = QueueBuffer::new(vec![0x0, 0x1000], 0, 0, 0x2000).unwrap();
        assert!(b.write_entry(&mut m, Kind::Cqe, 0xfc0, &[1; 64]).is_ok());
        assert!(b.write_entry(&mut m, Kind::Cqe, 0xfe0, &[1; 64]).is_err());
    }
}
