// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a disk and its target tell each other when they connect: private data of rdma_cm.
//!
//! Numbers are little-endian. A request: magic (4 bytes), index of the queue (4), the disk's number (8).
//! An answer: magic (4), key (4), address (8), bytes (8), incarnation (8).

/// The least memory that is a disk, bytes.
const SECTOR: u64 = 512;
/// First bytes of both; the last digit is the version.
const MAGIC: [u8; 4] = *b"ulp1";
/// Bytes of a request.
pub(crate) const REQUEST: usize = 16;
/// Bytes of an answer.
pub(crate) const ANSWER: usize = 32;

/// Who wants to connect: a queue of a disk, by the number that the disk has chosen and the queue's index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guest {
    /// A random number, the same as long as there is the disk.
    pub(crate) disk: u64,
    /// Which of its queues.
    pub(crate) index: u32,
}

/// What a target tells about its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its first byte.
    pub(crate) address: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// The key.
    pub(crate) rkey: u32,
    /// A random number, chosen when the memory was made.
    pub(crate) incarnation: u64,
}

/// The `N` bytes at `at`.
fn part<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk::<N>().copied()
}

/// Puts `bytes` at `at`.
fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in data.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

impl Guest {
    /// As bytes.
    pub(crate) fn encode(&self) -> [u8; REQUEST] {
        let mut data = [0; REQUEST];
        put(&mut data, 0, &MAGIC);
        put(&mut data, 4, &self.index.to_le_bytes());
        put(&mut data, 8, &self.disk.to_le_bytes());
        data
    }

    /// From bytes, which may be anything.
    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        (part(data, 0)? == MAGIC).then_some(())?;
        Some(Self {
            index: u32::from_le_bytes(part(data, 4)?),
            disk: u64::from_le_bytes(part(data, 8)?),
        })
    }
}

impl Peer {
    /// As bytes.
    pub(crate) fn encode(&self) -> [u8; ANSWER] {
        let mut data = [0; ANSWER];
        put(&mut data, 0, &MAGIC);
        put(&mut data, 4, &self.rkey.to_le_bytes());
        put(&mut data, 8, &self.address.to_le_bytes());
        put(&mut data, 16, &self.bytes.to_le_bytes());
        put(&mut data, 24, &self.incarnation.to_le_bytes());
        data
    }

    /// From bytes, which may be anything. What is no memory for a disk is no answer: less than a sector, or more than there
    /// are addresses.
    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        (part(data, 0)? == MAGIC).then_some(())?;
        let peer = Self {
            rkey: u32::from_le_bytes(part(data, 4)?),
            address: u64::from_le_bytes(part(data, 8)?),
            bytes: u64::from_le_bytes(part(data, 16)?),
            incarnation: u64::from_le_bytes(part(data, 24)?),
        };
        let fits = peer.bytes >= SECTOR && peer.address.checked_add(peer.bytes).is_some();
        fits.then_some(peer)
    }
}
