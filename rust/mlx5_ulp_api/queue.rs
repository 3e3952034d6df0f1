// SPDX-License-Identifier: GPL-2.0

//! Queues.

use super::{
    bindings,
    Access,
    Device,
    Done,
    Range,
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
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

/// Where a queue can be reached (`struct mlx5_ulp_address`).
#[derive(Clone, Copy)]
pub(crate) struct Address(bindings::mlx5_ulp_address);

/// How to make a queue (`struct mlx5_ulp_queue_attr`).
#[derive(Clone, Copy)]
pub(crate) struct QueueAttr {
    /// Requests that may be in flight.
    pub(crate) depth: u32,
    /// Most data ranges of one request.
    pub(crate) max_sge: u32,
    /// Receives that may wait for messages; 0 for none.
    pub(crate) max_recv_depth: u32,
    /// Most ranges of one receive.
    pub(crate) max_recv_sge: u32,
    /// Completion vector.
    pub(crate) vector: u32,
    /// What the peer may do through it.
    pub(crate) access: Access,
    /// Function and local number by which [`Device::with_queue`] finds it.
    pub(crate) name: Option<(u8, u32)>,
    /// Where completions are heard of.
    pub(crate) completions: Completions,
    /// Whether there are registrations and invalidations.
    pub(crate) registers: bool,
}

/// Where completions of a queue are heard of (of `enum mlx5_ulp_queue_flags`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completions {
    /// With softirqs off.
    Softirq,
    /// In process context, on a workqueue.
    Work,
    /// Where [`QueueRef::poll`] is called.
    Polled,
}

impl Completions {
    fn flags(self) -> u32 {
        match self {
            Self::Softirq => 0,
            Self::Work => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_WORK,
            Self::Polled => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_POLLED,
        }
    }
}

impl QueueAttr {
    /// For `depth` requests of one range each, no receives, nothing for the peer to do, no name.
    pub(crate) const fn new(depth: u32) -> Self {
        Self {
            depth,
            max_sge: 1,
            max_recv_depth: 0,
            max_recv_sge: 1,
            vector: 0,
            access: Access::LOCAL,
            name: None,
            completions: Completions::Softirq,
            registers: false,
        }
    }
}

/// The name of a queue (`mlx5_ulp_qid()`), `None` for numbers out of range.
pub(super) fn qid(vf_id: u8, local_qid: u32) -> Option<u32> {
    let fits = u32::from(vf_id) <= bindings::MLX5_ULP_MAX_VF_ID
        && local_qid <= bindings::MLX5_ULP_MAX_LOCAL_QID;
    fits.then_some(local_qid << 8 | u32::from(vf_id))
}

/// What a queue has done (`struct mlx5_ulp_queue_stats`).
pub(crate) type Statistics = bindings::mlx5_ulp_queue_stats;

/// Most requests of one chain here.
pub(crate) const CHAIN: usize = 16;

/// Who hears that a queue that was full has room again.
pub(crate) trait Space: Send + Sync {
    /// There is room for the shortest post that has found the queue full, unless others take it: once, however many
    /// posts that were. Context as [`Done::done`]; may post. It also comes when the queue has failed, so that whoever
    /// waits posts again and learns that.
    fn space(&self);
}

/// A send queue, destroyed when dropped, which may sleep: requests in flight have ended when it is gone, and no callback
/// runs or will run.
///
/// Not to be dropped by a callback of its own, which it would wait for: for ever. So a [`Request`] that owns its queue is
/// to be kept by somebody else until it has ended, and who is told of [`Space`] by a queue must not own that.
///
/// # Invariants
///
/// The queue exists.
pub(crate) struct Queue {
    handle: NonNull<bindings::mlx5_ulp_queue>,
    /// Outlives the queue, which has a pointer to what is in the box.
    _space: Option<KBox<Arc<dyn Space>>>,
    _device: Arc<Device>,
}

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for Queue {}
// SAFETY: The interface does its own locking.
unsafe impl Sync for Queue {}

impl Queue {
    /// `mlx5_ulp_queue_create()`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for attributes out of range, `EEXIST` if the name is taken, `ENODEV`, `ENOMEM`, or what the
    /// firmware answered.
    pub(crate) fn new(device: &Arc<Device>, attr: QueueAttr) -> Result<Self> {
        Self::create(device, attr, None)
    }

    /// As [`Queue::new`], with `space` told when there is room again in a queue that was full.
    ///
    /// # Errors
    ///
    /// As [`Queue::new`].
    pub(crate) fn with_space(
        device: &Arc<Device>,
        attr: QueueAttr,
        space: Arc<dyn Space>,
    ) -> Result<Self> {
        Self::create(device, attr, Some(KBox::new(space, GFP_KERNEL)?))
    }

