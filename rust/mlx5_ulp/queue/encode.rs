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
use core::mem::offset_of;
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
    /// Whether the last request was a registration.
    pub(super) registered: bool,
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
            registered: poster.registered,
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
            return silent(&mut self.unsignaled, most_silent);
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
    #[inline(always)]
    pub(super) fn advance(&mut self, head: &Head) {
        let blocks = u32::from(blocks(head.ds));
        self.head = head.encode();
        self.block = self.block.wrapping_add(blocks);
        self.wqes = self.wqes.wrapping_add(1);
        self.more_blocks = self.more_blocks.wrapping_add(blocks).wrapping_sub(1);
    }
}

/// Whether a request that need not report its success does so: see [`Cursor::signal`].
#[inline(always)]
pub(super) fn silent(unsignaled: &mut u32, most_silent: u32) -> Signal {
    if *unsignaled < most_silent {
        *unsignaled = unsignaled.wrapping_add(1);
        return Signal::OnError;
    }
    *unsignaled = 0;
    Signal::Always
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

/// Length and key of a range, as the number whose big-endian bytes begin its data segment: in one load, because
/// they stand in the same order there.
#[inline(always)]
pub(super) fn length_and_key(range: &bindings::mlx5_ulp_sge) -> u64 {
    const LENGTH: usize = offset_of!(bindings::mlx5_ulp_sge, length);
    const _: () = assert!(offset_of!(bindings::mlx5_ulp_sge, lkey) == LENGTH + 4);
    // SAFETY: By the layout that was just asserted these are 8 bytes of `range`; any address will do.
    let word = unsafe {
        core::ptr::from_ref(range)
            .byte_add(LENGTH)
            .cast::<u64>()
            .read_unaligned()
    };
    if cfg!(target_endian = "little") {
        word.rotate_left(32)
    } else {
        word
    }
}

/// The data segment of a range, which is neither empty nor too long. As [`Data::encode`] of [`data`].
#[inline(always)]
pub(super) fn plain_data(range: &bindings::mlx5_ulp_sge) -> [u8; DS] {
    let word = length_and_key(range);
    Data {
        byte_count: (word >> 32) as u32,
        lkey: word as u32,
        addr: range.addr,
    }
    .encode()
}

/// The fence that the flags of a request ask for.
pub(super) fn fence(request_flags: u32) -> Fence {
    if request_flags & flags::FENCE != 0 {
        Fence::Fence
    } else {
        Fence::None
    }
}

/// The remote address of a request.
#[inline(always)]
pub(super) fn remote(addr: u64, rkey: u32) -> RemoteAddr {
    RemoteAddr { addr, rkey }
}

/// The local ranges of a request.
///
/// # Safety
///
/// `sge` must point to `count` ranges during `'a`, or `count` be 0.
pub(super) unsafe fn ranges<'a>(
    sge: *const bindings::mlx5_ulp_sge,
    count: u32,
) -> &'a [bindings::mlx5_ulp_sge] {
    if count == 0 {
        return &[];
    }
    // SAFETY: Guaranteed by the caller.
    unsafe { core::slice::from_raw_parts(sge, count as usize) }
}

