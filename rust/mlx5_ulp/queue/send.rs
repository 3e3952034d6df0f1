// SPDX-License-Identifier: GPL-2.0

//! Posting: reserve, fill, commit, ring.

use super::{
    credit::{
        Credit,
        Full, //
    },
    request::{
        flags,
        Requests, //
    },
    ring::{
        hardware,
        Ring, //
    },
    slots::Slots,
};
use crate::{
    cq::poll::Completing,
    doorbell::{
        policy::{
            Cause,
            Hint,
            Mode,
            Policy, //
        },
        register::Doorbell, //
    },
    errno::enotconn,
    hw::events::{
        QpEvent,
        QpEvents, //
    },
    observe::{
        totals::PostCounters,
        trace, //
    },
    sync::{
        new_irq_lock,
        IrqLock, //
    },
    wqe::{
        blocks,
        ctrl::{
            Ctrl,
            Fence,
            Flags,
            Head,
            Signal, //
        },
        data::{
            self,
            Data, //
        },
        opcode::Opcode,
        rdma::RemoteAddr,
        BB,
        DS,
        MAX_BBS, //
    },
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU32,
    Ordering::{
        Acquire,
        Relaxed,
        Release, //
    }, //
};
use kernel::{
    error::code::*,
    ffi::c_void,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// What requests look like that a queue is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Most requests in flight, not 0.
    pub(crate) depth: u32,
    /// Most data ranges of a request, not 0.
    pub(crate) max_sge: u32,
    /// Most bytes of inline payload of a request.
    pub(crate) max_inline: u32,
}

impl Shape {
    /// Segments of a WQE before its data: control and remote address.
    const HEAD_DS: u32 = 2;

    /// Most data ranges of any request: `ds` counts up to the largest WQE.
    pub(crate) const MAX_SGE: u32 = (MAX_BBS * BB / DS) as u32 - 1 - Self::HEAD_DS;

    /// Most inline payload: it starts behind the inline header.
    pub(crate) const MAX_INLINE: u32 = Self::MAX_SGE * DS as u32 - data::INLINE_HEADER as u32;

    /// The ring that holds `depth` such requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a value is 0 or out of range, or the ring would be too large.
    pub(crate) fn ring(&self) -> Result<Ring> {
        if self.depth == 0
            || !(1..=Self::MAX_SGE).contains(&self.max_sge)
            || self.max_inline > Self::MAX_INLINE
        {
            return Err(EINVAL);
        }
        let data_ds = self
            .max_sge
            .max(data::inline_ds(self.max_inline as u16).into());
        let blocks = u32::from(blocks((Self::HEAD_DS + data_ds) as u8));
        let blocks = self.depth.checked_mul(blocks).ok_or(EINVAL)?;
        Ring::at_least(blocks).ok_or(EINVAL)
    }
}

/// State of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Not connected yet.
    Unconnected = 0,
    /// Takes posts.
    Connected = 1,
    /// A request failed, or the queue itself: everything is flushed.
    Failed = 2,
    /// Shut down: the device, or the queue on it, is gone.
    Gone = 3,
}

impl State {
    fn from_raw(raw: u32) -> State {
        match raw {
            0 => State::Unconnected,
            1 => State::Connected,
            2 => State::Failed,
            _ => State::Gone,
        }
    }
}

/// What only a poster touches: under the lock of the queue.
#[repr(align(64))]
struct Poster {
    /// Basic blocks posted, free running.
    producer: u32,
    /// The QP's number.
    qpn: u32,
    /// Requests posted since the last that was signaled.
    unsignaled: u32,
    /// Number behind the last signaled request that was posted, and that was rung.
    signaled_posted: u32,
    signaled_rung: u32,
    /// Beginning of the last WQE: what the doorbell register is told.
    head: [u8; 8],
    slots: Slots,
    doorbell: Doorbell,
    policy: Policy,
}