    fn create(
        device: &Arc<Device>,
        attr: QueueAttr,
        told: Option<KBox<Arc<dyn Space>>>,
    ) -> Result<Self> {
        let context = told.as_deref().map_or(null_mut(), |told| {
            core::ptr::from_ref(told).cast_mut().cast()
        });
        let (named, qid) = match attr.name {
            Some((vf_id, local_qid)) => (
                bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_NAMED,
                qid(vf_id, local_qid).ok_or(EINVAL)?,
            ),
            None => (0, 0),
        };
        let registers = match attr.registers {
            true => bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_REGISTERS,
            false => 0,
        };
        let attr = bindings::mlx5_ulp_queue_attr {
            depth: attr.depth,
            max_sge: attr.max_sge,
            max_inline: 0,
            max_recv_depth: attr.max_recv_depth,
            max_recv_sge: attr.max_recv_sge,
            space: told
                .is_some()
                .then_some(space as unsafe extern "C" fn(*mut c_void)),
            vector: attr.vector,
            access: attr.access.bits(),
            flags: bindings::mlx5_ulp_queue_flags_MLX5_ULP_QUEUE_SHARED
                | named
                | registers
                | attr.completions.flags(),
            qid,
            context,
        };
        // SAFETY: The handle is open, the attributes are valid; `space` is the function for what `context` points to,
        // which is kept until the queue is destroyed.
        let handle = unsafe { bindings::mlx5_ulp_queue_create(device.as_ptr(), &attr) };
        let handle = from_err_ptr(handle)?;
        // INVARIANT: Just created, and destroyed by `drop` only.
        Ok(Self {
            handle: NonNull::new(handle).ok_or(ENOMEM)?,
            _space: told,
            _device: device.clone(),
        })
    }

    /// `mlx5_ulp_queue_address()`; `gid_index` `None` for the first of RoCE v2. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such GID, `ENODEV`.
    pub(crate) fn address(&self, gid_index: Option<u8>) -> Result<Address> {
        // SAFETY: All zeroes is a valid value of this plain structure.
        let mut address: bindings::mlx5_ulp_address = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the queue exists; `address` is a place for the answer.
        to_result(unsafe {
            bindings::mlx5_ulp_queue_address(
                self.handle.as_ptr(),
                gid_index.map_or(bindings::MLX5_ULP_GID_AUTO, i32::from),
                &mut address,
            )
        })?;
        Ok(Address(address))
    }

    /// `mlx5_ulp_queue_connect()` with the usual timeouts. May sleep.
    ///
    /// # Errors
    ///
    /// `EISCONN`, `EINVAL`, `ENOENT`, `ENODEV`, or what the firmware answered.
    pub(crate) fn connect(&self, peer: &Address, gid_index: Option<u8>) -> Result {
        let attr = bindings::mlx5_ulp_connect_attr {
            gid_index: gid_index.map_or(bindings::MLX5_ULP_GID_AUTO, i32::from),
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            traffic_class: 0,
            max_reads: 0,
            max_peer_reads: 0,
        };
        // SAFETY: By the type invariant the queue exists; the rest is valid.
        to_result(unsafe { bindings::mlx5_ulp_queue_connect(self.handle.as_ptr(), &peer.0, &attr) })
    }

    /// The queue as the C interface knows it, valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *mut bindings::mlx5_ulp_queue {
        self.handle.as_ptr()
    }

    /// The queue as everybody may use it who finds it.
    pub(crate) fn borrow(&self) -> QueueRef<'_> {
        // SAFETY: By the type invariant the queue exists, as long as `self`.
        unsafe { QueueRef::new(self.handle) }
    }

    /// See [`QueueRef::post_write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_write<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        write: Write<'_>,
    ) -> Result {
        self.borrow().post_write(request, write)
    }

    /// See [`QueueRef::post_writes`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_writes<T: Done>(
        &self,
        request: &Arc<Request<T>>,
        writes: &[Write<'_>],
    ) -> Result {
        self.borrow().post_writes(request, writes)
    }

    /// See [`QueueRef::post`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post<T: Done>(&self, works: &[Work<'_, T>]) -> Result {
        self.borrow().post(works)
    }

    /// See [`QueueRef::post_receives`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn post_receives<T: Done>(&self, receives: &[Receive<'_, T>]) -> Result {
        self.borrow().post_receives(receives)
    }

    /// `mlx5_ulp_queue_stop()`. May sleep; not from a completion.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone (everything has ended then, too), or what the firmware answered.
    pub(crate) fn stop(&self) -> Result {
        // SAFETY: By the type invariant the queue exists; it is not exclusive.
        to_result(unsafe { bindings::mlx5_ulp_queue_stop(self.handle.as_ptr()) })
    }

    /// See [`QueueRef::flush`].
    pub(crate) fn flush(&self) {
        self.borrow().flush();
    }

    /// `mlx5_ulp_queue_pin()`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `EOPNOTSUPP` if the cache is off, `ENODEV`.
    pub(crate) fn pin(&self) -> Result {
        // SAFETY: By the type invariant the queue exists.
        to_result(unsafe { bindings::mlx5_ulp_queue_pin(self.handle.as_ptr()) })
    }

    /// `mlx5_ulp_queue_drain()`. May sleep; not from a completion.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone; all requests have ended then, too.
    pub(crate) fn drain(&self) -> Result {
        // SAFETY: By the type invariant the queue exists.
        to_result(unsafe { bindings::mlx5_ulp_queue_drain(self.handle.as_ptr()) })
    }

    /// See [`QueueRef::statistics`].
    pub(crate) fn statistics(&self) -> Statistics {
        self.borrow().statistics()
    }
}

