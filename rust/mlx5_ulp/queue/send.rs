// SPDX-License-Identifier: GPL-2.0

//! The data path of a queue: reserve, fill, commit, ring.

use super::{
    credit::{
        Credit,
        Handle, //
    },
    in_flight::{
        Cookie,
        Mark, //
    },
    poster::{
        Poster,
        PosterCell, //
    },
    request::{
        flags,
        Requests, //
    },
    ring::{
        hardware,
        Ring, //
    },
    shape::Shape,
    slots::Slots,
};
use crate::{
    cq::{
        moderator::Moderator,
        poll::Completing, //
    },
    device::Hold,
    doorbell::{
        hold::{
            self,
            Expiry, //
        },
        policy::{
            Cause,
            Hint,
            Mode,
            Policy, //
        },
        register::Doorbell,
        timer::{
            Expire,
            Timer, //
        }, //
    },
    errno::enotconn,
    hw::{
        cq::CqCore,
        events::{
            QpEvent,
            QpEvents, //
        },
        qp::QueuePair, //
    },
    observe::{
        latency::{
            self,
            Latency,
            Notes, //
        },
        totals::PostCounters,
        trace, //
    },
    params::Params,
    work::{
        Work,
        WorkItem, //
    }, //
};
use core::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{
        fence,
        AtomicBool,
        AtomicU32,
        Ordering::{
            Acquire,
            Relaxed,
            Release,
            SeqCst, //
        }, //
    },
};
use kernel::{
    error::code::*,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

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

/// The data path of one queue: everything that posting and completing need, and nothing that sleeps.
///
/// Posting and completing meet only in the counters of `credit` and in the tables of `requests`.
#[pin_data]
pub(crate) struct SendQueue {
    #[pin]
    poster: PosterCell,
    post_counters: PostCounters,
    pub(crate) credit: Credit,
    pub(crate) requests: Requests,
    pub(crate) completing: Completing,
    #[pin]
    pub(crate) moderator: Moderator,
    #[pin]
    pub(crate) work: WorkItem,
    /// Where latencies are counted, and what is noted for that.
    pub(crate) latency: Arc<Latency>,
    pub(crate) notes: Notes,
    /// Who posts.
    handle: Handle,
    /// Whether WQEs may wait for the doorbell, so that completions have to look after them.
    deferring: AtomicBool,
    state: AtomicU32,
    /// Whether the device, or the completion queue, will report nothing any more.
    dead: AtomicBool,
    pub(super) shape: Shape,
    ring: Ring,
    /// Address of the PCI function, for tracepoints.
    pub(crate) pci: u32,
    /// Goes back to the consumer with each completion.
    context: *mut c_void,
    #[pin]
    timer: Timer,
}

// SAFETY: `context` is handed back to the consumer and never followed; everything else is `Send`.
unsafe impl Send for SendQueue {}
// SAFETY: Posters are serialized by `poster`, completers by `completing`; the rest is atomic or does not
// change.
unsafe impl Sync for SendQueue {}

/// `n` times the default.
fn table<T: Default>(n: usize) -> Result<KVVec<T>> {
    let mut table = KVVec::with_capacity(n, GFP_KERNEL)?;
    for _ in 0..n {
        table.push(T::default(), GFP_KERNEL)?;
    }
    Ok(table)
}

impl SendQueue {
    /// A queue for requests of `shape`, without memory, on the function of
    /// `hold`: it takes no posts until [`SendQueue::attach`] and
    /// [`SendQueue::open`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for a shape out of range, `ENOMEM`.
    pub(crate) fn new(
        shape: Shape,
        handle: Handle,
        hold: &Hold,
        context: *mut c_void,
    ) -> Result<impl PinInit<Self> + use<>> {
        let (settings, pci) = (hold.params().moderation(), hold.pci_address());
        let (latency, notes) = (hold.latency().clone(), Notes::new(hold));
        let ring = shape.ring().ok_or(EINVAL)?;
        let requests = Requests::new(
            table::<Cookie>(shape.entries())?,
            table::<Mark>(ring.blocks() as usize)?,
            ring,
        )
        .ok_or(EINVAL)?;
        Ok(pin_init!(Self {
            poster <- PosterCell::new(Poster {
                producer: 0,
                qpn: 0,
                unsignaled: 0,
                signaled_rung: 0,
                slots: Slots::none(ring),
                policy: Policy::new(Mode::Each, 1, 1),
                doorbell: Doorbell::none(),
                head: [0; 8],
                hold: hold::Hold::new(),
            }),
            post_counters: PostCounters::default(),
            credit: Credit::new(),
            requests,
            completing: Completing::new(),
            moderator <- Moderator::new(settings),
            latency,
            notes,
            // SAFETY: At the offset that is told; who closes the queue disables it.
            work <- unsafe { WorkItem::new::<Self>() },
            handle,
            deferring: AtomicBool::new(false),
            state: AtomicU32::new(State::Unconnected as u32),
            dead: AtomicBool::new(false),
            shape,
            ring,
            pci,
            context,
            // SAFETY: At the offset that is told; `close` cancels it.
            timer <- unsafe { Timer::new::<Self>() },
        }))
    }

    /// Gives the queue its ring, its doorbell and its completions.
    ///
    /// # Safety
    ///
    /// `qp` must have a send ring of [`SendQueue::ring`], not be attached elsewhere, and outlive the time
    /// from [`SendQueue::open`] to [`SendQueue::close`]. `cq` must live until [`SendQueue::end`] has
    /// returned and the work item is disabled. Nobody posts yet.
    pub(crate) unsafe fn attach(&self, qp: &QueuePair, cq: &CqCore) -> Result {
        let base = NonNull::new(qp.send_ring()).ok_or(EINVAL)?;
        // SAFETY: Posts, and so rings, happen while the queue is open only; the caller guarantees that
        // `qp` lives then.
        let doorbell = unsafe { Doorbell::new(qp) }.ok_or(ENODEV)?;
        let mut poster = self.poster.lock();
        // SAFETY: As above; a queue pair's ring is its own, of the size that the caller guarantees,
        // and aligned to a page or to the basic blocks before it.
        poster.slots = unsafe { Slots::new(base, self.ring) };
        poster.doorbell = doorbell;
        poster.qpn = qp.number();
        // SAFETY: Guaranteed by the caller.
        unsafe { self.completing.attach(cq, qp.number(), self.shape.depth) };
        Ok(())
    }

    /// Takes posts from now on, unless the queue was closed before or its device has died. Not at the
    /// same time as [`SendQueue::close`].
    pub(crate) fn open(&self) {
        let opened = self.state.compare_exchange(
            State::Unconnected as u32,
            State::Connected as u32,
            Release,
            Relaxed,
        );
        if opened.is_ok() {
            self.credit.open(self.handle, self.shape.depth);
            // Pairs with the fences of `fail` and `break_down`: either they see the queue connected, or
            // what they did is seen here.
            fence(SeqCst);
            if self.is_dead() {
                self.fail();
            } else if self.state() != State::Connected {
                self.credit.close();
            }
        }
    }

    /// Takes no more posts. When this returns, no poster is in the ring any more, nor the timer. Sleeps.
    pub(crate) fn close(&self) {
        self.state.store(State::Gone as u32, Release);
        self.credit.close();
        self.wait_for_posters();
        // Nobody starts it again: posters look at the credit before, and hold the lock until after.
        self.timer.cancel();
    }

    /// Whoever posted when the queue was closed to posts has done so when this returns. Sleeps.
    fn wait_for_posters(&self) {
        match self.handle {
            Handle::Shared => drop(self.poster.lock()),
            // An exclusive poster has interrupts off.
            // SAFETY: Process context.
            Handle::Exclusive => unsafe { bindings::synchronize_rcu() },
        }
    }

    /// A request or the queue pair failed: no more posts. Any context.
    pub(crate) fn fail(&self) {
        let _ = self.state.compare_exchange(
            State::Connected as u32,
            State::Failed as u32,
            Release,
            Relaxed,
        );
        // Pairs with that of `open`: the limit that it sets does not land behind this one unseen.
        fence(SeqCst);
        self.credit.close();
    }

    /// Nothing will be reported any more; what is in flight has to be flushed in software. Any context.
    pub(crate) fn break_down(&self) {
        self.dead.store(true, Release);
        // Pairs with that of `open`: a queue that is not connected yet learns of it there.
        fence(SeqCst);
        self.fail();
        self.work.queue();
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

    /// Takes over the parameters of the device, also while traffic runs. The doorbell of an exclusive
    /// queue is rung at the end of each post, whatever they say: nobody but its poster may ring.
    pub(crate) fn configure(&self, params: &Params) {
        if self.handle == Handle::Exclusive {
            return;
        }
        let mut poster = self.poster.lock();
        // Read under the lock: of two who configure, the later one has the later values.
        let config = params.doorbell();
        poster.hold.set(config.max_hold_us);
        let cause = poster
            .policy
            .change(config.mode, config.batch, config.max_batch);
        self.deferring.store(config.mode != Mode::Each, Relaxed);
        self.ring_if(&mut poster, cause);
    }

    /// Whether latencies are to be measured from now on. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn measure_latency(&self, on: bool) -> Result {
        if on {
            self.notes.prepare(self.shape.entries())
        } else {
            self.notes.forget();
            Ok(())
        }
    }

    /// Bytes that it takes, the rings aside.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.requests.bytes() + self.notes.bytes()
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
    ///
    /// With [`Handle::Exclusive`] there must be no other call with it at the same time.
    #[inline(always)]
    pub(crate) unsafe fn post_writes(
        &self,
        handle: Handle,
        writes: &[bindings::mlx5_ulp_write],
    ) -> Result {
        let count = writes.len() as u32;
        // SAFETY: Guaranteed by the caller. What else uses the poster takes the lock, and leaves an
        // exclusive queue alone while it is open.
        let mut poster = unsafe { self.poster.take(handle) };
        let Ok(first) = self.credit.reserve(handle, count) else {
            return Err(self.refused(handle, count));
        };
        // Not before the handle has been found to be the right one.
        let poster = &mut *poster;

        // Everything is written behind the producer counter, where the HCA does not look, and becomes
        // part of the queue only when the whole chain is there.
        let mut at = Cursor {
            block: poster.producer,
            request: first,
            unsignaled: poster.unsignaled,
            head: [0; 8],
        };
        let mut last_flags = 0;
        for write in writes {
            // SAFETY: Guaranteed by the caller.
            unsafe { self.encode_write(poster, &mut at, write)? };
            last_flags = write.flags;
        }
        poster.producer = at.block;
        poster.unsignaled = at.unsignaled;
        self.credit.commit(count);
        if latency::is_on() {
            self.note_filled(first, count);
        }
        self.post_counters.posted.add(count.into());

        if handle == Handle::Exclusive {
            poster.policy.posted(count, || false, Hint::Last);
            self.ring_now(poster, &at, Cause::Last);
            return Ok(());
        }
        let hint = match last_flags & (flags::LAST | flags::MORE) {
            0 => Hint::None,
            flags::MORE => Hint::More,
            _ => Hint::Last,
        };
        let signaled_rung = poster.signaled_rung;
        let busy = || self.expects_completion(signaled_rung);
        match poster.policy.posted(count, busy, hint) {
            Some(cause) => self.ring_now(poster, &at, cause),
            None => self.wait(poster, &at, count),
        }
        Ok(())
    }

    /// The WQEs of the cursor wait for the doorbell, the last `count` of them newly.
    #[cold]
    #[inline(never)]
    fn wait(&self, poster: &mut Poster, at: &Cursor, count: u32) {
        poster.head = at.head;
        if poster.policy.waiting() == count {
            if let Some(ns) = poster.hold.begin() {
                self.timer.start(ns);
            }
        }
    }

    /// Rings for everything that was posted, the last of it at the cursor.
    #[inline(always)]
    fn ring_now(&self, poster: &mut Poster, at: &Cursor, cause: Cause) {
        if latency::is_on() {
            self.note_rung(at.request);
        }
        let wqes = poster.policy.rung();
        poster.signaled_rung = at.request.wrapping_sub(at.unsignaled);
        self.post_counters.rung(cause as usize, wqes);
        trace::doorbell(self.pci, poster.qpn, hardware(at.block), wqes);
        poster.doorbell.ring(at.block, at.head);
    }

    /// Rings for what waits, if there is a cause.
    fn ring_if(&self, poster: &mut Poster, cause: Option<Cause>) {
        let Some(cause) = cause else {
            return;
        };
        // A queue that is gone has no doorbell any more.
        if self.state() == State::Gone {
            return;
        }
        let at = Cursor {
            block: poster.producer,
            request: self.credit.posted(),
            unsignaled: poster.unsignaled,
            head: poster.head,
        };
        self.ring_now(poster, &at, cause);
    }

    /// Whether a completion will come from what was rung: the last signaled request that was rung, with
    /// `signaled_rung` behind it, is not retired.
    #[inline(always)]
    fn expects_completion(&self, signaled_rung: u32) -> bool {
        signaled_rung.wrapping_sub(self.credit.retired()) as i32 > 0
    }

    /// Shows the HCA everything that was posted. Any context.
    pub(crate) fn flush(&self) {
        if self.handle == Handle::Exclusive {
            // Nothing waits.
            return;
        }
        let mut poster = self.poster.lock();
        let cause = poster.policy.flush();
        self.ring_if(&mut poster, cause);
    }

    /// A round of completions is through, which retired `retired` requests: another occasion to ring for
    /// what waits, and the load by which the policy adapts. Any context.
    #[inline(always)]
    pub(crate) fn completed(&self, retired: u32) {
        if self.deferring.load(Relaxed) {
            self.completed_deferring(retired);
        }
    }

    #[inline(never)]
    fn completed_deferring(&self, retired: u32) {
        let mut poster = self.poster.lock();
        let busy = self.expects_completion(poster.signaled_rung);
        let cause = poster
            .policy
            .completed(retired, self.credit.in_flight(), busy);
        self.ring_if(&mut poster, cause);
    }

    /// Makes sure that everything posted so far will be reported: if the last request is not signaled,
    /// posts a signaled WQE that does nothing. Rings. Of an exclusive queue, for its poster only.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for that WQE, those of [`SendQueue::post_writes`].
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue at the same time.
    pub(crate) unsafe fn report_all(&self) -> Result {
        // SAFETY: Guaranteed by the caller.
        let mut poster = unsafe { self.poster.take(self.handle) };
        let poster = &mut *poster;
        if poster.unsignaled == 0 {
            let cause = poster.policy.flush();
            self.ring_if(poster, cause);
            return Ok(());
        }
        let first = self.room_to_report()?;
        let mut at = Cursor {
            block: poster.producer,
            request: first,
            unsignaled: poster.unsignaled,
            head: [0; 8],
        };
        self.encode_nop(poster, &mut at);
        poster.producer = at.block;
        poster.unsignaled = at.unsignaled;
        self.credit.commit(1);
        self.post_counters.posted.add(1);
        let cause = poster.policy.posted(1, || true, Hint::Last);
        self.ring_now(poster, &at, cause.unwrap_or(Cause::Last));
        Ok(())
    }

    /// Finds room for the WQE of [`SendQueue::report_all`].
    ///
    /// A queue that has failed takes no posts, but this one: the device flushes it, which is the only
    /// way to hear of silent requests that were carried out when an event, and no completion entry,
    /// told of the failure.
    fn room_to_report(&self) -> Result<u32> {
        if let Ok(first) = self.credit.reserve(self.handle, 1) {
            return Ok(first);
        }
        match self.state() {
            // Nothing would be reported.
            State::Failed if self.is_dead() => Err(ENODEV),
            State::Failed => self
                .credit
                .reserve_below(self.shape.depth, 1)
                .map_err(|_| EAGAIN),
            _ => Err(self.refused(self.handle, 1)),
        }
    }

    /// Why a post of `count` requests was refused.
    #[cold]
    #[inline(never)]
    fn refused(&self, handle: Handle, count: u32) -> Error {
        match self.state() {
            State::Unconnected => enotconn(),
            State::Connected if handle != self.handle => EINVAL,
            // Never fits, so `EAGAIN` would have the caller wait for ever.
            State::Connected if count > self.shape.depth => EMSGSIZE,
            State::Connected => {
                self.post_counters.full.add(1);
                EAGAIN
            }
            State::Failed => EPIPE,
            State::Gone => ENODEV,
        }
    }
}

impl Expire for SendQueue {
    const TIMER: usize = offset_of!(SendQueue, timer);

    fn expire(&self) -> Option<i64> {
        let mut poster = self.poster.lock();
        let waiting = poster.policy.waiting() != 0;
        match poster.hold.expired(waiting) {
            Expiry::Again(ns) => Some(ns),
            Expiry::Stop => None,
            Expiry::Ring => {
                let cause = poster.policy.held();
                self.ring_if(&mut poster, cause);
                None
            }
        }
    }
}

impl Work for SendQueue {
    const ITEM: usize = offset_of!(SendQueue, work);

    /// Ends what a dead device leaves in flight; or tells the device how to moderate its events.
    fn work(&self) {
        if self.is_dead() {
            self.wait_for_posters();
            self.complete_all();
        } else if let Err(e) = self.moderate_device() {
            pr_warn!("completion events are not moderated: {e:?}\n");
        }
    }
}

impl QpEvents for SendQueue {
    fn event(&self, event: QpEvent) {
        match event {
            // The device cannot be relied on to flush this queue. What is in flight ends in process context,
            // at once: consumers need not drain to hear of it.
            QpEvent::DeviceFatal | QpEvent::Catastrophic => self.break_down(),
            // The queue pair is in error state; the device flushes what is posted.
            QpEvent::InvalidRequest | QpEvent::AccessError => self.fail(),
        }
    }
}

/// Where in the queue the next WQE of a chain goes, and what the doorbell has to be told. Becomes the
/// poster's when the chain is complete.
pub(super) struct Cursor {
    /// Block where the next WQE starts.
    pub(super) block: u32,
    /// Number of its request.
    pub(super) request: u32,
    /// Requests since the last that was signaled.
    pub(super) unsignaled: u32,
    /// Beginning of the last WQE.
    pub(super) head: [u8; 8],
}
