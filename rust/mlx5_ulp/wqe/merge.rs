// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Merging: several WRITEs in one WQE.
//!
//! WRITEs that follow each other in the queue and whose remote ranges follow each other in one remote key
//! are one WRITE to the HCA: one control and one remote address segment, and a data segment for each
//! local range. Local ranges that follow each other in one local key share a data segment. The HCA
//! gathers in the order of the segments, so the same bytes arrive at the same places in the same order.
//!
//! Each request keeps its own completion: the WQE covers a row of requests ([`Group::requests`]) that
//! retire together, in order. When it fails, nobody knows how far it came, so all of them fail alike.
//!
//! What it saves: 16 pages of 4 KiB to one range of 64 KiB take 5 basic blocks, 20 bytes for each page,
//! instead of 16 blocks; and none but one when the pages also lie side by side in local memory.

use super::data::Data;
use super::rdma::RemoteAddr;
use super::{blocks, MAX_DS};

/// Segment units of a WRITE besides its data segments: control and remote address.
const OVERHEAD_DS: u8 = 2;

/// Most data segments of a WRITE: what the length field of the control segment leaves.
pub const MAX_SEGMENTS: u8 = MAX_DS as u8 - OVERHEAD_DS;

/// A WRITE, as far as merging is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where it goes.
    pub remote: RemoteAddr,
    /// Where it comes from. More than one local range: set `alone`.
    pub data: Data,
    /// It must be a WQE of its own: it has a fence, immediate data, inline payload or several local
    /// ranges.
    pub alone: bool,
}

/// What limits a merged WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most data segments, 1..=[`MAX_SEGMENTS`]; other values are brought into that range.
    pub max_segments: u8,
    /// Longest message in bytes (`log_max_msg` of the HCA).
    pub max_message: u32,
    /// Shorter WRITEs are left alone, in bytes: alone they may go by BlueFlame with inline payload, which
    /// is quicker than anything merged.
    pub min_send_size: u32,
}

impl Limits {
    /// Whether `write` may share a WQE at all.
    #[inline(always)]
    fn admit(&self, write: &Write) -> bool {
        // An empty data segment would stand for 2 GiB.
        !write.alone && write.data.byte_count != 0 && write.data.byte_count >= self.min_send_size
    }
}

/// `first` and `second` as one range, if they lie side by side. A data segment has 31 bits for its length.
#[inline]
fn join_ranges(first: &Data, second: &Data) -> Option<Data> {
    let end = first.addr.checked_add(first.byte_count.into())?;
    let byte_count = first.byte_count.checked_add(second.byte_count)?;
    if first.lkey != second.lkey || end != second.addr || byte_count > i32::MAX as u32 {
        return None;
    }
    Some(Data {
        byte_count,
        ..*first
    })
}

/// How a WRITE got into a WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// With a data segment of its own, behind the present ones.
    NewSegment,
    /// Within the last data segment, which has become longer.
    SameSegment,
}

/// A WQE that further WRITEs may join.
///
/// # Invariants
///
/// `segments` is at least 1. `bytes` is the sum of all data segments, `last` included; the remote range is
/// that long and ends before `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    rkey: u32,
    /// Where the next WRITE would have to go.
    next: u64,
    last: Data,
    bytes: u32,
    segments: u8,
    open: bool,
}

impl Open {
    /// The WQE that starts with `first`.
    #[inline]
    pub fn start(first: &Write, limits: &Limits) -> Open {
        let len = first.data.byte_count;
        let next = first.remote.addr.checked_add(len.into());
        Open {
            rkey: first.remote.rkey,
            next: next.unwrap_or(0),
            last: first.data,
            bytes: len,
            segments: 1,
            open: next.is_some() && limits.admit(first),
        }
    }

