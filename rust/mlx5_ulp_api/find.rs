// SPDX-License-Identifier: GPL-2.0

//! Finding queues, those of others too.
//!
//! What is found belongs to somebody who may destroy it at any time, but not as long as somebody is in a read section of RCU
//! that has found it. So it is lent to a closure, which such a section encloses, and which cannot keep it.

use super::{
    bindings,
    Device,
    Qid,
    QueueRef, //
};
use core::ptr::NonNull;
use kernel::sync::rcu;

impl Device {
    /// `mlx5_ulp_queue_find()`: calls `f` with the queue of this name, if there is one on the device. Any context; `f` must
    /// not sleep.
    pub(crate) fn with_queue<R>(&self, name: Qid, f: impl FnOnce(QueueRef<'_>) -> R) -> Option<R> {
        let find = || {
            // SAFETY: By the type invariant the handle is open.
            unsafe { bindings::mlx5_ulp_queue_find(self.as_ptr(), name.bits()) }
        };
        // SAFETY: That finds a queue, or none.
        unsafe { lend(f, find) }
    }

    /// `mlx5_ulp_queue_find_qpn()`: likewise with the queue that has this QP number, whether it has a name or not. It may be
    /// an exclusive one: posting to it answers `EINVAL` then.
    pub(crate) fn with_queue_qpn<R>(
        &self,
        qpn: u32,
        f: impl FnOnce(QueueRef<'_>) -> R,
    ) -> Option<R> {
        let find = || {
            // SAFETY: By the type invariant the handle is open.
            unsafe { bindings::mlx5_ulp_queue_find_qpn(self.as_ptr(), qpn) }
        };
        // SAFETY: As above.
        unsafe { lend(f, find) }
    }

    /// `mlx5_ulp_queue_prefetch()`: brings what is known of these names to this CPU. Any context.
    pub(crate) fn prefetch(&self, names: &[Qid]) {
        // SAFETY: By the type invariant the handle is open; a `Qid` is a word, and there are so many.
        unsafe {
            bindings::mlx5_ulp_queue_prefetch(
                self.as_ptr(),
                names.as_ptr().cast(),
                names.len() as u32,
            );
        }
    }
}

/// Lends what `find` finds to `f`.
///
/// # Safety
///
/// `find` must return what a call of the interface has just found, or null.
unsafe fn lend<R>(
    f: impl FnOnce(QueueRef<'_>) -> R,
    find: impl FnOnce() -> *mut bindings::mlx5_ulp_queue,
) -> Option<R> {
    let _guard = rcu::read_lock();
    let queue = NonNull::new(find())?;
    // SAFETY: What was found exists to the end of the read section, and `f` cannot keep it longer.
    Some(f(unsafe { QueueRef::new(queue) }))
}
