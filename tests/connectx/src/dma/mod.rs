// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of the guest as one function sees it.
//!
//! A VMM maps and unmaps ranges of guest-physical memory while the guest runs; [`GuestMemory`]
//! keeps them in an interval map. Every access is checked against it, counted by [`Kind`] with
//! the 64-byte cache lines it touches, and made with volatile or atomic instructions, because
//! the guest's CPUs access the same memory at the same time.

mod mapping;
mod traffic;

use std::collections::BTreeMap;
use std::fs::File;

pub use traffic::{Kind, Traffic};

use mapping::Mapping;

/// An access that the mapped memory does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaError {
    /// First address of the access.
    pub addr: u64,
    /// Length of the access in bytes.
    pub len: usize,
}

impl std::fmt::Display for DmaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no memory at {:#x}, {} bytes", self.addr, self.len)
    }
}

impl std::error::Error for DmaError {}

/// The mapped ranges of guest memory and the count of accesses to them.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// Ranges by their first address; they never overlap.
    ranges: BTreeMap<u64, Mapping>,
    /// The function is no bus master: nothing of memory can be reached.
    blocked: bool,
    reads: [Traffic; Kind::ALL.len()],
    writes: [Traffic; Kind::ALL.len()],
}

impl GuestMemory {
    /// Guest memory without any range.
    pub fn new() -> Self {
        Self::default()
    }

    /// Guest memory of this process's own: `size` zero bytes at `addr`. For tests.
    pub fn anonymous(addr: u64, size: usize) -> Self {
        let mut memory = Self::new();
        let mapping = Mapping::anonymous(size).expect("memory for a test");
        memory.ranges.insert(addr, mapping);
        memory
    }

