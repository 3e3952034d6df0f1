// SPDX-License-Identifier: GPL-2.0

//! The state of a queue's data path: attached, open, failed, closed.

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
    receive::Receives,
    request::{
        Outcome,
        Requests, //
    },
    ring::Ring,
    room::Space,
    shape::{
        ReceiveShape,
        Shape, //
    },
    slots::Slots,
};
use crate::{
    cq::{
        moderator::Moderator,
        turn::Completing, //
    },
    device::Hold,
    doorbell::{
        blueflame::BlueFlame,
        hold,
        pending::Pending,
        policy::{
            Mode,
            Policy, //
        },
        register::Doorbell,
        sample::Sample,
        timer::Timer, //
    },
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
            Latency,
            Notes, //
        },
        probes,
        totals::PostCounters, //
    },
    table,
    work::{
        Work,
        WorkItem, //
    },
    wqe::{
        ctrl::{
            Fence,
            Head,
            HeadTemplate, //
        },
        opcode::Opcode, //
    },
};
use core::{
    mem::offset_of,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        fence,
        AtomicBool,
        AtomicPtr,
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
///
/// In the order of the fields: the shortest way of posting finds the poster where the queue is.
#[pin_data]
#[repr(C)]
pub(crate) struct SendQueue {
    #[pin]
    pub(super) poster: PosterCell,
    pub(super) post_counters: PostCounters,
    pub(crate) credit: Credit,
    pub(crate) requests: Requests,
    /// `None` for a queue that takes none.
    pub(crate) receives: Option<Pin<KBox<Receives>>>,
    pub(crate) completing: Completing,
    #[pin]
    pub(crate) moderator: Moderator,
    #[pin]
    pub(crate) work: WorkItem,
    /// Where latencies are counted, and what is noted for that.
    pub(crate) latency: Arc<Latency>,
    pub(crate) notes: Notes,
    /// Who posts.
    pub(super) handle: Handle,
    /// Whether WQEs may wait for the doorbell, so that completions have to look after them.
    pub(super) deferring: AtomicBool,
    /// What those who complete have to know of the doorbell.
    pub(super) pending: Pending,
    /// Whether silent requests are to be reported as soon as there is room for it.
    pub(super) owes_report: AtomicBool,
    /// Who hears of room.
    pub(super) space: Space,
    /// Whether consumers are called in process context, from the work item.
    pub(crate) in_work: bool,
    state: AtomicU32,
    /// Whether the device, or the completion queue, will report nothing any more.
    dead: AtomicBool,
    pub(super) shape: Shape,
    ring: Ring,
    /// Address of the PCI function, for tracepoints.
    pub(crate) pci: u32,
    /// What a registration waits for.
    pub(super) umr_fence: Fence,
    /// Whether the device has atomics.
    pub(super) atomics: bool,
    /// Longest message that the device takes, bytes.
    pub(super) max_message: u32,
    /// Most data ranges of a WRITE that the device takes.
    pub(super) max_ranges: u8,
    /// Goes back to the consumer with each completion.
    context: *mut c_void,
    /// What is said of requests that were carried out.
    pub(crate) success: bindings::mlx5_ulp_completion,
    /// The queue pair; null until it is attached.
    qp: AtomicPtr<QueuePair>,
    #[pin]
    pub(super) timer: Timer,
}

// SAFETY: `context` is handed back to the consumer and never followed; everything else is `Send`.
unsafe impl Send for SendQueue {}
// SAFETY: Posters are serialized by `poster`, completers by `completing`; the rest is atomic or does not
// change.
unsafe impl Sync for SendQueue {}

/// What a WRITE of one range on this QP begins with.
fn plain_head(qpn: u32) -> HeadTemplate {
    HeadTemplate::new(&Head {
        opmod: 0,
        index: 0,
        opcode: Opcode::RDMA_WRITE,
        qpn,
        ds: Shape::HEAD_DS as u8 + 1,
    })
}

impl SendQueue {
    /// A queue for requests of `shape` and these receives, without memory, on the function of
    /// `hold`: it takes no posts until [`SendQueue::attach`] and
    /// [`SendQueue::open`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for a shape out of range, `ENOMEM`.
    pub(crate) fn new(
        shape: Shape,
        receive: Option<ReceiveShape>,
        handle: Handle,
        hold: &Hold,
        space: Space,
        in_work: bool,
        context: *mut c_void,
    ) -> Result<impl PinInit<Self> + use<>> {
        let (settings, pci) = (hold.params().moderation(), hold.pci_address());
        let (umr_fence, atomics) = (hold.caps().umr_fence, hold.caps().atomic);
        let max_message = 1 << hold.caps().log_max_msg.min(31);
        let (latency, notes) = (hold.latency().clone(), Notes::new(hold));
        let max_wqe = hold.caps().max_wqe_sz_sq;
        let ring = shape.ring(max_wqe).ok_or(EINVAL)?;
        let requests = Requests::new(
            table::of_defaults::<Cookie>(shape.entries())?,
            table::of_defaults::<Mark>(ring.blocks() as usize)?,
            ring,
        )
        .ok_or(EINVAL)?;
        let receives = match receive {
            Some(shape) => {
                let receives = Receives::new(shape, hold.caps().max_wqe_sz_rq)?;
                Some(KBox::pin_init(receives, GFP_KERNEL)?)
            }
            None => None,
        };
        let success = Outcome::Done.completion(context);
        Ok(pin_init!(Self {
            poster <- PosterCell::new(Poster {
                producer: 0,
                qpn: 0,
                unsignaled: 0,
                most_silent: shape.depth / 2,
                signaled_rung: 0,
                registered: false,
                reserved: 0,
                plain_head: plain_head(0),
                slots: Slots::none(ring),
                policy: Policy::new(Mode::Each, 1, 1),
                doorbell: Doorbell::none(),
                head: [0; 8],
                hold: hold::Hold::new(),
                sample: Sample::new(),
                prefetch: false,
                blueflame: BlueFlame::OFF,
                merge: None,
            }),
            post_counters: PostCounters::default(),
            credit: Credit::new(),
            requests,
            receives,
            completing: Completing::new(),
            moderator <- Moderator::new(settings),
            latency,
            notes,
            // SAFETY: At the offset that is told; who closes the queue disables it.
            work <- unsafe { WorkItem::new::<Self>() },
            handle,
            deferring: AtomicBool::new(false),
            pending: Pending::new(),
            owes_report: AtomicBool::new(false),
            space,
            in_work,
            state: AtomicU32::new(State::Unconnected as u32),
            dead: AtomicBool::new(false),
            shape,
            ring,
            pci,
            umr_fence,
            atomics,
            max_message,
            max_ranges: Shape::most_ranges(max_wqe) as u8,
            context,
            success,
            qp: AtomicPtr::new(null_mut()),
            // SAFETY: At the offset that is told; `close` cancels it.
            timer <- unsafe { Timer::new::<Self>() },
        }))
    }

    /// Gives the queue its ring, its doorbell and its completions.
    ///
    /// # Safety
    ///
    /// `qp` must have a send ring of [`SendQueue::ring`] and a receive ring of that of the receives, not be
    /// attached elsewhere, and outlive the time until [`SendQueue::close`]. Both must stay where they are until the work
    /// item is disabled, and `cq` until [`SendQueue::end`] has returned, too. Nobody posts yet.
    pub(crate) unsafe fn attach(&self, qp: &QueuePair, cq: &CqCore) -> Result {
        let base = NonNull::new(qp.send_ring()).ok_or(EINVAL)?;
        // SAFETY: Posts, and so rings, happen while the queue is open only; the caller guarantees that
        // `qp` lives then.
        let doorbell = unsafe { Doorbell::new(qp) }.ok_or(ENODEV)?;
        let mut poster = self.poster.lock();
        // SAFETY: As above; a queue pair's ring is its own, of the size that the caller guarantees,
        // and aligned to a page or to the basic blocks before it. `requests` is pinned with the queue.
        poster.slots = unsafe { Slots::new(base, self.ring, &self.requests) };
        poster.doorbell = doorbell;
        poster.qpn = qp.number();
        // SAFETY: Guaranteed by the caller.
        unsafe { self.completing.attach(cq, qp.number(), self.most_entries()) };
        poster.plain_head = plain_head(qp.number());
        self.qp.store(core::ptr::from_ref(qp).cast_mut(), Release);
        if let Some(receives) = &self.receives {
            // SAFETY: Guaranteed by the caller.
            unsafe { receives.attach(qp)? };
        }
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
            self.open_ways(&self.poster.lock());
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
        if let Some(receives) = &self.receives {
            receives.close();
        }
        match self.handle {
            Handle::Shared => drop(self.poster.lock()),
            // An exclusive poster has interrupts off.
            // SAFETY: Process context.
            Handle::Exclusive => unsafe { bindings::synchronize_rcu() },
        }
    }

    /// A request or the queue pair failed: no more posts. Any context.
    ///
    /// That can be before [`SendQueue::open`]: the peer reaches a queue pair that is ready to receive.
    pub(crate) fn fail(&self) {
        // In this order: one of the two meets it even if it is opened meanwhile.
        for state in [State::Unconnected, State::Connected] {
            // A device that has died is noticed by `open`.
            if state == State::Connected || !self.is_dead() {
                let failed = self.state.compare_exchange(
                    state as u32,
                    State::Failed as u32,
                    Release,
                    Relaxed,
                );
                if failed.is_ok() {
                    probes::queue_failed(self.pci, self.completing.qpn());
                }
            }
        }
        // Pairs with that of `open`: the limit that it sets does not land behind this one unseen.
        fence(SeqCst);
        self.credit.close();
        if let Some(receives) = &self.receives {
            receives.stop();
        }
    }

    /// Takes no more posts, whether it was connected or not; whoever posted has done so when this returns.
    /// Sleeps. Not at the same time as [`SendQueue::open`].
    pub(crate) fn stop(&self) {
        let _ = self.state.compare_exchange(
            State::Unconnected as u32,
            State::Failed as u32,
            Release,
            Relaxed,
        );
        self.fail();
        self.wait_for_posters();
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

    /// Who posts.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// The ring that a queue pair must have to be attached.
    pub(crate) fn ring(&self) -> Ring {
        self.ring
    }

    /// Most completion entries that can be under way.
    pub(crate) fn most_entries(&self) -> u32 {
        let receives = self.receives.as_ref().map_or(0, |r| r.depth());
        self.shape.depth.saturating_add(receives)
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
        size_of::<Self>()
            .saturating_add(self.requests.bytes())
            .saturating_add(self.notes.bytes())
            .saturating_add(self.receives.as_ref().map_or(0, |r| r.bytes()))
    }
}

impl Work for SendQueue {
    const ITEM: usize = offset_of!(SendQueue, work);

    /// Ends what a dead device leaves in flight; or tells the device how to moderate its events, posters of
    /// room and, if they are to be called from here, consumers of completions.
    fn work(&self) {
        if self.is_dead() {
            self.wait_for_posters();
            // A device that works goes on with a queue pair whose completion queue is broken, and with the memory that
            // consumers take back when they hear of the end.
            // SAFETY: By the contract of `attach` it lives until this item is disabled.
            if let Some(qp) = unsafe { self.qp.load(Acquire).as_ref() } {
                qp.halt();
            }
            self.complete_all();
            return;
        }
        if let Err(e) = self.moderate_device() {
            pr_warn!("completion events are not moderated: {e:?}\n");
        }
        self.tell_space_later();
        if self.in_work {
            self.complete_in_work();
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
