// SPDX-License-Identifier: GPL-2.0

//! Encoding requests into the ring.

use super::{
    poster::Poster,
    request::flags,
    ring::hardware,
    send::{
        Cursor,
        SendQueue, //
    },
    shape::Shape, //
};
use crate::{
    observe::trace,
    wqe::{
        blocks,
        ctrl::{
            Ctrl,
            Fence,
            Flags,
            Head,
            Signal, //
        },
        data::{
            self,
            Data, //
        },
        opcode::Opcode,
        rdma::RemoteAddr,
        DS, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Longest data range: the top bit of the byte count means something else.
const MAX_RANGE: u32 = data::INLINE - 1;

/// Segment units of a WRITE of one range.
const ONE_RANGE_DS: u8 = Shape::HEAD_DS as u8 + 1;

/// Flags that say nothing about the WQE itself.
const HINTS: u32 = flags::LAST | flags::MORE;

impl Cursor {
    /// Whether the next request reports its success. It does unless it need not; at the latest when half
    /// a queue has not: a queue full of silent requests would never empty.
    #[inline(always)]
    fn signal(&mut self, request_flags: u32, depth: u32) -> Signal {
        if request_flags & flags::UNSIGNALED != 0 && self.unsignaled < depth / 2 {
            self.unsignaled = self.unsignaled.wrapping_add(1);
            return Signal::OnError;
        }
        self.unsignaled = 0;
        Signal::Always
    }

    /// The control segment of the next WQE.
    #[inline(always)]
    fn ctrl(&self, qpn: u32, opcode: Opcode, ds: u8, flags: Flags) -> Ctrl {
        Ctrl {
            head: Head {
                opmod: 0,
                index: hardware(self.block),
                opcode,
                qpn,
                ds,
            },
            signature: 0,
            flags,
            imm: 0,
        }
    }

    /// The WQE that begins with `head` is written; on to the next.
    #[inline(always)]
    fn advance(&mut self, head: &Head) {
        self.head = head.encode();
        self.request = self.request.wrapping_add(1);
        self.block = self.block.wrapping_add(blocks(head.ds).into());
    }
}

/// A range that a data segment can hold.
#[inline(always)]
fn data(range: &bindings::mlx5_ulp_sge) -> Data {
    Data {
        byte_count: range.length,
        lkey: range.lkey,
        addr: range.addr,
    }
}

/// The remote address of a WRITE.
#[inline(always)]
fn remote(write: &bindings::mlx5_ulp_write) -> RemoteAddr {
    RemoteAddr {
        addr: write.remote_addr,
        rkey: write.rkey,
    }
}

impl SendQueue {
    /// Writes one WRITE at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that do not exist, `EMSGSIZE` if it does not fit the queue's shape.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    pub(super) unsafe fn encode_write(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        // What nearly all requests look like: one range, nothing special.
        if write.flags & !(HINTS | flags::UNSIGNALED) == 0 && write.num_sge == 1 {
            // SAFETY: The caller guarantees one range.
            let range = unsafe { &*write.sge };
            if range.length as i32 > 0 {
                let flags =
                    Flags::new(Fence::None, at.signal(write.flags, self.shape.depth), false);
                let ctrl = at.ctrl(poster.qpn, Opcode::RDMA_WRITE, ONE_RANGE_DS, flags);
                poster.slots.store_block(
                    at.block,
                    [ctrl.encode(), remote(write).encode(), data(range).encode()],
                );
                self.written(poster, at, write, &ctrl.head, range.length);
                return Ok(());
            }
        }
        // SAFETY: Guaranteed by the caller.
        unsafe { self.encode_any_write(poster, at, write) }
    }

    /// Writes a WRITE of any shape at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::encode_write`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(never)]
    unsafe fn encode_any_write(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        if write.flags & !flags::ALL != 0 {
            return Err(EINVAL);
        }
        let (ds, bytes) = if write.flags & flags::INLINE != 0 {
            // SAFETY: The caller guarantees that the ranges are there and readable.
            unsafe { self.encode_inline(poster, at.block, write)? }
        } else {
            // SAFETY: The caller guarantees that the ranges are there.
            unsafe { self.encode_ranges(poster, at.block, write)? }
        };
        let fence = if write.flags & flags::FENCE != 0 {
            Fence::Fence
        } else {
            Fence::None
        };
        let flags = Flags::new(fence, at.signal(write.flags, self.shape.depth), false);
        let ctrl = at.ctrl(poster.qpn, Opcode::RDMA_WRITE, ds, flags);
        poster
            .slots
            .store_block(at.block, [ctrl.encode(), remote(write).encode()]);
        self.written(poster, at, write, &ctrl.head, bytes);
        Ok(())
    }

    /// The WQE of `write` is in the ring, with `bytes` of payload; on to the next.
    #[inline(always)]
    fn written(
        &self,
        poster: &Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
        head: &Head,
        bytes: u32,
    ) {
        self.requests.record(at.request, write.request as usize);
        self.requests.mark(at.block, at.request, 1);
        trace::post(self.pci, poster.qpn, head.index, head.opcode.0, bytes);
        at.advance(head);
    }

    /// Writes the data segments of several ranges, or of none. Returns the length of the WQE in segment
    /// units and of the payload in bytes.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there are more than the queue was made for, or one is too long.
    ///
    /// # Safety
    ///
    /// `write` must have `num_sge` ranges.
    unsafe fn encode_ranges(
        &self,
        poster: &mut Poster,
        block: u32,
        write: &bindings::mlx5_ulp_write,
    ) -> Result<(u8, u32)> {
        if write.num_sge > self.shape.max_sge {
            return Err(EMSGSIZE);
        }
        let mut segment = Shape::HEAD_DS;
        let mut total = 0u32;
        for i in 0..write.num_sge {
            // SAFETY: The caller guarantees the range.
            let range = unsafe { &*write.sge.add(i as usize) };
            if range.length > MAX_RANGE {
                return Err(EMSGSIZE);
            }
            // An empty range has no segment: 0 would stand for 2 GiB there.
            if range.length != 0 {
                poster.slots.store(block, segment, data(range).encode());
                segment = segment.wrapping_add(1);
                total = total.saturating_add(range.length);
            }
        }
        Ok((segment as u8, total))
    }

    /// Writes the payload itself. Returns as [`SendQueue::encode_ranges`].
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is longer than the queue was made for.
    ///
    /// # Safety
    ///
    /// `write` must have `num_sge` ranges, each of readable memory.
    unsafe fn encode_inline(
        &self,
        poster: &mut Poster,
        block: u32,
        write: &bindings::mlx5_ulp_write,
    ) -> Result<(u8, u32)> {
        // SAFETY: The caller guarantees the range.
        let range = |i: u32| unsafe { &*write.sge.add(i as usize) };
        let mut total = 0u32;
        for i in 0..write.num_sge {
            total = total.saturating_add(range(i).length);
        }
        if total > self.shape.max_inline {
            return Err(EMSGSIZE);
        }
        let mut segment = Shape::HEAD_DS;
        // The payload starts behind a header of four bytes; segments are put together here and go to the
        // ring whole.
        let [h0, h1, h2, h3] = data::inline_header(total as u16);
        let mut buffer = [h0, h1, h2, h3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut filled = data::INLINE_HEADER;
        for i in 0..write.num_sge {
            let memory = range(i).addr as usize as *const u8;
            for offset in 0..range(i).length as usize {
                // SAFETY: The caller guarantees `length` readable bytes.
                let byte = unsafe { memory.add(offset).read() };
                if let Some(place) = buffer.get_mut(filled) {
                    *place = byte;
                }
                filled = filled.wrapping_add(1);
                if filled == DS {
                    poster.slots.store(block, segment, buffer);
                    buffer = [0; DS];
                    filled = 0;
                    segment = segment.wrapping_add(1);
                }
            }
        }
        if filled != 0 {
            poster.slots.store(block, segment, buffer);
            segment = segment.wrapping_add(1);
        }
        Ok((segment as u8, total))
    }

    /// Writes a signaled WQE that does nothing, for nobody, at the cursor and moves it on.
    pub(super) fn encode_nop(&self, poster: &mut Poster, at: &mut Cursor) {
        let flags = Flags::new(Fence::None, Signal::Always, false);
        let ctrl = at.ctrl(poster.qpn, Opcode::NOP, 1, flags);
        poster.slots.store_block(at.block, [ctrl.encode()]);
        self.requests.record(at.request, 0);
        self.requests.mark(at.block, at.request, 1);
        at.unsignaled = 0;
        at.advance(&ctrl.head);
    }
}