    /// Maps `size` bytes of `file` from `offset` at guest address `addr`.
    ///
    /// # Errors
    ///
    /// When the range is empty, wraps, overlaps a mapped one, lies beyond the end of the file, or
    /// cannot be mapped.
    pub fn map(
        &mut self,
        addr: u64,
        size: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> std::io::Result<()> {
        let invalid = |what| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what));
        let Some(last) = size.checked_sub(1).and_then(|n| addr.checked_add(n)) else {
            return invalid("range is empty or wraps");
        };
        if self.overlaps(addr, last) {
            return invalid("range overlaps a mapped one");
        }
        let mapping = Mapping::file(file, offset, size, writable)?;
        self.ranges.insert(addr, mapping);
        Ok(())
    }

    fn overlaps(&self, first: u64, last: u64) -> bool {
        self.ranges
            .range(..=last)
            .next_back()
            .is_some_and(|(start, m)| start.saturating_add(m.len() as u64 - 1) >= first)
    }

    /// Unmaps every range that lies inside the `size` bytes at `addr`, and returns how many.
    pub fn unmap(&mut self, addr: u64, size: u64) -> usize {
        let end = addr.saturating_add(size);
        let gone: Vec<u64> = self
            .ranges
            .range(addr..end)
            .filter(|(start, m)| start.saturating_add(m.len() as u64) <= end)
            .map(|(start, _)| *start)
            .collect();
        for start in &gone {
            self.ranges.remove(start);
        }
        gone.len()
    }

    /// Blocks all accesses of a function that is no bus master, or lets them pass again.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Are all accesses blocked?
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Unmaps everything.
    pub fn unmap_all(&mut self) {
        self.ranges.clear();
    }

    /// The mapping that holds `addr`, the offset in it, and how many bytes follow.
    fn locate(&self, addr: u64) -> Option<(&Mapping, usize, usize)> {
        if self.blocked {
            return None;
        }
        let (start, mapping) = self.ranges.range(..=addr).next_back()?;
        let offset = usize::try_from(addr - start).ok()?;
        let rest = mapping.len().checked_sub(offset)?;
        (rest > 0).then_some((mapping, offset, rest))
    }

    /// Calls `f(mapping, offset, range of the buffer)` for each piece of an access.
    ///
    /// Nothing is called unless all of the access is mapped (and, for writes, writable).
    fn pieces(
        &self,
        addr: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(&Mapping, usize, std::ops::Range<usize>),
    ) -> Result<(), DmaError> {
        let error = DmaError { addr, len };
        for dry in [true, false] {
            let mut done = 0;
            while done < len {
                let at = addr.checked_add(done as u64).ok_or(error)?;
                let (mapping, offset, rest) = self.locate(at).ok_or(error)?;
                if write && !mapping.writable() {
                    return Err(error);
                }
                let n = rest.min(len - done);
                if !dry {
                    f(mapping, offset, done..done + n);
                }
                done += n;
            }
        }
        Ok(())
    }

    /// Reads guest memory.
    ///
    /// # Errors
    ///
    /// When part of the range is not mapped; `buf` is then unchanged.
    pub fn read(&mut self, kind: Kind, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.pieces(addr, buf.len(), false, |mapping, offset, range| {
            if let Some(part) = buf.get_mut(range) {
                mapping.read(offset, part);
            }
        })?;
        self.reads[kind as usize].add(addr, buf.len());
        Ok(())
    }

    /// Writes guest memory.
    ///
    /// # Errors
    ///
    /// When part of the range is not mapped or is read-only; nothing is written then.
    pub fn write(&mut self, kind: Kind, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.store(addr, buf)?;
        self.writes[kind as usize].add(addr, buf.len());
        Ok(())
    }

    fn store(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.pieces(addr, buf.len(), true, |mapping, offset, range| {
            if let Some(part) = buf.get(range) {
                mapping.write(offset, part);
            }
        })
    }

    /// Writes a queue entry whose last byte tells the driver that it is there: all other bytes
    /// first, then the last one with release ordering.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_entry(&mut self, kind: Kind, addr: u64, entry: &[u8]) -> Result<(), DmaError> {
        let Some((owner, body)) = entry.split_last() else {
            return Ok(());
        };
        let error = DmaError {
            addr,
            len: entry.len(),
        };
        let last = addr.checked_add(body.len() as u64).ok_or(error)?;
        self.pieces(addr, entry.len(), true, |_, _, _| ())?;
        self.store(addr, body)?;
        let (mapping, offset, _) = self.locate(last).ok_or(error)?;
        mapping.store_release(offset, *owner);
        self.writes[kind as usize].add(addr, entry.len());
        Ok(())
    }

    /// Reads a big-endian 32-bit word with one access, acquire ordering.
    ///
    /// # Errors
    ///
    /// When the word is not mapped or `addr` is not a multiple of 4.
    pub fn read_be32(&mut self, kind: Kind, addr: u64) -> Result<u32, DmaError> {
        let value = self.peek_be32(addr)?;
        self.count_read(kind, addr, 4);
        Ok(value)
    }

    /// The same, without being counted: for what a device may have read now, but it is not known yet whether it has.
    ///
    /// # Errors
    ///
    /// As [`GuestMemory::read_be32`].
    pub fn peek_be32(&self, addr: u64) -> Result<u32, DmaError> {
        let error = DmaError { addr, len: 4 };
        let (mapping, offset, rest) = self.locate(addr).ok_or(error)?;
        if rest < 4 {
            return Err(error);
        }
        let value = mapping.load_u32(offset).ok_or(error)?;
        Ok(u32::from_be(value))
    }

    /// Counts what was read by [`GuestMemory::peek_be32`] after all.
    pub fn count_read(&mut self, kind: Kind, addr: u64, len: usize) {
        self.reads[kind as usize].add(addr, len);
    }

    /// Replaces the 64-bit word at `addr`, as the host CPU sees it, by `f` of it, atomically
    /// against the guest's CPUs and other functions. Returns the old value.
    ///
    /// # Errors
    ///
    /// When the word is not mapped, is read-only, or `addr` is not a multiple of 8.
    pub fn update_u64(&mut self, addr: u64, f: impl Fn(u64) -> u64) -> Result<u64, DmaError> {
        let error = DmaError { addr, len: 8 };
        let (mapping, offset, rest) = self.locate(addr).ok_or(error)?;
        if rest < 8 || !mapping.writable() {
            return Err(error);
        }
        let old = mapping.update_u64(offset, f).ok_or(error)?;
        self.reads[Kind::Atomic as usize].add(addr, 8);
        self.writes[Kind::Atomic as usize].add(addr, 8);
        Ok(old)
    }

    /// Reads of one kind so far.
    pub fn reads(&self, kind: Kind) -> Traffic {
        self.reads[kind as usize]
    }

    /// Writes of one kind so far.
    pub fn writes(&self, kind: Kind) -> Traffic {
        self.writes[kind as usize]
    }

    /// Starts counting from zero.
    pub fn reset_traffic(&mut self) {
        self.reads = Default::default();
        self.writes = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_may_cross_adjacent_ranges_but_no_hole() {
        let mut m = GuestMemory::anonymous(0x1000, 0x1000);
        m.ranges.insert(0x2000, Mapping::anonymous(0x1000).unwrap());
        m.write(Kind::Payload, 0x1ffc, &[1, 2, 3, 4, 5, 6, 7, 8])
            .unwrap();
        let mut buf = [0; 8];
        m.read(Kind::Payload, 0x1ffc, &mut buf).unwrap();
        assert_eq!(buf, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(m.write(Kind::Payload, 0x2ffc, &[9; 8]).is_err());
        m.read(Kind::Payload, 0x2ffc, &mut buf[..4]).unwrap();
        assert_eq!(buf[..4], [0; 4], "a refused write must write nothing");
        assert!(m.read(Kind::Payload, 0xfff, &mut buf).is_err());
        assert!(m.read(Kind::Payload, u64::MAX - 2, &mut buf).is_err());
    }

    #[test]
    fn traffic_counts_cache_lines() {
        let mut m = GuestMemory::anonymous(0, 0x1000);
        m.write(Kind::Cqe, 0x40, &[0; 64]).unwrap();
        m.write(Kind::Cqe, 0x7f, &[0; 2]).unwrap();
        let t = m.writes(Kind::Cqe);
        assert_eq!((t.accesses, t.bytes, t.lines), (2, 66, 3));
        assert_eq!(m.reads(Kind::Cqe), Traffic::default());
    }

    #[test]
    fn entries_are_written_whole_or_not_at_all() {
        let mut m = GuestMemory::anonymous(0, 0x1000);
        m.write_entry(Kind::Cqe, 0x100, &[7; 64]).unwrap();
        let mut buf = [0; 64];
        m.read(Kind::Cqe, 0x100, &mut buf).unwrap();
        assert_eq!(buf, [7; 64]);
        assert!(m.write_entry(Kind::Cqe, 0xfff, &[1; 64]).is_err());
        m.read(Kind::Cqe, 0xfff, &mut buf[..1]).unwrap();
        assert_eq!(buf[0], 0);
    }

    #[test]
    fn atomics_need_alignment() {
        let mut m = GuestMemory::anonymous(0, 0x1000);
        m.write(Kind::Payload, 8, &5u64.to_ne_bytes()).unwrap();
        assert_eq!(m.update_u64(8, |v| v + 3).unwrap(), 5);
        assert_eq!(m.update_u64(8, |v| v).unwrap(), 8);
        assert!(m.update_u64(4, |v| v).is_err());
        assert!(m.update_u64(0x1000, |v| v).is_err());
    }

    #[test]
    fn without_the_bus_nothing_is_reached() {
        let mut m = GuestMemory::anonymous(0, 0x1000);
        m.set_blocked(true);
        assert!(m.read(Kind::Payload, 0, &mut [0]).is_err());
        assert!(m.write(Kind::Payload, 0, &[1]).is_err());
        assert!(m.write_entry(Kind::Cqe, 0, &[1; 64]).is_err());
        assert!(m.read_be32(Kind::DoorbellRecord, 0).is_err());
        assert!(m.update_u64(0, |v| v + 1).is_err());
        m.set_blocked(false);
        let mut byte = [9];
        m.read(Kind::Payload, 0, &mut byte).unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    fn unmapping_takes_the_ranges_inside() {
        let mut m = GuestMemory::anonymous(0x1000, 0x1000);
        assert_eq!(m.unmap(0x1000, 0x800), 0);
        assert_eq!(m.unmap(0, 0x10000), 1);
        assert!(m.read(Kind::Payload, 0x1000, &mut [0]).is_err());
    }

    #[test]
    fn a_file_range_must_exist_and_not_overlap() {
        let path = std::env::temp_dir().join(format!("connectx-dma-{}", std::process::id()));
        std::fs::write(&path, vec![0u8; 0x2000]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut m = GuestMemory::new();
        m.map(0x1000, 0x1000, &file, 0x1000, true).unwrap();
        assert!(m.map(0x1fff, 0x1000, &file, 0, true).is_err());
        assert!(m.map(0x4000, 0x1000, &file, 0x2000, true).is_err());
        assert!(m.map(0x4000, 0, &file, 0, true).is_err());
        m.map(0x4000, 0x1000, &file, 0, false).unwrap();
        assert!(m.write(Kind::Payload, 0x4000, &[1]).is_err());
        assert!(m.read(Kind::Payload, 0x4000, &mut [1]).is_ok());
    }
}
