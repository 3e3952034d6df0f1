// SPDX-License-Identifier: GPL-2.0

//! Encoding a chain with adjacent WRITEs merged: see [`crate::wqe::merge`].

use super::{
    encode::{
        data,
        remote,
        Cursor,
        LastWqe, //
    },
    post::plain,
    poster::Poster,
    send::SendQueue,
    shape::Shape, //
};
use crate::wqe::{
    blocks,
    ctrl::{
        Fence,
        Flags,
        Signal, //
    },
    merge::{
        Limits,
        Open,
        Write, //
    },
    opcode::Opcode,
    rdma::RemoteAddr, //
};
use kernel::prelude::*;
use mlx5_ulp_bindings as bindings;

/// A WQE that is being put together at the cursor.
struct Group {
    wqe: Open,
    remote: RemoteAddr,
    /// Requests in it.
    count: u16,
    /// Whether its success is reported: when that of one of its requests is.
    signal: Signal,
}

impl SendQueue {
    /// Writes a chain at the cursor and moves it on: adjacent WRITEs become one WQE.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::encode_write`].
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`], for each of `writes`.
    pub(super) unsafe fn encode_merged(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        writes: &[bindings::mlx5_ulp_write],
        limits: &Limits,
    ) -> Result {
        let mut open: Option<Group> = None;
        for write in writes {
            // SAFETY: Guaranteed by the caller.
            let Some(candidate) = (unsafe { candidate(write) }) else {
                self.finish(poster, at, open.take());
                // SAFETY: Guaranteed by the caller.
                unsafe { self.encode_write(poster, at, write)? };
                continue;
            };
            let joined = open.as_mut().and_then(|group| {
                // A WQE has no more requests than its mark can count.
                let count = group.count.checked_add(1)?;
                let joined = group.wqe.join(&candidate, limits)?;
                group.count = count;
                Some(joined)
            });
            if joined.is_none() {
                self.finish(poster, at, open.take());
            }
            let signal = at.signal(write.flags, poster.most_silent);
            let group = open.get_or_insert(Group {
                wqe: Open::start(&candidate, limits),
                remote: candidate.remote,
                count: 1,
                signal,
            });
            if signal == Signal::Always {
                group.signal = signal;
            }
            // What joined the last segment has made it longer: then it is written once more.
            let segment = Shape::HEAD_DS
                .wrapping_add(group.wqe.segments().into())
                .wrapping_sub(1);
            poster
                .slots
                .store(at.block, segment, group.wqe.last().encode());
            poster.slots.record(at.request, write.request as usize);
            at.request = at.request.wrapping_add(1);
        }
        self.finish(poster, at, open);
        Ok(())
    }

    /// Writes the head of a group whose data segments and cookies are there, and moves the cursor on.
    fn finish(&self, poster: &mut Poster, at: &mut Cursor, group: Option<Group>) {
        let Some(group) = group else {
            return;
        };
        let ds = group.wqe.ds();
        let flags = Flags::new(Fence::None, group.signal, false);
        let ctrl = at.ctrl(poster.qpn, Opcode::RDMA_WRITE, ds, flags);
        poster
            .slots
            .store_block(at.block, [ctrl.encode(), group.remote.encode()]);
        let last = at.request.wrapping_sub(1);
        poster.slots.mark(at.block, last, group.count);
        self.trace_post(poster, &ctrl.head, group.wqe.bytes());
        at.last = LastWqe {
            block: at.block,
            blocks: blocks(ds),
            inline_bytes: None,
        };
        at.advance(&ctrl.head);
    }
}

/// What may be merged of `write`: `None` if it has to be a WQE of its own.
///
/// # Safety
///
/// `write` must have `num_sge` ranges.
unsafe fn candidate(write: &bindings::mlx5_ulp_write) -> Option<Write> {
    // What is not plain is for the general way to encode or to refuse.
    // SAFETY: The caller guarantees `num_sge` ranges.
    let range = unsafe { plain(write) }?;
    Some(Write {
        remote: remote(write.remote_addr, write.rkey),
        data: data(range),
        alone: false,
    })
}
