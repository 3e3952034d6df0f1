// SPDX-License-Identifier: GPL-2.0

//! Encoding requests into the ring.

use super::{
    poster::Poster,
    request::flags,
    ring::hardware,
    send::SendQueue,
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

/// Where in the queue the next WQE of a chain goes, and what the doorbell has to be told. Becomes the
/// poster's when the chain is complete.
pub(super) struct Cursor {
    /// Block where the next WQE starts.
    pub(super) block: u32,
    /// Number of its request.
    pub(super) request: u32,
    /// Requests since the last that was signaled.
    pub(super) unsignaled: u32,
    /// WQEs written.
    pub(super) wqes: u32,
    /// Blocks of these beyond one each.
    pub(super) more_blocks: u32,
    /// Beginning of the last WQE.
    pub(super) head: [u8; 8],
    /// The last WQE.
    pub(super) last: LastWqe,
}

/// What decides whether a WQE goes to the doorbell register itself.
#[derive(Clone, Copy)]
pub(super) struct LastWqe {
    /// Block where it starts.
    pub(super) block: u32,
    /// Its length in blocks.
    pub(super) blocks: u16,
    /// Its payload in bytes, if the WQE carries it.
    pub(super) inline_bytes: Option<u32>,
}

impl Cursor {
    /// At the end of the queue; the next request has this number.
    #[inline(always)]
    pub(super) fn new(poster: &Poster, request: u32) -> Self {
        Self {
            block: poster.producer,
            request,
            unsignaled: poster.unsignaled,
            wqes: 0,
            more_blocks: 0,
            head: [0; 8],
            last: LastWqe {
                block: poster.producer,
                blocks: 1,
                inline_bytes: None,
            },
        }
    }

    /// Whether the next request reports its success. It does unless it need not; at the latest when
    /// `most_silent` have not, half a queue: a queue full of silent requests would never empty.
    #[inline(always)]
    pub(super) fn signal(&mut self, request_flags: u32, most_silent: u32) -> Signal {
        if request_flags & flags::UNSIGNALED != 0 {
            if self.unsignaled < most_silent {
                self.unsignaled = self.unsignaled.wrapping_add(1);
                return Signal::OnError;
            }
        }
        self.unsignaled = 0;
        Signal::Always
    }

    /// The control segment of the next WQE.
    #[inline(always)]
    pub(super) fn ctrl(&self, qpn: u32, opcode: Opcode, ds: u8, flags: Flags) -> Ctrl {
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
    pub(super) fn advance(&mut self, head: &Head) {
        let blocks = u32::from(blocks(head.ds));
        self.head = head.encode();
        self.block = self.block.wrapping_add(blocks);
        self.wqes = self.wqes.wrapping_add(1);
        self.more_blocks = self.more_blocks.wrapping_add(blocks).wrapping_sub(1);
    }
}

/// A range that a data segment can hold.
#[inline(always)]
pub(super) fn data(range: &bindings::mlx5_ulp_sge) -> Data {
    Data {
        byte_count: range.length,
        lkey: range.lkey,
        addr: range.addr,
    }
}

/// The remote address of a WRITE.
#[inline(always)]
pub(super) fn remote(write: &bindings::mlx5_ulp_write) -> RemoteAddr {
    RemoteAddr {
        addr: write.remote_addr,
        rkey: write.rkey,
    }
}

impl SendQueue {
    /// Writes a WRITE of any shape at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that do not exist, `EMSGSIZE` if it does not fit the queue's shape.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    pub(super) unsafe fn encode_write(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        if write.flags & !flags::ALL != 0 {
            return Err(EINVAL);
        }
        let inline = write.flags & flags::INLINE != 0;
        let (ds, bytes) = if inline {
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
        let flags = Flags::new(fence, at.signal(write.flags, poster.most_silent), false);
        let ctrl = at.ctrl(poster.qpn, Opcode::RDMA_WRITE, ds, flags);
        poster
            .slots
            .store_block(at.block, [ctrl.encode(), remote(write).encode()]);
        poster.slots.record(at.request, write.request as usize);
        poster.slots.mark(at.block, at.request, 1);
        self.trace_post(poster, &ctrl.head, bytes);
        at.last = LastWqe {
            block: at.block,
            blocks: blocks(ds),
            inline_bytes: inline.then_some(bytes),
        };
        at.request = at.request.wrapping_add(1);
        at.advance(&ctrl.head);
        Ok(())
    }

    /// The tracepoint of a WQE with `bytes` of payload.
    pub(super) fn trace_post(&self, poster: &Poster, head: &Head, bytes: u32) {
        trace::post(self.pci, poster.qpn, head.index, head.opcode.0, bytes);
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
        poster.slots.record(at.request, 0);
        poster.slots.mark(at.block, at.request, 1);
        at.unsignaled = 0;
        at.request = at.request.wrapping_add(1);
        at.advance(&ctrl.head);
    }
}
