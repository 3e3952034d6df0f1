// SPDX-License-Identifier: GPL-2.0

//! Posting one WRITE of one range, with its payload inline or silent or with a hint.
//!
//! What [`SendQueue::post_write`] leaves: less straight than there, and still without the detours that a chain of
//! anything takes.

use super::{
    credit::{
        Handle,
        Way, //
    },
    encode::{
        plain_data,
        remote,
        Cursor,
        LastWqe, //
    },
    in_flight::Mark,
    post::PLAIN,
    request::flags,
    send::SendQueue,
    shape::Shape, //
};
use crate::{
    observe::trace,
    wqe::{
        blocks,
        ctrl::{
            Fence,
            Flags, //
        },
        data,
        opcode::Opcode, //
    },
};
use mlx5_ulp_bindings as bindings;

/// Flags that such a request may have.
const ONE: u32 = PLAIN | flags::INLINE;

impl SendQueue {
    /// Posts `write`, and rings as the policy says. `false` if it is not such a request, or the queue not in the
    /// state for it; nothing was posted then.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    pub(super) unsafe fn post_one(&self, handle: Handle, write: &bindings::mlx5_ulp_write) -> bool {
        if write.flags & !ONE != 0 || write.num_sge != 1 || trace::posting() {
            return false;
        }
        // SAFETY: The caller guarantees one range.
        let range = unsafe { &*write.sge };
        let inline = write.flags & flags::INLINE != 0;
        let fits = if inline {
            range.length <= self.shape.max_inline
        } else {
            range.length as i32 > 0
        };
        if !fits {
            return false;
        }
        // SAFETY: Guaranteed by the caller. What else uses the poster takes the lock, and leaves an exclusive
        // queue alone while it is open.
        let mut guard = unsafe { self.poster.take(handle) };
        let poster = &mut *guard;
        // What follows a registration has to wait for it.
        if poster.registered {
            return false;
        }
        let Ok(first) = self.credit.reserve(handle, Way::Any, 1) else {
            return false;
        };
        poster.prefetch();
        let mut at = Cursor::new(poster, first);
        let signal = at.signal(write.flags, poster.most_silent);
        let segments = if inline {
            u32::from(data::inline_ds(range.length as u16))
        } else {
            1
        };
        let ds = Shape::HEAD_DS.wrapping_add(segments) as u8;
        let ctrl = at.ctrl(
            poster.qpn,
            Opcode::RDMA_WRITE,
            ds,
            Flags::new(Fence::None, signal, false),
        );
        poster.slots.record(at.request, write.request as usize);
        let mark = Mark::word(at.block, at.request, 1);
        let mut place = poster.slots.next(at.block, mark);
        place.store::<0>(ctrl.encode());
        place.store::<1>(remote(write.remote_addr, write.rkey).encode());
        if inline {
            let header = data::inline_header(range.length as u16);
            place.header::<{ Shape::HEAD_DS as usize }>(header);
            // SAFETY: The caller guarantees readable memory, which is no longer than the shape takes, for which
            // all WQEs fit into the ring.
            unsafe {
                poster.slots.copy(
                    at.block,
                    Shape::HEAD_DS as usize * crate::wqe::DS + header.len(),
                    range.addr as usize as *const u8,
                    range.length as usize,
                )
            };
        } else {
            place.store::<{ Shape::HEAD_DS as usize }>(plain_data(range));
        }
        let last = LastWqe {
            block: at.block,
            blocks: blocks(ds),
            inline_bytes: inline.then_some(range.length),
        };
        at.request = at.request.wrapping_add(1);
        at.advance(&ctrl.head);
        self.commit(poster, &at, 1);
        self.post_counters.more_blocks.add(at.more_blocks.into());
        match self.cause(handle, poster, &at, write.flags) {
            Some(cause) if poster.policy.waiting() == 0 => {
                self.note_doorbell(poster, &at, cause, at.wqes);
                self.ring_or_copy(poster, &at, at.wqes, Some(last));
            }
            cause => self.wait(poster, at.head, at.wqes, write.flags, cause),
        }
        guard.release();
        true
    }
}