/// The data path of one queue: everything that posting and completing need, and nothing that sleeps.
///
/// Posting and completing meet only in the counters of `credit` and in the table of requests.
#[pin_data]
pub(crate) struct SendQueue {
    #[pin]
    poster: IrqLock<Poster>,
    post_counters: PostCounters,
    pub(crate) credit: Credit,
    pub(crate) requests: Requests,
    pub(crate) completing: Completing,
    state: AtomicU32,
    /// Whether the device, or the completion queue, will report nothing any more.
    dead: AtomicBool,
    shape: Shape,
    ring: Ring,
    /// The device's address, for tracepoints.
    pub(crate) pci: u32,
    /// Goes back to the consumer with each completion.
    context: *mut c_void,
}

// SAFETY: `context` is handed back to the consumer and never followed; everything else is `Send`.
unsafe impl Send for SendQueue {}
// SAFETY: Posters are serialized by the lock, completers by `completing`; the rest is atomic or does not
// change.
unsafe impl Sync for SendQueue {}

impl SendQueue {
    /// A queue for requests of `shape`, without memory: it takes no posts until [`SendQueue::attach`] and
    /// [`SendQueue::open`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for a shape out of range, `ENOMEM`.
    pub(crate) fn new(shape: Shape, pci: u32, context: *mut c_void) -> Result<impl PinInit<Self>> {
        let ring = shape.ring()?;
        let mut entries =
            KVVec::with_capacity(shape.depth.next_power_of_two() as usize, GFP_KERNEL)?;
        for _ in 0..shape.depth.next_power_of_two() {
            entries.push(Default::default(), GFP_KERNEL)?;
        }
        let mut ends = KVVec::with_capacity(ring.blocks() as usize, GFP_KERNEL)?;
        for _ in 0..ring.blocks() {
            ends.push(AtomicU32::new(0), GFP_KERNEL)?;
        }
        let requests = Requests::new(entries, ends, ring).ok_or(EINVAL)?;
        Ok(pin_init!(Self {
            poster <- new_irq_lock!(Poster {
                producer: 0,
                qpn: 0,
                unsignaled: 0,
                signaled_posted: 0,
                signaled_rung: 0,
                head: [0; 8],
                slots: Slots::none(ring),
                doorbell: Doorbell::none(),
                policy: Policy::new(Mode::Each, 1, 1),
            }, c"mlx5_ulp_post"),
            post_counters: PostCounters::default(),
            credit: Credit::new(0),
            requests,
            completing: Completing::new(),
            state: AtomicU32::new(State::Unconnected as u32),
            dead: AtomicBool::new(false),
            shape,
            ring,
            pci,
            context,
        }))
    }

    /// Gives the queue its ring and its doorbell.
    ///
    /// # Safety
    ///
    /// `qp` must have a send ring of [`SendQueue::ring`], not be attached elsewhere, and outlive the time
    /// from [`SendQueue::open`] to [`SendQueue::close`].
    pub(crate) unsafe fn attach(&self, qp: &crate::hw::qp::QueuePair) -> Result {
        let base = core::ptr::NonNull::new(qp.send_ring()).ok_or(EINVAL)?;
        // SAFETY: Posts, and so rings, happen while the queue is open only; the caller guarantees that
        // `qp` lives then.
        let doorbell = unsafe { Doorbell::new(qp) }.ok_or(ENODEV)?;
        let mut poster = self.poster.lock();
        // SAFETY: As above; a queue pair's ring is its own, of the size that the caller guarantees,
        // and aligned to a page or to the basic blocks before it.
        poster.slots = unsafe { Slots::new(base, self.ring) };
        poster.doorbell = doorbell;
        poster.qpn = qp.number();
        self.completing.expect(qp.number());
        Ok(())
    }

    /// Takes posts from now on, unless the queue was closed before.
    pub(crate) fn open(&self) {
        // Under the lock, so as not to open again what `close` closes.
        let _poster = self.poster.lock();
        if self.state() == State::Unconnected {
            self.state.store(State::Connected as u32, Release);
            self.credit.open(self.shape.depth);
        }
    }

    /// Takes no more posts. When this returns, no poster is in the ring any more.
    pub(crate) fn close(&self) {
        let _poster = self.poster.lock();
        self.state.store(State::Gone as u32, Release);
        self.credit.close();
    }

