// SPDX-License-Identifier: GPL-2.0

//! A request of the block layer, from its start to its end.

use crate::{
    mq,
    ulp_bindings as bindings, //
};
use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull,
    sync::atomic::{
        AtomicI32,
        AtomicU32,
        Ordering::{
            AcqRel,
            Relaxed, //
        }, //
    },
};
use kernel::{
    bindings::{
        device,
        request, //
    },
    error::to_result,
    prelude::*, //
};

/// Most segments of a request.
pub(crate) const MAX_SEGMENTS: usize = 128;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    /// A write that is in the target's memory before it ends.
    WriteThrough,
    Flush,
}

/// The driver's part of a request, behind `struct request`.
#[repr(C)]
pub(crate) struct Pdu {
    /// What is told by the queue; the first field, so that [`Pdu`] is found from it.
    told: bindings::mlx5_ulp_request,
    rq: NonNull<request>,
    iova: bindings::mlx5_ulp_blk_iova,
    /// The device that it is mapped for.
    device: *mut device,
    /// How many of `sges` are mapped.
    segments: u32,
    /// How often it was requeued since it came to the driver.
    pub(crate) retries: u8,
    /// Whether it is a flush that [`polling`](crate::polling) looks for.
    pub(crate) looked_for: bool,
    /// What has to be told before it ends.
    pending: AtomicU32,
    /// 0, or the first error.
    status: AtomicI32,
    sges: [bindings::mlx5_ulp_sge; MAX_SEGMENTS],
}

/// A request in the hands of the driver.
///
/// # Invariants
///
/// It is the `Pdu` of a started request, which nobody else uses.
pub(crate) struct Io(NonNull<Pdu>);

impl Pdu {
    /// Makes it, once for each request of a tag set.
    pub(crate) fn new(rq: NonNull<request>) -> Self {
        Self {
            told: bindings::mlx5_ulp_request { done: None },
            rq,
            iova: bindings::mlx5_ulp_blk_iova { state: [0; 2] },
            device: core::ptr::null_mut(),
            segments: 0,
            retries: 0,
            looked_for: false,
            pending: AtomicU32::new(0),
            status: AtomicI32::new(0),
            sges: [bindings::mlx5_ulp_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            }; MAX_SEGMENTS],
        }
    }

    /// Keeps the first error.
    pub(crate) fn fail(&self, error: Error) {
        // The order with `pending` is made there.
        let _ = self
            .status
            .compare_exchange(0, error.to_errno(), Relaxed, Relaxed);
    }

    /// One more has to be told before it ends.
    pub(crate) fn expect(&self) {
        self.pending.fetch_add(1, Relaxed);
    }

    /// What it holds while it is in flight, one number for each channel. Only a flush does, which has no
    /// segments.
    pub(crate) fn mark(&self, channel: usize) -> u64 {
        self.sges.get(channel).map_or(0, |sge| sge.addr)
    }

    /// Sets what [`Pdu::mark`] gives.
    pub(crate) fn set_mark(&mut self, channel: usize, mark: u64) {
        if let Some(sge) = self.sges.get_mut(channel) {
            sge.addr = mark;
        }
    }

    /// The segments.
    pub(crate) fn segments(&self) -> &[bindings::mlx5_ulp_sge] {
        self.sges.get(..self.segments as usize).unwrap_or_default()
    }

    /// How it has ended so far.
    pub(crate) fn result(&self) -> Result {
        to_result(self.status.load(Relaxed))
    }
}

impl Io {
    /// # Safety
    ///
    /// `pdu` must be that of a started request, and given up by whoever had it.
    pub(crate) unsafe fn from_raw(pdu: NonNull<Pdu>) -> Self {
        // INVARIANT: The caller guarantees it.
        Self(pdu)
    }

    /// The request of the block layer.
    pub(crate) fn rq(&self) -> NonNull<request> {
        self.rq
    }

    /// The start of a request, or of one that was requeued: only the latter keeps count.
    pub(crate) fn start(&mut self) {
        // SAFETY: By the type invariant the request is a started one.
        if unsafe { bindings::mlx5_ulp_blk_is_new(self.rq.as_ptr()) } {
            self.retries = 0;
        }
    }

    /// What it asks for, where on the disk and how much, in bytes. `None` if it is nothing that the disk
    /// does.
    pub(crate) fn what(&self) -> Option<(Op, u64, u32)> {
        let (mut offset, mut length) = (0, 0);
        // SAFETY: By the type invariant the request is a started one; the rest is places for answers.
        let op = unsafe { bindings::mlx5_ulp_blk_what(self.rq.as_ptr(), &mut offset, &mut length) };
        let op = match op {
            bindings::mlx5_ulp_blk_op_MLX5_ULP_BLK_READ => Op::Read,
            bindings::mlx5_ulp_blk_op_MLX5_ULP_BLK_WRITE => Op::Write,
            bindings::mlx5_ulp_blk_op_MLX5_ULP_BLK_WRITE_FUA => Op::WriteThrough,
            bindings::mlx5_ulp_blk_op_MLX5_ULP_BLK_FLUSH => Op::Flush,
            _ => return None,
        };
        Some((op, offset, length))
    }

