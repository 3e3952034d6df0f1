// SPDX-License-Identifier: GPL-2.0

//! blk-mq: its callbacks, and the calls about a request. The crate's documentation says why this is not
//! `kernel::block::mq`.

use crate::{
    channel::Steady,
    disk::Core,
    io::{
        Io,
        Pdu, //
    },
    polling::BUDGET, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    ffi::{
        c_int,
        c_uint,
        c_ulong, //
    },
    prelude::*, //
};

/// Until a flush that has found a queue full is tried again.
const FULL_PAUSE_MS: c_ulong = 1;

/// The kinds of hardware contexts, of `enum hctx_type`.
const DEFAULT: usize = bindings::hctx_type_HCTX_TYPE_DEFAULT as usize;
/// Without interrupts.
pub(crate) const POLL: usize = bindings::hctx_type_HCTX_TYPE_POLL as usize;

/// What the block layer calls.
pub(crate) static OPS: bindings::blk_mq_ops = bindings::blk_mq_ops {
    queue_rq: Some(queue_rq),
    commit_rqs: Some(commit_rqs),
    complete: Some(complete_rq),
    timeout: Some(timeout),
    map_queues: Some(map_queues),
    poll: Some(poll),
    init_request: Some(init_request),
    ..pin_init::zeroed()
};

/// The disk of a request.
///
/// # Safety
///
/// `rq` must be in the hands of the driver during `'a`, or somebody have a reference to its queue.
pub(crate) unsafe fn core_of<'a>(rq: NonNull<bindings::request>) -> &'a Core {
    // SAFETY: The queue of a request is that of `GenDisk::alloc`, its data the disk, which waits for all
    // requests, and for who else uses the queue (`q_usage_counter`), before it goes.
    unsafe { &*(*(*rq.as_ptr()).q).queuedata.cast::<Core>() }
}

/// The hardware context of a request in the hands of the driver.
pub(crate) fn index_of(io: &Io) -> usize {
    // SAFETY: By the type invariant of `Io` it is started.
    unsafe { index_of_started(io.rq()) }
}

/// The hardware context of a request.
///
/// # Safety
///
/// It must have been started, and not be another one by now.
unsafe fn index_of_started(rq: NonNull<bindings::request>) -> usize {
    // SAFETY: By the caller's word it has a hardware context, and keeps it.
    unsafe { (*(*rq.as_ptr()).mq_hctx).queue_num as usize }
}

/// Whether a request is in the hands of the driver, which may give it back at any time.
///
/// # Safety
///
/// `rq` must exist.
unsafe fn is_in_flight(rq: NonNull<bindings::request>) -> bool {
    // SAFETY: By the caller's word. Whoever ends it writes the word in one piece (`WRITE_ONCE()`).
    let state = unsafe { (&raw const (*rq.as_ptr()).state).read_volatile() };
    state == bindings::mq_rq_state_MQ_RQ_IN_FLIGHT
}

/// The driver's part of a request.
fn pdu(rq: NonNull<bindings::request>) -> NonNull<Pdu> {
    // SAFETY: Requests of our tag sets are allocated with a `Pdu` behind them.
    unsafe { rq.add(1) }.cast()
}

/// What the block layer understands.
fn status(result: Result) -> bindings::blk_status_t {
    // SAFETY: May be called for any number.
    unsafe { bindings::errno_to_blk_status(result.map_or_else(Error::to_errno, |()| 0)) }
}

/// # Safety
///
/// Called by blk-mq for a request of a disk of ours, which is given to the driver unless an error is returned.
unsafe extern "C" fn queue_rq(
    hctx: *mut bindings::blk_mq_hw_ctx,
    data: *const bindings::blk_mq_queue_data,
) -> bindings::blk_status_t {
    // SAFETY: Both are valid during the call, and the data of the queue is our disk.
    let (core, index, rq, last) = unsafe {
        (
            &*(*(*hctx).queue).queuedata.cast::<Core>(),
            (*hctx).queue_num,
            (*data).rq,
            (*data).last,
        )
    };
    let Some(rq) = NonNull::new(rq) else {
        return status(Err(EIO));
    };
    // SAFETY: The request is ours and not started yet.
    unsafe { bindings::blk_mq_start_request(rq.as_ptr()) };
    // SAFETY: Just started.
    let mut io = unsafe { Io::from_raw(pdu(rq)) };
    io.start();
    // SAFETY: This is `queue_rq`.
    let steady = unsafe { Steady::new() };
    status(core.queue(steady, io, index as usize, last))
}

/// # Safety
///
/// Called by blk-mq when what it said was not the last was the last.
unsafe extern "C" fn commit_rqs(hctx: *mut bindings::blk_mq_hw_ctx) {
    // SAFETY: Valid during the call, and the data of the queue is our disk.
    let (core, index) = unsafe {
        (
            &*(*(*hctx).queue).queuedata.cast::<Core>(),
            (*hctx).queue_num,
        )
    };
    // SAFETY: This is `commit_rqs`.
    core.commit(unsafe { Steady::new() }, index as usize);
}