    /// Adds `write`, if it fits. `None` leaves the WQE as it is: `write` needs another.
    #[inline]
    pub fn join(&mut self, write: &Write, limits: &Limits) -> Option<Joined> {
        let len = write.data.byte_count;
        if !self.open
            || write.remote.addr != self.next
            || write.remote.rkey != self.rkey
            || !limits.admit(write)
        {
            return None;
        }
        let bytes = self.bytes.checked_add(len)?;
        let next = self.next.checked_add(len.into())?;
        if bytes > limits.max_message {
            return None;
        }
        let joined = if let Some(longer) = join_ranges(&self.last, &write.data) {
            self.last = longer;
            Joined::SameSegment
        } else if self.segments < limits.max_segments.min(MAX_SEGMENTS) {
            self.segments = self.segments.wrapping_add(1);
            self.last = write.data;
            Joined::NewSegment
        } else {
            return None;
        };
        self.bytes = bytes;
        self.next = next;
        Some(joined)
    }

    /// The last data segment, to be written anew after [`Joined::SameSegment`].
    #[inline]
    pub fn last(&self) -> Data {
        self.last
    }

    /// Number of data segments.
    #[inline]
    pub fn segments(&self) -> u8 {
        self.segments
    }

    /// Length of the message in bytes.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Length of the WQE in units of 16 bytes.
    #[inline]
    pub fn ds(&self) -> u8 {
        self.segments.wrapping_add(OVERHEAD_DS)
    }

    /// Basic blocks of the WQE.
    #[inline]
    pub fn blocks(&self) -> u16 {
        blocks(self.ds())
    }
}

/// Requests of a chain that go into one WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The requests, in order; at least one. The WQE's remote address is that of the first.
    pub requests: &'a [Write],
    /// The WQE with all of them.
    pub wqe: Open,
}

impl<'a> Group<'a> {
    /// The data segments of the WQE, as many as [`Open::segments`] says.
    #[inline]
    pub fn data(&self) -> DataSegments<'a> {
        DataSegments {
            rest: self.requests,
        }
    }
}

/// Walks over the data segments of a group.
#[derive(Clone, Debug)]
pub struct DataSegments<'a> {
    rest: &'a [Write],
}

impl Iterator for DataSegments<'_> {
    type Item = Data;

    #[inline]
    fn next(&mut self) -> Option<Data> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        let mut segment = first.data;
        while let Some((next, behind)) = self.rest.split_first() {
            let Some(longer) = join_ranges(&segment, &next.data) else {
                break;
            };
            segment = longer;
            self.rest = behind;
        }
        Some(segment)
    }
}

/// Divides a chain into groups.
///
/// It is cheap to run twice: once to know how many blocks to reserve ([`Groups::blocks`]), once to fill
/// them.
#[derive(Clone, Debug)]
pub struct Groups<'a> {
    rest: &'a [Write],
    limits: Limits,
}

impl<'a> Groups<'a> {
    /// `chain` in the order of posting.
    #[inline]
    pub fn new(chain: &'a [Write], limits: Limits) -> Self {
        Groups {
            rest: chain,
            limits,
        }
    }

    /// Basic blocks of all WQEs that are left.
    #[inline]
    pub fn blocks(self) -> u32 {
        self.fold(0, |sum: u32, group| {
            sum.saturating_add(group.wqe.blocks().into())
        })
    }
}

impl<'a> Iterator for Groups<'a> {
    type Item = Group<'a>;