/// Called by the module.
///
/// # Safety
///
/// `context` must point to a `Arc<dyn Space>` that outlives the call.
unsafe extern "C" fn space(context: *mut c_void) {
    // SAFETY: The caller guarantees it.
    let told = unsafe { &*context.cast::<Arc<dyn Space>>() };
    told.space();
}

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
        let sge = write.local.raw();
        let raw = Request::into_raw(request);
        let write = bindings::mlx5_ulp_write {
            request: raw,
            sge: &sge,
            num_sge: 1,
            flags: write.flags.bits(),
            remote_addr: write.remote_addr,
            rkey: write.rkey,
        };
        // SAFETY: By the type invariant the queue exists. The request keeps itself alive until it is
        // told. `Flags` has no way to say that addresses are to be read by the CPU.
        let status = unsafe { bindings::mlx5_ulp_post_write(self.handle.as_ptr(), &write) };
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
        if writes.len() > CHAIN {
            return Err(EMSGSIZE);
        }
        let sges: [_; CHAIN] =
            core::array::from_fn(|i| writes.get(i).map_or(Range::NONE, |w| w.local).raw());
        let raw: [_; CHAIN] = core::array::from_fn(|i| {
            let write = writes.get(i);
            bindings::mlx5_ulp_write {
                request: write.map_or(null_mut(), |_| Request::into_raw(request)),
                sge: sges.get(i).map_or(null(), |sge| sge),
                num_sge: 1,
                flags: write.map_or(0, |w| w.flags.bits()),
                remote_addr: write.map_or(0, |w| w.remote_addr),
                rkey: write.map_or(0, |w| w.rkey),
            }
        });
        let count = writes.len() as u32;
        // SAFETY: By the type invariant the queue exists. The request keeps itself alive until it has
        // been told for each of the `count` writes. `Flags` has no way to say that addresses are to be
        // read by the CPU.
        let status =
            unsafe { bindings::mlx5_ulp_post_writes(self.handle.as_ptr(), raw.as_ptr(), count) };
        let result = to_result(status);
        if result.is_err() {
            for write in raw.iter().take(writes.len()) {
                // SAFETY: Nothing was posted, so no completion gives the reference back.
                drop(unsafe { Request::<T>::from_raw(write.request) });
            }
        }
        result
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

    /// `mlx5_ulp_reserve()`. Any context. Room for `count` requests, given back when dropped.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for all of them now, `EMSGSIZE` if there never is, `ENOTCONN`, `EPIPE`,
    /// `ENODEV`.
    pub(crate) fn reserve(&self, count: u32) -> Result<Reservation<'a>> {
        let mut raw = bindings::mlx5_ulp_reservation { left: 0 };
        // SAFETY: By the type invariant the queue exists; `raw` is ours.
        to_result(unsafe { bindings::mlx5_ulp_reserve(self.handle.as_ptr(), &mut raw, count) })?;
        Ok(Reservation { queue: *self, raw })
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
            for receive in raw.iter().take(receives.len()) {
                // SAFETY: Nothing was posted, so no completion gives the reference back.
                drop(unsafe { Request::<T>::from_raw(receive.request) });
            }
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

impl Reservation<'_> {
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

/// Has `post` post a chain: as [`QueueRef::post`].
///
/// The chain that `post` gets is valid for the call, its ranges are borrowed by `works`, each request keeps itself
/// alive until it has been told, and [`Flags`](super::Flags) has no way to say that addresses are to be read by
/// the CPU.
fn post_chain<T: Done>(
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
        for work in raw.iter().take(works.len()) {
            // SAFETY: Nothing was posted, so no completion gives the reference back.
            drop(unsafe { Request::<T>::from_raw(work.request) });
        }
    }
    result
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue exists, and nobody uses it after.
        unsafe { bindings::mlx5_ulp_queue_destroy(self.handle.as_ptr()) };
    }
}