/// # Safety
///
/// Called by blk-mq for whoever waits for a request of a hardware context without interrupts, with a reference to the
/// queue, also while it is quiesced.
unsafe extern "C" fn poll(
    hctx: *mut bindings::blk_mq_hw_ctx,
    _batch: *mut bindings::io_comp_batch,
) -> c_int {
    // SAFETY: Valid during the call, and the data of the queue is our disk.
    let (core, index) = unsafe {
        (
            &*(*(*hctx).queue).queuedata.cast::<Core>(),
            (*hctx).queue_num,
        )
    };
    let channel = core.channels().get(index as usize);
    channel.map_or(0, |channel| channel.poll(BUDGET)) as c_int
}

/// Which CPU has which hardware context: those without interrupts behind the others.
///
/// # Safety
///
/// Called by blk-mq for a tag set of ours.
unsafe extern "C" fn map_queues(set: *mut bindings::blk_mq_tag_set) {
    // SAFETY: Guaranteed by the caller; nobody else has it now.
    let set = unsafe { &mut *set };
    // What `TagSet::new` has left there.
    let polled = set.driver_data.addr() as u32;
    let others = set.nr_hw_queues.saturating_sub(polled);
    for (kind, map) in set.map.iter_mut().enumerate().take(set.nr_maps as usize) {
        (map.nr_queues, map.queue_offset) = match kind {
            DEFAULT => (others, 0),
            POLL => (polled, others),
            // Reads go the way of writes.
            _ => (0, 0),
        };
        if map.nr_queues != 0 {
            // SAFETY: The map has room for all CPUs, and it has queues.
            unsafe { bindings::blk_mq_map_queues(map) };
        }
    }
}

/// # Safety
///
/// Called by blk-mq for what was given to [`complete`].
unsafe extern "C" fn complete_rq(rq: *mut bindings::request) {
    if let Some(rq) = NonNull::new(rq) {
        // SAFETY: `complete` gave it up.
        let io = unsafe { Io::from_raw(pdu(rq)) };
        // SAFETY: It is still in the hands of the driver.
        unsafe { core_of(rq) }.complete(io);
    }
}

/// # Safety
///
/// Called by blk-mq, in a task, for a request that has been in flight for long.
unsafe extern "C" fn timeout(rq: *mut bindings::request) -> bindings::blk_eh_timer_return {
    let Some(rq) = NonNull::new(rq) else {
        return bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER;
    };
    // SAFETY: blk-mq has a reference to the queue during the call (`blk_mq_timeout_work()`), also when the request ends
    // meanwhile.
    let core = unsafe { core_of(rq) };
    // SAFETY: It was started, and blk-mq has a reference to it, so that it does not become another.
    let index = unsafe { index_of_started(rq) };
    if let Some(channel) = core.channels().get(index) {
        // Whoever is to look for its end may be stopped, and is no reason to give up a connection.
        channel.poll(u32::MAX);
    }
    // SAFETY: Such a reference keeps it.
    if !unsafe { is_in_flight(rq) } {
        return bindings::blk_eh_timer_return_BLK_EH_DONE;
    }
    core.lost();
    bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER
}

/// # Safety
///
/// Called by blk-mq once for each request of a tag set.
unsafe extern "C" fn init_request(
    _set: *mut bindings::blk_mq_tag_set,
    rq: *mut bindings::request,
    _index: c_uint,
    _node: c_int,
) -> c_int {
    let Some(rq) = NonNull::new(rq) else {
        return EINVAL.to_errno();
    };
    // SAFETY: There is room for it, which nobody else uses yet.
    unsafe { pdu(rq).write(Pdu::new(rq)) };
    0
}

/// Has [`Core::complete`] called, on the CPU that the request came from if that is far. Any context.
pub(crate) fn complete(io: Io) {
    // SAFETY: By the type invariant it is started, and `io` is given up.
    unsafe { bindings::blk_mq_complete_request(io.rq().as_ptr()) };
}

/// Ends a request.
pub(crate) fn end(io: Io, result: Result) {
    // SAFETY: By the type invariant it is started, and `io` is given up.
    unsafe { bindings::blk_mq_end_request(io.rq().as_ptr(), status(result)) };
}

/// Gives a request back to blk-mq, which queues it again when the disk is not quiesced.
pub(crate) fn requeue(io: Io) {
    // SAFETY: By the type invariant it is started, and `io` is given up.
    unsafe { bindings::blk_mq_requeue_request(io.rq().as_ptr(), true) };
}

/// As [`requeue`], but queued after [`FULL_PAUSE_MS`].
pub(crate) fn requeue_later(io: Io) {
    let rq = io.rq().as_ptr();
    // SAFETY: By the type invariant the request is started, and `io` is given up. Somebody else may have it queued again,
    // and it end, before the work is asked for; but completions are told with softirqs off, and as long as these are the
    // queue is not freed (`blk_free_queue_rcu()`), nor its work cancelled for the last time (`Quiesced::new`).
    unsafe {
        let queue = (*rq).q;
        bindings::blk_mq_requeue_request(rq, false);
        bindings::blk_mq_delay_kick_requeue_list(queue, FULL_PAUSE_MS);
    }
}