    #[inline]
    fn next(&mut self) -> Option<Group<'a>> {
        let first = self.rest.first()?;
        let mut wqe = Open::start(first, &self.limits);
        let mut len = 1usize;
        while let Some(write) = self.rest.get(len) {
            if wqe.join(write, &self.limits).is_none() {
                break;
            }
            len = len.wrapping_add(1);
        }
        let (requests, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(Group { requests, wqe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        max_segments: MAX_SEGMENTS,
        max_message: 1 << 30,
        min_send_size: 64,
    };

    fn write(at: u64, from: u64, len: u32) -> Write {
        Write {
            remote: RemoteAddr {
                addr: at,
                rkey: 0x42,
            },
            data: Data {
                byte_count: len,
                lkey: 0x100,
                addr: from,
            },
            alone: false,
        }
    }

    fn shape(chain: &[Write], limits: Limits) -> Vec<(usize, u8, u32)> {
        Groups::new(chain, limits)
            .map(|g| (g.requests.len(), g.wqe.segments(), g.wqe.bytes()))
            .collect()
    }

    #[test]
    fn pages_of_a_contiguous_write_cost_at_most_24_bytes_each() {
        // Scattered pages to one range of 64 KiB.
        let chain: Vec<_> = (0..16)
            .map(|n| write(0x10_0000 + n * 4096, 0x7000_0000 - n * 8192, 4096))
            .collect();
        assert_eq!(shape(&chain, LIMITS), [(16, 16, 65536)]);
        let bytes = Groups::new(&chain, LIMITS).blocks() * 64;
        assert_eq!(bytes, 320);
        assert!(bytes / 16 <= 24);
    }

    #[test]
    fn local_neighbours_share_a_segment() {
        let chain: Vec<_> = (0..16)
            .map(|n| write(n * 4096, 0x1000 + n * 4096, 4096))
            .collect();
        assert_eq!(shape(&chain, LIMITS), [(16, 1, 65536)]);
        let group = Groups::new(&chain, LIMITS).next().unwrap();
        let data: Vec<_> = group.data().collect();
        let all = Data {
            byte_count: 65536,
            ..chain[0].data
        };
        assert_eq!(data, [all]);
        assert_eq!(group.wqe.last(), all);
        assert_eq!(group.wqe.blocks(), 1);
    }

    #[test]
    fn only_what_follows_in_one_key() {
        let other_key = Write {
            remote: RemoteAddr {
                addr: 200,
                rkey: 0x43,
            },
            ..write(0, 0, 100)
        };
        let gap = write(301, 0, 100);
        let backwards = write(201, 0, 100);
        let chain = [write(100, 0, 100), other_key, gap, backwards];
        assert_eq!(shape(&chain, LIMITS).len(), 4);
    }

    #[test]
    fn what_must_be_alone_is() {
        let alone = Write {
            alone: true,
            ..write(100, 5000, 100)
        };
        let chain = [write(0, 0, 100), alone, write(200, 9000, 100)];
        assert_eq!(
            shape(&chain, LIMITS),
            [(1, 1, 100), (1, 1, 100), (1, 1, 100)]
        );
        // Short, and empty.
        let chain = [write(0, 0, 100), write(100, 500, 63), write(163, 900, 100)];
        assert_eq!(shape(&chain, LIMITS).len(), 3);
        let any = Limits {
            min_send_size: 0,
            ..LIMITS
        };
        assert_eq!(shape(&chain, any), [(3, 3, 263)]);
        let chain = [write(0, 0, 100), write(100, 100, 0), write(100, 100, 100)];
        assert_eq!(shape(&chain, any).len(), 3);
    }

    #[test]
    fn limits_hold() {
        let chain: Vec<_> = (0..10).map(|n| write(n * 100, n * 1000, 100)).collect();
        let few = Limits {
            max_segments: 4,
            ..LIMITS
        };
        assert_eq!(shape(&chain, few), [(4, 4, 400), (4, 4, 400), (2, 2, 200)]);
        let short = Limits {
            max_message: 350,
            ..LIMITS
        };
        assert_eq!(shape(&chain, short).len(), 4);
        let none = Limits {
            max_segments: 0,
            ..LIMITS
        };
        assert_eq!(shape(&chain, none).len(), 10);
        // The length field of the control segment is the last limit.
        let many: Vec<_> = (0..200).map(|n| write(n * 100, n * 1000, 100)).collect();
        let all = Limits {
            max_segments: 255,
            ..LIMITS
        };
        assert_eq!(shape(&many, all)[0], (61, 61, 6100));
        assert_eq!(Groups::new(&many, all).next().unwrap().wqe.ds(), 63);
    }

    #[test]
    fn the_ends_of_the_address_space_are_no_neighbours() {
        let last = write(u64::MAX - 99, 0, 100);
        assert_eq!(shape(&[last, write(0, 500, 100)], LIMITS).len(), 2);
        let local_last = write(0, u64::MAX - 99, 100);
        let chain = [local_last, write(100, 0, 100)];
        assert_eq!(shape(&chain, LIMITS), [(2, 2, 200)]);
        let huge = write(0, 0, u32::MAX);
        assert_eq!(shape(&[huge, huge], LIMITS).len(), 2);
    }
}
