// SPDX-License-Identifier: GPL-2.0

//! An rdma_cm_id of ours.
//!
//! It is destroyed by its owner, or by a work item when its device goes: rdma_cm waits for that, and the
//! handler that hears of it cannot do it.

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// What rdma_cm calls for each event.
pub(crate) type Handler =
    unsafe extern "C" fn(*mut bindings::rdma_cm_id, *mut bindings::rdma_cm_event) -> c_int;

/// An identifier, until it is destroyed.
///
/// # Invariants
///
/// While it is there it exists, and nobody else destroys it.
#[pin_data]
pub(crate) struct Id {
    #[pin]
    raw: Mutex<Option<NonNull<bindings::rdma_cm_id>>>,
}

// SAFETY: rdma_cm does its own locking; who may destroy the identifier is settled by the mutex.
unsafe impl Send for Id {}
// SAFETY: As above.
unsafe impl Sync for Id {}

impl Id {
    /// Keeps none yet.
    pub(crate) fn none() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- new_mutex!(None, "mlx5_ulp_cm_id"),
        })
    }

    /// Keeps one that rdma_cm made.
    ///
    /// # Safety
    ///
    /// `raw` must exist, and nobody else destroy it, unless `Self` is dropped without
    /// [`Id::destroy`] before it is known to others.
    pub(crate) unsafe fn of(raw: NonNull<bindings::rdma_cm_id>) -> impl PinInit<Self> {
        // INVARIANT: Guaranteed by the caller.
        pin_init!(Self {
            raw <- new_mutex!(Some(raw), "mlx5_ulp_cm_id"),
        })
    }

    /// Makes one, for reliable connections by IP address. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of rdma_cm, `ENOMEM` among them.
    ///
    /// # Safety
    ///
    /// `net` must be valid until it is destroyed; `handler` be a function for what `context` points to.
    pub(crate) unsafe fn create(
        &self,
        net: *mut bindings::net,
        handler: Handler,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: Guaranteed by the caller; the name is static.
        let raw = from_err_ptr(unsafe {
            bindings::__rdma_create_kernel_id(
                net,
                Some(handler),
                context,
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                c"mlx5_ulp_cm".as_char_ptr(),
            )
        })?;
        // INVARIANT: Just made.
        *self.raw.lock() = NonNull::new(raw);
        Ok(())
    }

    /// Calls a function of rdma_cm. Sleeps; not from a handler.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is destroyed, that of `f`.
    pub(crate) fn with(&self, f: impl FnOnce(*mut bindings::rdma_cm_id) -> c_int) -> Result {
        let raw = self.raw.lock();
        to_result(f(raw.as_ref().ok_or(ENODEV)?.as_ptr()))
    }

    /// Destroys it. No handler of it runs any more when this returns, whoever calls it and how often. Sleeps;
    /// not from a handler.
    pub(crate) fn destroy(&self) {
        // Held to the end: who finds it destroyed may rely on that.
        let mut raw = self.raw.lock();
        if let Some(id) = raw.take() {
            // SAFETY: By the type invariants it exists. Waits for its handler, which does not take the lock.
            unsafe { bindings::rdma_destroy_id(id.as_ptr()) };
        }
    }
}
