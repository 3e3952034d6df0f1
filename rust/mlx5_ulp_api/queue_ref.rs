// SPDX-License-Identifier: GPL-2.0

//! Posting to a queue, by whoever may use it.

use super::{
    bindings,
    queue::{
        Queue,
        Statistics, //
    },
    Done,
    Receive,
    Request,
    Work,
    Write, //
};
use core::{
    marker::PhantomData,
    ptr::{
        null,
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

/// Most requests of one chain here.
pub(crate) const CHAIN: usize = 16;

/// A queue of somebody, that exists during `'a`.
///
/// # Invariants
///
/// The queue exists.
#[derive(Clone, Copy)]
pub(crate) struct QueueRef<'a> {
    handle: NonNull<bindings::mlx5_ulp_queue>,
    _queue: PhantomData<&'a Queue>,
}

impl<'a> QueueRef<'a> {
    /// # Safety
    ///
    /// The queue must exist during the lifetime.
    pub(super) unsafe fn new(handle: NonNull<bindings::mlx5_ulp_queue>) -> Self {
        // INVARIANT: The caller guarantees it.
        Self {
            handle,
            _queue: PhantomData,
        }
    }

    /// `mlx5_ulp_post_write()`. Any context. `request` is told when it has ended.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the queue is full, `ENOTCONN`, `EPIPE`, `ENODEV`, `EMSGSIZE`. Nothing was posted then.
    pub(crate) fn post_write<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        write: Write<'_>,
    ) -> Result {
        let raw = Request::into_raw(request);
        // SAFETY: By the type invariant the queue exists. What `write` borrows is there, to be copied if it is inline. The
        // request keeps itself alive until it is told.
        let status =
            unsafe { bindings::mlx5_ulp_post_write(self.handle.as_ptr(), &write.raw(raw)) };
        let result = to_result(status);
        if result.is_err() {
            // SAFETY: Nothing was posted, so no completion gives the reference back.
            drop(unsafe { Request::<T>::from_raw(raw) });
        }
        result
    }

    /// `mlx5_ulp_post_writes()`. Any context. `request` is told when each of them has ended.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if they do not all fit into the queue now, `EMSGSIZE` for more than [`CHAIN`], `ENOTCONN`,
    /// `EPIPE`, `ENODEV`. Nothing was posted then.
    pub(crate) fn post_writes<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        writes: &[Write<'_>],
    ) -> Result {
        post_write_chain(request, writes, |writes, count| {
            // SAFETY: By the type invariant the queue exists; as `post_write_chain` guarantees.
            unsafe { bindings::mlx5_ulp_post_writes(self.handle.as_ptr(), writes, count) }
        })
    }

    /// `mlx5_ulp_post()`. Any context. The request of each of them is told when it has ended.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if they do not all fit into the queue now, `EMSGSIZE` for more than [`CHAIN`] or more ranges
    /// than the queue was made for, `EINVAL`, `ENOTCONN`, `EPIPE`, `ENODEV`. Nothing was posted then.
    pub(crate) fn post<T: Done>(&self, works: &[Work<'_, T>]) -> Result {
        post_chain(works, |works, count| {
            // SAFETY: By the type invariant the queue exists; as `post_chain` guarantees.
            unsafe { bindings::mlx5_ulp_post(self.handle.as_ptr(), works, count) }
        })
    }

    /// `mlx5_ulp_post_receives()`. Any context. The request of each of them is told when a message has come,
    /// or none comes any more.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for all of them now, `EMSGSIZE` for more than [`CHAIN`] or more ranges than
    /// the queue was made for, `EINVAL` if it takes none, `EPIPE`, `ENODEV`. Nothing was posted then.
    pub(crate) fn post_receives<T: Done>(&self, receives: &[Receive<'_, T>]) -> Result {
        if receives.len() > CHAIN {
            return Err(EMSGSIZE);
        }
        let raw: [_; CHAIN] = core::array::from_fn(|i| match receives.get(i) {
            Some(receive) => receive.to_raw(),
            None => bindings::mlx5_ulp_receive {
                request: null_mut(),
                sge: null(),
                num_sge: 0,
            },
        });
        let count = receives.len() as u32;
        // SAFETY: By the type invariant the queue exists. The ranges are borrowed by `receives`. Each request
        // keeps itself alive until it has been told.
        let status =
            unsafe { bindings::mlx5_ulp_post_receives(self.handle.as_ptr(), raw.as_ptr(), count) };
        let result = to_result(status);
        if result.is_err() {
            let requests = raw
                .iter()
                .take(receives.len())
                .map(|receive| receive.request);
            // SAFETY: Each has just been made of a reference, and nothing was posted.
            unsafe { take_back::<T>(requests) };
        }
        result
    }

    /// `mlx5_ulp_post()`, for consumers whose requests are in memory of their own. Any context.
    ///
    /// # Errors
    ///
    /// As [`QueueRef::post`].
    ///
    /// # Safety
    ///
    /// Each request and the ranges that `works` point to must be valid; each request must stay so until it is
    /// told, and the memory of the ranges must not be used otherwise until then.
    #[inline]
    pub(crate) unsafe fn post_raw(&self, works: &[bindings::mlx5_ulp_work]) -> Result {
        // SAFETY: By the type invariant the queue exists; the caller guarantees the rest.
        to_result(unsafe {
            bindings::mlx5_ulp_post(self.handle.as_ptr(), works.as_ptr(), works.len() as u32)
        })
    }

    /// `mlx5_ulp_queue_qpn()`. Any context.
    pub(crate) fn qpn(&self) -> u32 {
        // SAFETY: By the type invariant the queue exists.
        unsafe { bindings::mlx5_ulp_queue_qpn(self.handle.as_ptr()) }
    }

    /// The queue as the C interface knows it.
    pub(super) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue {
        self.handle.as_ptr()
    }

    /// `mlx5_ulp_flush()`. Any context.
    pub(crate) fn flush(&self) {
        // SAFETY: By the type invariant the queue exists.
        unsafe { bindings::mlx5_ulp_flush(self.handle.as_ptr()) };
    }

    /// `mlx5_ulp_poll()`: takes up to `budget` completion entries and tells. Returns how many. Task or softirq; of a
    /// queue with [`Completions::Work`], task only; not from a completion.
    pub(crate) fn poll(&self, budget: u32) -> u32 {
        // SAFETY: By the type invariant the queue exists.
        let taken = unsafe { bindings::mlx5_ulp_poll(self.handle.as_ptr(), budget) };
        u32::try_from(taken).unwrap_or(0)
    }

    /// `mlx5_ulp_queue_query_stats()`. Any context.
    pub(crate) fn statistics(&self) -> Statistics {
        // SAFETY: All zeroes is a valid value of this plain structure.
        let mut stats: Statistics = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the queue exists; `stats` is a place for the answer.
        unsafe { bindings::mlx5_ulp_queue_query_stats(self.handle.as_ptr(), &mut stats) };
        stats
    }
}

/// Room in a queue that nobody else takes (`struct mlx5_ulp_reservation`), given back when dropped.
pub(crate) struct Reservation<'a> {
    queue: QueueRef<'a>,
    raw: bindings::mlx5_ulp_reservation,
}

impl<'a> Reservation<'a> {
    /// `mlx5_ulp_reserve()`.
    ///
    /// # Errors
    ///
    /// As [`Queue::reserve`].
    ///
    /// # Safety
    ///
    /// Of an exclusive queue, whose poster has no lock, the caller must be that poster as long as the reservation exists.
    pub(super) unsafe fn new(queue: QueueRef<'a>, count: u32) -> Result<Self> {
        let mut raw = bindings::mlx5_ulp_reservation { left: 0 };
        // SAFETY: By the type invariant the queue exists; `raw` is ours.
        to_result(unsafe { bindings::mlx5_ulp_reserve(queue.handle.as_ptr(), &mut raw, count) })?;
        Ok(Self { queue, raw })
    }

    /// Requests that can still be posted from it.
    pub(crate) fn left(&self) -> u32 {
        self.raw.left
    }

    /// `mlx5_ulp_post_reserved()`. Any context.
    ///
    /// # Errors
    ///
    /// As [`QueueRef::post`], but never `EAGAIN`; `EINVAL` also if there are more than are left.
    pub(crate) fn post<T: Done>(&mut self, works: &[Work<'_, T>]) -> Result {
        let (handle, raw) = (self.queue.handle, &mut self.raw);
        post_chain(works, |works, count| {
            // SAFETY: By the type invariant of `QueueRef` the queue exists, and the reservation is of it; as
            // `post_chain` guarantees.
            unsafe { bindings::mlx5_ulp_post_reserved(handle.as_ptr(), raw, works, count) }
        })
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant of `QueueRef` the queue exists, and the reservation is of it.
        unsafe { bindings::mlx5_ulp_release(self.queue.handle.as_ptr(), &mut self.raw) };
    }
}

/// Gives back the references that requests keep to themselves until they are told.
///
/// # Safety
///
/// Each must come from [`Request::into_raw`], once for each time that it is here, and no completion may come of that.
unsafe fn take_back<T: Done>(requests: impl Iterator<Item = *mut bindings::mlx5_ulp_request>) {
    for request in requests {
        // SAFETY: The caller guarantees it.
        drop(unsafe { Request::<T>::from_raw(request) });
    }
}

/// Has `post` post a chain: as [`QueueRef::post`].
///
/// The chain that `post` gets is valid for the call, as is what it borrows: ranges, and bytes to be copied. Each request
/// keeps itself alive until it has been told.
pub(super) fn post_chain<T: Done>(
    works: &[Work<'_, T>],
    post: impl FnOnce(*const bindings::mlx5_ulp_work, u32) -> c_int,
) -> Result {
    if works.len() > CHAIN {
        return Err(EMSGSIZE);
    }
    let raw: [_; CHAIN] = core::array::from_fn(|i| match works.get(i) {
        Some(work) => work.to_raw(),
        // SAFETY: All zeroes is a valid value of this plain structure.
        None => unsafe { core::mem::zeroed() },
    });
    let result = to_result(post(raw.as_ptr(), works.len() as u32));
    if result.is_err() {
        let requests = raw.iter().take(works.len()).map(|work| work.request);
        // SAFETY: Each has just been made of a reference, and nothing was posted.
        unsafe { take_back::<T>(requests) };
    }
    result
}

/// Has `post` post a chain of WRITEs: as [`QueueRef::post_writes`], under the guarantees of [`post_chain`].
pub(super) fn post_write_chain<T: Done>(
    request: &Arc<Request<T>>,
    writes: &[Write<'_>],
    post: impl FnOnce(*const bindings::mlx5_ulp_write, u32) -> c_int,
) -> Result {
    if writes.len() > CHAIN {
        return Err(EMSGSIZE);
    }
    let raw: [_; CHAIN] = core::array::from_fn(|i| match writes.get(i) {
        Some(write) => write.raw(Request::into_raw(request)),
        // SAFETY: All zeroes is a valid value of this plain structure.
        None => unsafe { core::mem::zeroed() },
    });
    let result = to_result(post(raw.as_ptr(), writes.len() as u32));
    if result.is_err() {
        let requests = raw.iter().take(writes.len()).map(|write| write.request);
        // SAFETY: Each has just been made of a reference, and nothing was posted.
        unsafe { take_back::<T>(requests) };
    }
    result
}