    /// A request or the queue pair failed: no more posts. Any context.
    pub(crate) fn fail(&self) {
        let _ = self.state.compare_exchange(
            State::Connected as u32,
            State::Failed as u32,
            Release,
            Relaxed,
        );
        self.credit.close();
    }

    /// Nothing will be reported any more; what is in flight has to be flushed in software. Any context.
    pub(crate) fn break_down(&self) {
        self.fail();
        self.dead.store(true, Release);
    }

    /// Whether the device reports nothing any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Acquire)
    }

    /// The present state.
    pub(crate) fn state(&self) -> State {
        State::from_raw(self.state.load(Acquire))
    }

    /// The ring that a queue pair must have to be attached.
    pub(crate) fn ring(&self) -> Ring {
        self.ring
    }

    /// What requests may look like.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What goes back with each completion.
    #[inline(always)]
    pub(crate) fn context(&self) -> *mut c_void {
        self.context
    }

    /// What was posted and rung.
    pub(crate) fn post_counters(&self) -> &PostCounters {
        &self.post_counters
    }

    /// Posts a chain of WRITEs, all or none, and rings as the policy says.
    ///
    /// # Errors
    ///
    /// Those of `mlx5_ulp_post_write()` in `<mlx5_ulp.h>`. Nothing was posted then.
    ///
    /// # Safety
    ///
    /// For each of `writes`: `sge` must point to `num_sge` ranges; with the flag `INLINE` each range must
    /// be readable kernel memory; `request` must be null or stay valid until it is told.
    #[inline(always)]
    pub(crate) unsafe fn post_writes(&self, writes: &[bindings::mlx5_ulp_write]) -> Result {
        let count = writes.len() as u32;
        let mut poster = self.poster.lock();
        let poster = &mut *poster;
        let first = match self.credit.reserve(count) {
            Ok(first) => first,
            Err(Full) => return Err(self.refused()),
        };

        // Everything is written behind the producer counter, where the HCA does not look, and becomes
        // part of the queue only when the whole chain is there.
        let mut at = Cursor {
            block: poster.producer,
            request: first,
            unsignaled: poster.unsignaled,
            signaled: poster.signaled_posted,
            head: poster.head,
        };
        let mut hint = 0;
        for write in writes {
            // SAFETY: Guaranteed by the caller.
            unsafe { self.encode_write(poster, &mut at, write)? };
            hint = write.flags;
        }
        if count == 0 {
            return Ok(());
        }

        poster.producer = at.block;
        poster.unsignaled = at.unsignaled;
        poster.signaled_posted = at.signaled;
        poster.head = at.head;
        self.credit.commit(count);
        self.post_counters.posted.add(count.into());

        let hint = match hint & (flags::LAST | flags::MORE) {
            0 => Hint::None,
            flags::MORE => Hint::More,
            _ => Hint::Last,
        };
        let signaled_rung = poster.signaled_rung;
        let busy = || self.expects_completion(signaled_rung);
        if let Some(cause) = poster.policy.posted(count, busy, hint) {
            self.ring_now(poster, cause);
        }
        Ok(())
    }

    /// Writes one WRITE at the cursor and moves it on.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(always)]
    unsafe fn encode_write(
        &self,
        poster: &mut Poster,
        at: &mut Cursor,
        write: &bindings::mlx5_ulp_write,
    ) -> Result {
        if write.flags & !flags::ALL != 0 {
            return Err(EINVAL);
        }
        let signal = at.signal(write.flags, self.shape.depth);
        let fence = if write.flags & flags::FENCE != 0 {
            Fence::Fence
        } else {
            Fence::None
        };
        let mut ctrl = Ctrl {
            head: Head {
                opmod: 0,
                index: hardware(at.block),
                opcode: Opcode::RDMA_WRITE,
                qpn: poster.qpn,
                ds: 3,
            },
            signature: 0,
            flags: Flags::new(fence, signal, false),
            imm: 0,
        };
        let remote = RemoteAddr {
            addr: write.remote_addr,
            rkey: write.rkey,
        };

        let bytes = if write.num_sge == 1 && write.flags & flags::INLINE == 0 {
            // SAFETY: The caller guarantees one range.
            let range = unsafe { &*write.sge };
            if !(1..=MAX_RANGE).contains(&range.length) {
                // An empty range has no segment: 0 would mean 2 GiB there.
                if range.length != 0 {
                    return Err(EMSGSIZE);
                }
                ctrl.head.ds = 2;
            }
            let data = Data {
                byte_count: range.length,
                lkey: range.lkey,
                addr: range.addr,
            };
            poster
                .slots
                .store_block(at.block, [ctrl.encode(), remote.encode(), data.encode()]);
            range.length
        } else {
            // SAFETY: The caller guarantees `num_sge` ranges and, if inline, that they are readable.
            let (ds, bytes) = unsafe { self.encode_payload(poster, at.block, write)? };
            ctrl.head.ds = ds;
            poster
                .slots
                .store_block(at.block, [ctrl.encode(), remote.encode()]);
            bytes
        };

        self.requests
            .record(at.request, write.request as usize, at.block);
        trace::post(
            self.pci,
            poster.qpn,
            hardware(at.block),
            Opcode::RDMA_WRITE.0,
            bytes,
        );
        at.head = ctrl.head.encode();
        at.request = at.request.wrapping_add(1);
        if let Signal::Always = signal {
            at.signaled = at.request;
        }
        at.block = at.block.wrapping_add(blocks(ctrl.head.ds).into());
        Ok(())
    }

    /// Writes the data segments of a WRITE that has several ranges, none, or inline payload. Returns the
    /// length of the WQE in segment units and of the payload in bytes.
    ///
    /// # Safety
    ///
    /// As [`SendQueue::post_writes`].
    #[inline(never)]
    unsafe fn encode_payload(
        &self,
        poster: &mut Poster,
        block: u32,
        write: &bindings::mlx5_ulp_write,
    ) -> Result<(u8, u32)> {
        let mut segment = Shape::HEAD_DS;
        let mut total = 0u32;
        // Not `from_raw_parts`: with no range the pointer may be anything.
        let range = |i: u32| {
            // SAFETY: The caller guarantees `num_sge` ranges, `i` is below that.
            unsafe { &*write.sge.add(i as usize) }
        };

        if write.flags & flags::INLINE == 0 {
            if write.num_sge > self.shape.max_sge {
                return Err(EMSGSIZE);
            }
            for range in (0..write.num_sge).map(range) {
                if range.length > MAX_RANGE {
                    return Err(EMSGSIZE);
                }
                if range.length == 0 {
                    continue;
                }
                let data = Data {
                    byte_count: range.length,
                    lkey: range.lkey,
                    addr: range.addr,
                };
                poster.slots.store(block, segment, data.encode());
                segment = segment.wrapping_add(1);
                total = total.saturating_add(range.length);
            }
            return Ok((segment as u8, total));
        }

        for range in (0..write.num_sge).map(range) {
            total = total.saturating_add(range.length);
        }
        if total > self.shape.max_inline {
            return Err(EMSGSIZE);
        }
        // The payload starts behind a header of four bytes; segments are put together here and go to the
        // ring whole.
        let mut buffer = [0u8; DS];
        buffer[..data::INLINE_HEADER].copy_from_slice(&data::inline_header(total as u16));
        let mut filled = data::INLINE_HEADER;
        for range in (0..write.num_sge).map(range) {
            let memory = range.addr as usize as *const u8;
            for i in 0..range.length as usize {
                // SAFETY: The caller guarantees `length` readable bytes.
                let byte = unsafe { memory.add(i).read() };
                if let Some(place) = buffer.get_mut(filled) {
                    *place = byte;
                }
                filled = filled.wrapping_add(1);
                if filled == DS {
                    poster.slots.store(block, segment, buffer);
                    buffer = [0; DS];
                    filled = 0;
                    segment = segment.wrapping_add(1);
                }
            }
        }
        if filled != 0 {
            poster.slots.store(block, segment, buffer);
            segment = segment.wrapping_add(1);
        }
        Ok((segment as u8, total))
    }

    /// Rings for everything that was posted.
    #[inline(always)]
    fn ring_now(&self, poster: &mut Poster, _cause: Cause) {
        let wqes = poster.policy.rung();
        poster.signaled_rung = poster.signaled_posted;
        self.post_counters.doorbells.add(1);
        trace::doorbell(self.pci, poster.qpn, hardware(poster.producer), wqes);
        poster.doorbell.ring(poster.producer, poster.head);
    }

    /// Whether a completion will come from what was rung: the last signaled request that was rung, with
    /// `signaled_rung` behind it, is not retired.
    #[inline(always)]
    fn expects_completion(&self, signaled_rung: u32) -> bool {
        signaled_rung.wrapping_sub(self.credit.retired()) as i32 > 0
    }

    /// Shows the HCA everything that was posted. Any context.
    pub(crate) fn flush(&self) {
        let mut poster = self.poster.lock();
        if self.state() == State::Gone {
            return;
        }
        if let Some(cause) = poster.policy.flush() {
            self.ring_now(&mut poster, cause);
        }
    }

    /// Makes sure that everything posted so far will be reported: if the last request is not signaled,
    /// posts a signaled WQE that does nothing. Rings.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for that WQE, those of [`SendQueue::post_writes`].
    pub(crate) fn report_all(&self) -> Result {
        let mut poster = self.poster.lock();
        let poster = &mut *poster;
        if poster.unsignaled != 0 {
            let first = self.credit.reserve(1).map_err(|Full| self.refused())?;
            let ctrl = Ctrl {
                head: Head {
                    opmod: 0,
                    index: hardware(poster.producer),
                    opcode: Opcode::NOP,
                    qpn: poster.qpn,
                    ds: 1,
                },
                signature: 0,
                flags: Flags::new(Fence::None, Signal::Always, false),
                imm: 0,
            };
            poster.slots.store_block(poster.producer, [ctrl.encode()]);
            self.requests.record(first, 0, poster.producer);
            poster.head = ctrl.head.encode();
            poster.producer = poster.producer.wrapping_add(1);
            poster.unsignaled = 0;
            poster.signaled_posted = first.wrapping_add(1);
            self.credit.commit(1);
            self.post_counters.posted.add(1);
            self.ring_after(poster);
        } else if poster.policy.waiting() != 0 && self.state() != State::Gone {
            self.ring_now(poster, Cause::Flush);
        }
        Ok(())
    }

    /// Counts the WQE just posted and rings.
    fn ring_after(&self, poster: &mut Poster) {
        let cause = poster.policy.posted(1, || true, Hint::Last);
        self.ring_now(poster, cause.unwrap_or(Cause::Last));
    }

    /// Why a post was refused.
    #[cold]
    #[inline(never)]
    fn refused(&self) -> Error {
        match self.state() {
            State::Unconnected => enotconn(),
            State::Connected => {
                self.post_counters.full.add(1);
                EAGAIN
            }
            State::Failed => EPIPE,
            State::Gone => ENODEV,
        }
    }
}

impl QpEvents for SendQueue {
    fn event(&self, event: QpEvent) {
        match event {
            QpEvent::DeviceFatal => self.break_down(),
            // The queue pair is in error state; the device flushes what is posted.
            QpEvent::Catastrophic | QpEvent::InvalidRequest | QpEvent::AccessError => self.fail(),
        }
    }
}

/// Longest data range: the top bit of the byte count means something else.
const MAX_RANGE: u32 = data::INLINE - 1;

/// Where in the queue the next WQE of a chain goes. Becomes the poster's when the chain is complete.
struct Cursor {
    block: u32,
    request: u32,
    unsignaled: u32,
    signaled: u32,
    head: [u8; 8],
}

impl Cursor {
    /// Whether the next request reports its success. It does unless it need not; at the latest when half
    /// a queue has not: a queue full of silent requests would never empty.
    #[inline(always)]
    fn signal(&mut self, request_flags: u32, depth: u32) -> Signal {
        if request_flags & flags::UNSIGNALED != 0 && self.unsignaled < depth / 2 {
            self.unsignaled = self.unsignaled.wrapping_add(1);
            return Signal::OnError;
        }
        self.unsignaled = 0;
        Signal::Always
    }
}
