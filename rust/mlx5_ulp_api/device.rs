// SPDX-License-Identifier: GPL-2.0

//! Devices.

use super::{
    bindings,
    queue::{
        qid,
        QueueRef, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};

/// A hold on a device, closed when dropped. Queues and regions keep a reference.
///
/// # Invariants
///
/// The handle is open.
pub(crate) struct Device(NonNull<bindings::mlx5_ulp_device>);

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for Device {}
// SAFETY: The interface does its own locking.
unsafe impl Sync for Device {}

impl Device {
    /// `mlx5_ulp_open()`, without a removal notice. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device.
    pub(crate) fn open(name: &CStr) -> Result<Arc<Self>> {
        // SAFETY: A string, and no attributes.
        let handle = from_err_ptr(unsafe {
            bindings::mlx5_ulp_open(name.as_char_ptr(), core::ptr::null())
        })?;
        // INVARIANT: Just opened, and closed by `drop` only.
        let device = Self(NonNull::new(handle).ok_or(ENODEV)?);
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    /// `mlx5_ulp_local_key()`.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: By the type invariant the handle is open.
        unsafe { bindings::mlx5_ulp_local_key(self.as_ptr()) }
    }

    /// `mlx5_ulp_queue_find()`: calls `f` with the queue that was named so, if there is one. `f` runs in a
    /// read section of RCU: it must not sleep.
    pub(crate) fn with_queue<R>(
        &self,
        vf_id: u8,
        local_qid: u32,
        f: impl FnOnce(QueueRef<'_>) -> R,
    ) -> Option<R> {
        let qid = qid(vf_id, local_qid)?;
        let _guard = rcu::read_lock();
        // SAFETY: By the type invariant the handle is open.
        let queue = NonNull::new(unsafe { bindings::mlx5_ulp_queue_find(self.as_ptr(), qid) })?;
        // SAFETY: What was found exists to the end of the read section.
        Some(f(unsafe { QueueRef::new(queue) }))
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_device {
        self.0.as_ptr()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the handle is open, and nobody uses it after.
        unsafe { bindings::mlx5_ulp_close(self.as_ptr()) };
    }
}
