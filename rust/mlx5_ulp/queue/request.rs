// SPDX-License-Identifier: GPL-2.0

//! The consumer's side of a request: what is posted, and who hears when it has ended.

use super::in_flight::{
    Cookie,
    InFlight,
    Mark, //
};
use kernel::{
    error::code::*,
    ffi::c_int,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

use crate::{
    cq::syndrome::Syndrome,
    errno::{
        ecanceled,
        eremoteio, //
    },
};

/// Requests in flight, in memory of the kernel.
pub(crate) type Requests = InFlight<KVVec<Cookie>, KVVec<Mark>>;

/// Flags of [`bindings::mlx5_ulp_write`].
pub(crate) mod flags {
    use mlx5_ulp_bindings as bindings;

    /// Success is not reported by a completion entry of its own.
    pub(crate) const UNSIGNALED: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_UNSIGNALED;
    /// The payload is copied into the WQE.
    pub(crate) const INLINE: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_INLINE;
    /// Waits for earlier READs and atomics.
    pub(crate) const FENCE: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_FENCE;
    /// Nothing follows for now.
    pub(crate) const LAST: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_LAST;
    /// More follows at once.
    pub(crate) const MORE: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_MORE;
    /// All that a WRITE can have.
    pub(crate) const ALL: u32 = UNSIGNALED | INLINE | FENCE | LAST | MORE;
    /// The peer's completion raises an event also where only such ones do.
    pub(crate) const SOLICITED: u32 = bindings::mlx5_ulp_post_flags_MLX5_ULP_SOLICITED;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was carried out.
    Done,
    /// It failed by itself.
    Failed {
        /// The device's reason.
        syndrome: Syndrome,
        /// The vendor's detail.
        vendor_syndrome: u8,
    },
    /// It was flushed: an earlier one had failed, or the queue was shut down.
    Flushed {
        /// The device's reason; 0 if it was not the device that flushed.
        syndrome: Syndrome,
        /// The vendor's detail.
        vendor_syndrome: u8,
    },
}

impl Outcome {
    /// Flushed by us, not by the device.
    pub(crate) const SOFTWARE_FLUSH: Outcome = Outcome::Flushed {
        syndrome: Syndrome(0),
        vendor_syndrome: 0,
    };

    /// What `struct mlx5_ulp_completion` says of it.
    #[inline]
    pub(crate) fn completion(
        self,
        context: *mut kernel::ffi::c_void,
    ) -> bindings::mlx5_ulp_completion {
        let (status, syndrome, vendor_syndrome) = match self {
            Outcome::Done => (0, Syndrome(0), 0),
            Outcome::Failed {
                syndrome,
                vendor_syndrome,
            } => (errno(syndrome), syndrome, vendor_syndrome),
            Outcome::Flushed {
                syndrome,
                vendor_syndrome,
            } => (ecanceled().to_errno(), syndrome, vendor_syndrome),
        };
        bindings::mlx5_ulp_completion {
            context,
            status,
            syndrome: syndrome.0,
            vendor_syndrome,
            flags: 0,
            length: 0,
            imm: 0,
            invalidated_key: 0,
        }
    }
}

/// The error number for a request's own failure.
fn errno(syndrome: Syndrome) -> c_int {
    match syndrome {
        Syndrome::REMOTE_INVALID_REQUEST
        | Syndrome::REMOTE_ACCESS
        | Syndrome::REMOTE_OPERATION
        | Syndrome::REMOTE_ABORTED => eremoteio(),
        Syndrome::TRANSPORT_RETRY_EXCEEDED | Syndrome::RNR_RETRY_EXCEEDED => ETIMEDOUT,
        _ => EIO,
    }
    .to_errno()
}

/// Tells the consumer that a request has ended.
///
/// # Safety
///
/// `cookie` must be 0 or the address of a `struct mlx5_ulp_request` that was posted and has not
/// been told yet.
#[inline(always)]
pub(crate) unsafe fn deliver(cookie: usize, completion: &bindings::mlx5_ulp_completion) {
    let request = cookie as *mut bindings::mlx5_ulp_request;
    if request.is_null() {
        return;
    }
    // SAFETY: By the contract of posting, the request stays valid until its `done` is called, which
    // the caller says has not happened.
    if let Some(done) = unsafe { (*request).done } {
        // SAFETY: As above; `completion` is valid for the call.
        unsafe { done(request, completion) };
    }
}
