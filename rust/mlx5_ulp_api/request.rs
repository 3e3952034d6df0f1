// SPDX-License-Identifier: GPL-2.0

//! Requests.

use super::{
    bindings,
    Local, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// How a request ended (`struct mlx5_ulp_completion`).
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    /// Done, or the error: `ECANCELED` if it was flushed.
    pub(crate) result: Result,
    /// The device's reason for an error.
    pub(crate) syndrome: u8,
    /// The vendor's detail.
    pub(crate) vendor_syndrome: u8,
    /// Of a receive: bytes of the message.
    pub(crate) length: u32,
    /// Of a receive: the number that the peer sent.
    pub(crate) imm: Option<u32>,
    /// Of a receive: the key of ours that is invalid now.
    pub(crate) invalidated_key: Option<u32>,
    /// Of a receive: it was a WRITE, the payload is where the peer wrote it.
    pub(crate) written: bool,
}

/// Who hears that a request has ended.
pub(crate) trait Done: Send + Sync + Sized + 'static {
    /// The request has ended. Softirqs are off: must not sleep, but for queues with
    /// [`Completions::Work`](super::Completions::Work). May post.
    ///
    /// It holds the reference that the posted request kept.
    fn done(request: &Arc<Request<Self>>, completion: Completion);
}

/// A request and what the consumer knows of it. It may be in flight several times at once.
#[repr(C)]
pub(crate) struct Request<T> {
    raw: bindings::mlx5_ulp_request,
    data: T,
}

// SAFETY: `raw` is a constant function pointer; the data must be `Send` by itself.
unsafe impl<T: Send> Send for Request<T> {}
// SAFETY: As above.
unsafe impl<T: Sync> Sync for Request<T> {}

impl<T: Done> Request<T> {
    /// A request with `data`.
    pub(crate) fn new(data: T) -> Self {
        Self {
            raw: bindings::mlx5_ulp_request {
                done: Some(Self::call_done),
            },
            data,
        }
    }

    /// What the consumer knows of it.
    pub(crate) fn data(&self) -> &T {
        &self.data
    }

    /// Takes a reference that the completion gives back.
    pub(super) fn into_raw(request: &Arc<Self>) -> *mut bindings::mlx5_ulp_request {
        Arc::into_raw(request.clone()).cast_mut().cast()
    }

    /// Takes back a reference whose completion will not come.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Request::into_raw`] of the same type, and be given back once.
    pub(super) unsafe fn from_raw(raw: *mut bindings::mlx5_ulp_request) -> Arc<Self> {
        // SAFETY: `raw` is the first field of what `Arc::into_raw` pointed to.
        unsafe { Arc::from_raw(raw.cast_const().cast()) }
    }

    /// Called by the module.
    ///
    /// # Safety
    ///
    /// As [`Request::from_raw`]; `completion` must be valid.
    unsafe extern "C" fn call_done(
        raw: *mut bindings::mlx5_ulp_request,
        completion: *const bindings::mlx5_ulp_completion,
    ) {
        // SAFETY: Each posted request took a reference, and ends once.
        let request = unsafe { Self::from_raw(raw) };
        // SAFETY: Valid for this call.
        let completion = unsafe { &*completion };
        let has = |flag: u32| u32::from(completion.flags) & flag != 0;
        T::done(
            &request,
            Completion {
                result: to_result(completion.status),
                syndrome: completion.syndrome,
                vendor_syndrome: completion.vendor_syndrome,
                length: completion.length,
                imm: has(bindings::mlx5_ulp_completion_flags_MLX5_ULP_WITH_IMM)
                    .then_some(completion.imm),
                invalidated_key: has(bindings::mlx5_ulp_completion_flags_MLX5_ULP_WITH_INVALIDATE)
                    .then_some(completion.invalidated_key),
                written: has(bindings::mlx5_ulp_completion_flags_MLX5_ULP_RECEIVED_WRITE),
            },
        );
    }
}

/// How to post (`enum mlx5_ulp_post_flags`); that bytes are to be copied is said by [`Local::Inline`], so that they are
/// bytes that can be.
#[derive(Clone, Copy)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Nothing special.
    pub(crate) const NONE: Self = Self(0);
    /// The device need not report success.
    pub(crate) const UNSIGNALED: Self = Self(bindings::mlx5_ulp_post_flags_MLX5_ULP_UNSIGNALED);
    /// Nothing follows for now.
    pub(crate) const LAST: Self = Self(bindings::mlx5_ulp_post_flags_MLX5_ULP_LAST);
    /// Not before earlier READs and atomics have completed.
    pub(crate) const FENCE: Self = Self(bindings::mlx5_ulp_post_flags_MLX5_ULP_FENCE);
    /// More follows at once.
    pub(crate) const MORE: Self = Self(bindings::mlx5_ulp_post_flags_MLX5_ULP_MORE);
    /// The receive at the peer raises an event there even if the peer asked for such events only. Of what consumes a
    /// receive, in a [`Work`](super::Work).
    pub(crate) const SOLICITED: Self = Self(bindings::mlx5_ulp_post_flags_MLX5_ULP_SOLICITED);

    /// Both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

/// One RDMA WRITE (`struct mlx5_ulp_write`).
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    /// What is written.
    pub(crate) local: Local<'a>,
    /// Address at the peer.
    pub(crate) remote_addr: u64,
    /// The peer's key.
    pub(crate) rkey: u32,
    /// How to post.
    pub(crate) flags: Flags,
}

impl Write<'_> {
    /// As the C interface takes it, with `request`; valid as long as `self`.
    pub(super) fn raw(&self, request: *mut bindings::mlx5_ulp_request) -> bindings::mlx5_ulp_write {
        let (sge, num_sge, inline) = self.local.raw();
        bindings::mlx5_ulp_write {
            request,
            sge,
            num_sge,
            flags: self.flags.bits() | inline,
            remote_addr: self.remote_addr,
            rkey: self.rkey,
        }
    }
}