    /// Maps its segments for `device`, to be named by `lkey`. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no room in the IOMMU or among the bounce buffers now.
    ///
    /// # Safety
    ///
    /// `device` must be valid up to [`Io::unmap`].
    pub(crate) unsafe fn map(&mut self, device: *mut device, lkey: u32) -> Result {
        let pdu = &mut **self;
        // SAFETY: The request is started, the caller guarantees the device, and there is room for so many.
        let count = unsafe {
            bindings::mlx5_ulp_blk_map(
                pdu.rq.as_ptr(),
                device,
                lkey,
                &mut pdu.iova,
                pdu.sges.as_mut_ptr(),
                MAX_SEGMENTS as u32,
            )
        };
        to_result(count)?;
        pdu.device = device;
        pdu.segments = count as u32;
        Ok(())
    }

    /// Undoes [`Io::map`]; nothing if it is not mapped. Any context.
    pub(crate) fn unmap(&mut self) {
        let pdu = &mut **self;
        if pdu.segments == 0 {
            return;
        }
        // SAFETY: What `map` has mapped, and who called it guarantees the device.
        unsafe {
            bindings::mlx5_ulp_blk_unmap(
                pdu.rq.as_ptr(),
                pdu.device,
                &mut pdu.iova,
                pdu.sges.as_ptr(),
                pdu.segments,
            )
        };
        pdu.segments = 0;
    }

    /// Gets ready to be handed to queues, which tell `done`, and returns what they tell. As many must be told
    /// as said here and by [`Pdu::expect`].
    pub(crate) fn prepare(&mut self, done: Told, expected: u32) -> *mut bindings::mlx5_ulp_request {
        let pdu = &mut **self;
        pdu.told.done = Some(done);
        pdu.status = AtomicI32::new(0);
        pdu.pending = AtomicU32::new(expected);
        // The first field, by the pointer to all: `InFlight::told` finds the rest from it.
        self.0.as_ptr().cast()
    }

    /// Gives it up to those that will tell.
    pub(crate) fn into_flight(self) -> InFlight {
        InFlight(self.0)
    }

    /// The request has ended: has [`Core::complete`](crate::disk::Core::complete) called for it, on the CPU that it came from.
    pub(crate) fn complete(self) {
        mq::complete(self);
    }
}

impl Deref for Io {
    type Target = Pdu;

    fn deref(&self) -> &Pdu {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Io {
    fn deref_mut(&mut self) -> &mut Pdu {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_mut() }
    }
}

/// What a queue tells (`done` of `struct mlx5_ulp_request`).
pub(crate) type Told =
    unsafe extern "C" fn(*mut bindings::mlx5_ulp_request, *const bindings::mlx5_ulp_completion);

/// A request that was handed to queues, as one of those that tell about it has it.
///
/// # Invariants
///
/// Something is still to be told, so the request has not ended.
pub(crate) struct InFlight(NonNull<Pdu>);

impl InFlight {
    /// Takes what a queue tells.
    ///
    /// # Safety
    ///
    /// To be called by a [`Told`] with its arguments, once.
    pub(crate) unsafe fn told(
        request: *mut bindings::mlx5_ulp_request,
        completion: *const bindings::mlx5_ulp_completion,
    ) -> Option<Self> {
        // INVARIANT: `told` is the first field of what `Io::prepare` made ready, and this is one of those
        // that were expected.
        let this = Self(NonNull::new(request)?.cast());
        // SAFETY: Valid during the callback.
        if let Err(e) = to_result(unsafe { (*completion).status }) {
            this.fail(e);
        }
        Some(this)
    }

    /// One of those that were expected has told. Gives the request back if it was the last.
    pub(crate) fn put(self) -> Option<Io> {
        // What the others did to the request is before its end.
        if self.pending.fetch_sub(1, AcqRel) == 1 {
            // INVARIANT: Nobody else has it.
            Some(Io(self.0))
        } else {
            None
        }
    }

    /// One of those that were expected will not tell; not the last.
    pub(crate) fn unexpect(&self) {
        self.pending.fetch_sub(1, Relaxed);
    }
}

impl Deref for InFlight {
    type Target = Pdu;

    fn deref(&self) -> &Pdu {
        // SAFETY: By the type invariant the request is the driver's; those that tell share it.
        unsafe { self.0.as_ref() }
    }
}