/// What a request says of its WQE beside its segments.
#[derive(Clone, Copy)]
pub(super) struct Control {
    /// What to do.
    pub(super) opcode: Opcode,
    /// Immediate data, or a key.
    pub(super) imm: u32,
    /// Length in segment units.
    pub(super) ds: u8,
    /// Bytes of payload.
    pub(super) bytes: u32,
    /// What must have finished before.
    pub(super) fence: Fence,
    /// Whether it is a registration.
    pub(super) registers: bool,
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
        // SAFETY: The caller guarantees the ranges.
        let ranges = unsafe { ranges(write.sge, write.num_sge) };
        let (ds, bytes) = if write.flags & flags::INLINE != 0 {
            // SAFETY: The caller guarantees that they are readable.
            unsafe { self.encode_inline(poster, at.block, Shape::HEAD_DS, ranges)? }
        } else {
            self.encode_ranges(poster, at.block, Shape::HEAD_DS, ranges)?
        };
        let control = Control {
            opcode: Opcode::RDMA_WRITE,
            imm: 0,
            ds,
            bytes,
            fence: fence(write.flags),
            registers: false,
        };
        let second = Some(remote(write.remote_addr, write.rkey).encode());
        self.finish_wqe(poster, at, &control, second, write.flags, write.request);
        Ok(())
    }

    /// Writes the control segment of a WQE for one request, and the `second` segment if there is one, when
    /// the others are there, takes note of it and moves the cursor on.
    #[inline(always)]
    pub(super) fn finish_wqe(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        control: &Control,
        second: Option<[u8; DS]>,
        request_flags: u32,
        request: *mut bindings::mlx5_ulp_request,
    ) {
        let signal = at.signal(request_flags, poster.most_silent);
        // What follows a registration uses its key, as far as anybody knows.
        let fence = match control.fence {
            Fence::None if at.registered => Fence::InitiatorSmall,
            Fence::Fence if at.registered => Fence::SmallAndFence,
            fence => fence,
        };
        at.registered = control.registers;
        let flags = Flags::new(fence, signal, request_flags & flags::SOLICITED != 0);
        let ctrl = Ctrl {
            imm: control.imm,
            ..at.ctrl(poster.qpn, control.opcode, control.ds, flags)
        };
        poster.slots.store_block(at.block, [ctrl.encode()]);
        if let Some(segment) = second {
            poster.slots.store(at.block, 1, segment);
        }
        poster.slots.record(at.request, request as usize);
        poster.slots.mark(at.block, at.request, 1);
        self.trace_post(poster, &ctrl.head, control.bytes);
        at.last = LastWqe {
            block: at.block,
            blocks: blocks(control.ds),
            inline_bytes: (request_flags & flags::INLINE != 0).then_some(control.bytes),
        };
        at.request = at.request.wrapping_add(1);
        at.advance(&ctrl.head);
    }

    /// The tracepoint of a WQE with `bytes` of payload.
    pub(super) fn trace_post(&self, poster: &Poster, head: &Head, bytes: u32) {
        trace::post(self.pci, poster.qpn, head.index, head.opcode.0, bytes);
    }

    /// Writes the data segments of several ranges, or of none, behind `head` segments. Returns the length
    /// of the WQE in segment units and of the payload in bytes.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there are more than the queue was made for, or one is too long.
    pub(super) fn encode_ranges(
        &self,
        poster: &mut Poster,
        block: u32,
        head: u32,
        ranges: &[bindings::mlx5_ulp_sge],
    ) -> Result<(u8, u32)> {
        if ranges.len() > self.shape.max_sge as usize {
            return Err(EMSGSIZE);
        }
        let mut segment = head;
        let mut total = 0u32;
        for range in ranges {
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
    /// Each of `ranges` must be readable kernel memory.
    #[inline(always)]
    pub(super) unsafe fn encode_inline(
        &self,
        poster: &mut Poster,
        block: u32,
        head: u32,
        ranges: &[bindings::mlx5_ulp_sge],
    ) -> Result<(u8, u32)> {
        let length = |sum: u32, range: &bindings::mlx5_ulp_sge| sum.saturating_add(range.length);
        let total = ranges.iter().fold(0, length);
        if total > self.shape.max_inline {
            return Err(EMSGSIZE);
        }
        let header = data::inline_header(total as u16);
        poster.slots.store(block, head, header);
        let mut offset = (head as usize * DS).wrapping_add(header.len());
        for range in ranges {
            let length = range.length as usize;
            // SAFETY: The caller guarantees readable memory. The payload is no longer than the shape takes, for
            // which all WQEs fit into the ring.
            unsafe {
                poster
                    .slots
                    .copy(block, offset, range.addr as usize as *const u8, length)
            };
            offset = offset.wrapping_add(length);
        }
        // The last segment may be filled in part: the device looks at the length in the header.
        Ok((offset.div_ceil(DS) as u8, total))
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
