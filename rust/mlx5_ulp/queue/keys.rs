// SPDX-License-Identifier: GPL-2.0

//! Requests that change memory keys: registration and invalidation.
//!
//! What follows a registration has to wait for it, since it may use the key. The short ways of posting know of
//! no fences, so they are closed from a registration up to the next request.

use super::{
    encode::{
        fence,
        Control,
        Cursor, //
    },
    poster::Poster,
    request::flags,
    send::SendQueue,
    shape::Shape, //
};
use crate::{
    api::access,
    fast_region::{
        invalidation,
        FastRegion, //
    },
    wqe::{
        ctrl::Fence,
        opcode::Opcode,
        umr::{
            Mkey,
            UmrCtrl, //
        },
        DS, //
    },
};
use kernel::{
    error::code::*,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Segments of a WQE that changes a key, without the list of pages.
const CHANGE_DS: u8 = 8;

impl SendQueue {
    /// Writes a registration at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the queue was not made for registrations, `EINVAL` for flags or rights that cannot be, or
    /// when nothing is mapped; `ENODEV` once the region is shut down.
    ///
    /// # Safety
    ///
    /// `work.region` must be null or exist.
    pub(super) unsafe fn encode_register(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        work: &bindings::mlx5_ulp_work,
    ) -> Result {
        // SAFETY: What the consumer calls a region is the pointer of an `Arc<FastRegion>`, alive by the
        // caller's word.
        let region = unsafe { work.region.cast::<FastRegion>().as_ref() }.ok_or(EINVAL)?;
        let registration = region.registration(access(work.access)?)?;
        self.change(
            poster,
            at.block,
            work,
            &registration.ctrl,
            &registration.mkey,
        )?;
        poster
            .slots
            .store(at.block, CHANGE_DS.into(), registration.list.encode());
        let control = Control {
            opcode: Opcode::UMR,
            imm: registration.key,
            ds: CHANGE_DS + 1,
            bytes: 0,
            fence: match (self.umr_fence, fence(work.flags)) {
                (Fence::None, asked) => asked,
                (Fence::InitiatorSmall, Fence::Fence) => Fence::SmallAndFence,
                (own, _) => own,
            },
            registers: true,
        };
        self.finish_wqe(poster, at, &control, None, work.flags, work.request);
        Ok(())
    }

    /// Writes an invalidation at the cursor and moves it on.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the queue was not made for registrations, `EINVAL` for flags that cannot be.
    pub(super) fn encode_invalidate(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        work: &bindings::mlx5_ulp_work,
    ) -> Result {
        let (ctrl, mkey) = invalidation();
        self.change(poster, at.block, work, &ctrl, &mkey)?;
        let control = Control {
            opcode: Opcode::UMR,
            imm: work.invalidate_key,
            ds: CHANGE_DS,
            bytes: 0,
            fence: fence(work.flags),
            registers: false,
        };
        self.finish_wqe(poster, at, &control, None, work.flags, work.request);
        Ok(())
    }

    /// Writes the segments that both have, behind the control segment.
    fn change(
        &self,
        poster: &mut Poster,
        block: u32,
        work: &bindings::mlx5_ulp_work,
        ctrl: &UmrCtrl,
        mkey: &Mkey,
    ) -> Result {
        if work.flags & flags::INLINE != 0 {
            return Err(EINVAL);
        }
        if self.shape.max_sge < Shape::REGISTRATION_SGE {
            return Err(EMSGSIZE);
        }
        let (ctrl, mkey) = (ctrl.encode(), mkey.encode());
        let segments = Iterator::chain(ctrl.chunks_exact(DS), mkey.chunks_exact(DS));
        // Three of the one and four of the other, behind the control segment.
        for (segment, bytes) in (1..8).zip(segments) {
            if let Some(bytes) = bytes.first_chunk::<DS>() {
                poster.slots.store(block, segment, *bytes);
            }
        }
        Ok(())
    }
}
