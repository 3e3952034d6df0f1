// SPDX-License-Identifier: GPL-2.0

//! Life of a queue: create, drain, shut down; [`super::connect`] is between.

use super::{
    credit::Handle,
    room::Space,
    send::{
        SendQueue,
        State, //
    },
    shape::{
        ReceiveShape,
        Shape, //
    }, //
};
use crate::{
    codegen::opaque,
    cq::interrupt::Interrupt,
    device::{
        Device,
        Hold,
        Member, //
    },
    hw::{
        access::RemoteAccess,
        cq::{
            self,
            CompletionQueue,
            CqConfig, //
        },
        pd::ProtectionDomain,
        qp::{
            QpConfig,
            QueuePair, //
        },
        uar::DoorbellRegister, //
    },
    observe::{
        counters::Source,
        debugfs::{
            QueueDir,
            QueueReport, //
        },
        probes,
        totals::Totals, //
    },
    params::Params,
    qid::{
        key::Name,
        registry::Place, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::code::*,
    ffi::c_void,
    fmt,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::ScopeGuard, //
};
use mlx5_ulp_bindings as bindings;

/// How to make a queue.
pub(crate) struct QueueConfig {
    /// What its requests look like.
    pub(crate) shape: Shape,
    /// What its receives look like, if it takes any.
    pub(crate) receive: Option<ReceiveShape>,
    /// Who posts.
    pub(crate) handle: Handle,
    /// Completion vector, reduced to those that there are.
    pub(crate) vector: u32,
    /// What the peer may do.
    pub(crate) access: RemoteAccess,
    /// How its consumer finds it.
    pub(crate) name: Option<Name>,
    /// Whether its consumer looks for completions by itself: the queue is never armed.
    pub(crate) polled: bool,
    /// Whether its consumer is called in process context.
    pub(crate) in_work: bool,
    /// Called when a queue that was full has room again.
    pub(crate) space: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Goes back to the consumer with each completion.
    pub(crate) context: *mut c_void,
}

/// The firmware objects of a queue. Dropped in this order.
pub(super) struct Hardware {
    debugfs: Option<QueueDir>,
    /// Where it is known by name and number.
    place: Option<Place>,
    pub(super) qp: Arc<QueuePair>,
    pub(super) cq: Arc<CompletionQueue<Interrupt>>,
    /// Whether the completion queue was armed for the first time.
    pub(super) armed: bool,
    /// First packet sequence number that it sends, unless its peer was told another.
    pub(super) psn: u32,
    pub(super) hold: Hold,
}

/// Where the data path is, past the count of its [`Arc`]: each post saves the addition.
struct Road(NonNull<SendQueue>);

// SAFETY: It is used as a `&SendQueue`, and that is `Sync`.
unsafe impl Send for Road {}
// SAFETY: As above.
unsafe impl Sync for Road {}

/// A queue of a consumer.
///
/// # Invariants
///
/// `road` leads to what `send` owns; neither changes.
#[pin_data]
pub(crate) struct Queue {
    road: Road,
    send: Arc<SendQueue>,
    device: Arc<Device>,
    /// `None` once it is shut down.
    #[pin]
    pub(super) hardware: Mutex<Option<Hardware>>,
    qpn: u32,
    pub(super) polled: bool,
    /// Bytes of the firmware objects.
    hardware_memory: usize,
}

impl Queue {
    /// Makes a queue, not connected. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a shape out of range, `ENODEV` once the device is being removed, those of the firmware
    /// objects.
    pub(crate) fn new(pd: Arc<ProtectionDomain>, config: &QueueConfig) -> Result<Arc<Self>> {
        let hold = pd.hold().clone();
        let device = hold.device().clone();
        let send = Arc::pin_init(
            SendQueue::new(
                config.shape,
                config.receive,
                config.handle,
                &hold,
                Space::new(config.space),
                config.in_work,
                config.context,
            )?,
            GFP_KERNEL,
        )?;
        let register = DoorbellRegister::new(hold.clone())?;
        let vectors = u32::from(cq::vectors(&hold));
        let cq = CompletionQueue::new(
            hold.clone(),
            &CqConfig {
                // Twice what is in flight: see `cq::poll`.
                log_entries: send.most_entries().next_power_of_two().ilog2() as u8 + 1,
                vector: config.vector.checked_rem(vectors).unwrap_or(0) as u16,
                // Who looks by himself wants the shortest way, and not to wait for a block. A block of
                // receives would not tell what they brought.
                compressed: hold.caps().cqe_compression
                    && !config.polled
                    && config.receive.is_none(),
            },
            register.clone(),
            Interrupt(send.clone()),
        )?;
        // Events of the device, its death above all, may have queued the work item from here on: it does not run
        // behind a failure of this function. Dropped before the completion queue, and with the queue pair.
        let mut unfinished = ScopeGuard::new_with_data(
            (send.clone(), None),
            |(send, qp): (Arc<SendQueue>, Option<Arc<QueuePair>>)| {
                send.close();
                send.work.disable();
                drop(qp);
            },
        );
        let qp = QueuePair::new(
            hold.clone(),
            QpConfig {
                pd,
                send_cq: cq.clone(),
                recv_cq: cq.clone(),
                register,
                log_send_blocks: send.ring().log_blocks(),
                receive: send.receives.as_ref().map(|r| r.ring()),
            },
            send.clone(),
        )?;
        let qp = Arc::new(qp, GFP_KERNEL)?;
        unfinished.1 = Some(qp.clone());
        qp.to_init(config.access)?;
        // SAFETY: The rings have the size that was asked for, the queue pair is attached here only, and
        // `shutdown` closes the queue, with the work item disabled, before it drops the queue pair, and ends it
        // before it drops the completion queue. Until `connect` it is not open; if this function fails, nobody has
        // heard of the queue but its work item, which `unfinished` disables before it drops the queue pair and the
        // completion queue goes.
        unsafe { send.attach(&qp, &cq)? };
        send.moderate_device()?;

        let qpn = qp.number();
        let hardware_memory = qp.memory().saturating_add(cq.memory());
        // SAFETY: Fills in 4 bytes.
        let psn = unsafe { bindings::get_random_u32() } & 0x00ff_ffff;
        // INVARIANT: Made of it.
        let road = Road(NonNull::from(&*send));
        let queue = Arc::pin_init(
            pin_init!(Self {
                road,
                send,
                device,
                hardware <- new_mutex!(None, "mlx5_ulp_queue"),
                qpn,
                polled: config.polled,
                hardware_memory,
            }),
            GFP_KERNEL,
        )?;
        *queue.hardware.lock() = Some(Hardware {
            debugfs: None,
            place: None,
            qp,
            cq,
            armed: false,
            psn,
            hold,
        });
        // From here on `shutdown` does that.
        unfinished.dismiss();
        let enrolled = queue.enroll(config.name);
        if enrolled.is_err() {
            queue.give_back();
        } else {
            probes::queue_made(queue.send.pci, qpn);
        }
        enrolled.map(|()| queue)
    }

    /// Makes it known to the device, to those who look for it by name, and to debugfs.
    fn enroll(self: &Arc<Self>, name: Option<Name>) -> Result {
        self.device.counters().register(self.clone())?;
        self.send.configure(self.device.params());
        self.follow(self.device.params());
        self.device.enroll(self.clone())?;
        if let Some(hardware) = &mut *self.hardware.lock() {
            // `shutdown` removes it, and whoever owns the queue calls that before the queue goes.
            let place = self.device.registry().insert(name, self.qpn, self)?;
            hardware.place = Some(place);
            let dir = QueueDir::new(hardware.hold.clone(), self.qpn, self.clone())?;
            hardware.debugfs = Some(dir);
        }
        Ok(())
    }

    /// Takes over the parameters of the way back.
    fn follow(&self, params: &Params) {
        self.send.moderate(params);
        if self.send.measure_latency(params.latency_stats()).is_err() {
            pr_warn!("queue {:#x}: no memory to measure latencies\n", self.qpn);
        }
    }

    /// Number of its queue pair, 24 bits.
    pub(crate) fn number(&self) -> u32 {
        self.qpn
    }

    /// The data path.
    #[inline(always)]
    pub(crate) fn send(&self) -> &SendQueue {
        // SAFETY: By the type invariants it is what `send` keeps alive.
        opaque(unsafe { self.road.0.as_ref() })
    }

    /// Waits until everything that was posted before has completed, and the consumer been told. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone. Everything has completed then, too.
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue meanwhile.
    pub(crate) unsafe fn drain(&self) -> Result {
        let target = self.send.credit.posted();
        let mut asked = false;
        let mut pause = 20;
        loop {
            if !asked {
                // Full: some of what fills it is reported, then there is room.
                // SAFETY: The caller does not post to an exclusive queue meanwhile.
                asked = unsafe { self.send.report_all() } != Err(EAGAIN);
            }
            let retired = self.send.credit.retired();
            // Who retired the last one may still be in its callback.
            if target.wrapping_sub(retired) as i32 <= 0 && !self.send.is_completing() {
                break;
            }
            if self.send.is_dead() {
                self.shutdown();
                return Err(ENODEV);
            }
            if self.polled && self.send.poll_now(u32::MAX) != 0 {
                continue;
            }
            fsleep(Delta::from_micros(pause));
            pause = pause.saturating_mul(2).min(1000);
        }
        if self.send.state() == State::Gone {
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Ends its traffic: takes no more posts, and waits until everything in flight has completed. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone: everything has completed then, too; those of the firmware.
    ///
    /// # Safety
    ///
    /// Nobody posts to an exclusive queue meanwhile.
    pub(crate) unsafe fn stop(&self) -> Result {
        self.disconnect()?;
        // SAFETY: Guaranteed by the caller.
        unsafe { self.drain()? };
        let Some(receives) = &self.send.receives else {
            return Ok(());
        };
        let mut pause = 20;
        while !receives.is_empty() || self.send.is_completing() {
            if self.send.is_dead() {
                self.shutdown();
                return Err(ENODEV);
            }
            // A queue that is polled needs it; others may as well be helped.
            if self.send.poll_now(u32::MAX) == 0 {
                fsleep(Delta::from_micros(pause));
                pause = pause.saturating_mul(2).min(1000);
            }
        }
        Ok(())
    }

    /// Keeps it in the translation cache. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::pin`](crate::qid::registry::Registry::pin).
    pub(crate) fn pin(&self) -> Result {
        let hardware = self.hardware.lock();
        let place = hardware.as_ref().and_then(|h| h.place.as_ref());
        self.device.registry().pin(place.ok_or(ENODEV)?)
    }

    /// Undoes [`Queue::pin`]. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::unpin`](crate::qid::registry::Registry::unpin).
    pub(crate) fn unpin(&self) -> Result {
        let hardware = self.hardware.lock();
        let place = hardware.as_ref().and_then(|h| h.place.as_ref());
        self.device.registry().unpin(place.ok_or(ENODEV)?)
    }

    /// Gives everything of it back to the device. Requests in flight have completed when this returns,
    /// and no callback runs any more. Sleeps.
    pub(crate) fn give_back(self: &Arc<Self>) {
        self.device.dismiss(self.clone());
        let source: Arc<dyn Source> = self.clone();
        self.device.counters().retire(&source);
    }
}

impl Member for Queue {
    fn removal_notice(&self) {
        // The handle of the device tells the consumer; a queue has nothing to add.
    }

    fn is_active(&self) -> bool {
        true
    }

    fn shutdown(&self) {
        // Held to the end: whoever connects has opened the queue or finds it gone, and whoever else
        // shuts down waits for the last callback, too.
        let mut present = self.hardware.lock();
        let Some(hardware) = present.take() else {
            return;
        };
        probes::queue_gone(self.send.pci, self.qpn);
        let Hardware {
            debugfs,
            place,
            qp,
            cq,
            ..
        } = hardware;
        // Who has found it by name is through with it when this returns.
        if let Some(place) = place {
            self.device.registry().remove(place);
        }
        // So that no poster rings a register that is going.
        self.send.close();
        // It takes no lock that is held here.
        self.send.work.disable();
        // Waits for its readers, who take no lock.
        drop(debugfs);
        // The device has let go of the consumers' memory when this returns. What it had done before has
        // its completions in the ring.
        drop(qp);
        self.send.complete_all();
        // Waits for the tasklet.
        drop(cq);
    }
}

impl Source for Queue {
    fn totals(&self) -> Totals {
        Totals::read(self.send.post_counters(), self.send.completing.counters())
    }

    fn params_changed(&self, params: &Params) {
        // An exclusive queue keeps those that it was made with.
        if self.send.handle() == Handle::Shared {
            self.send.configure(params);
        }
        self.follow(params);
    }

    fn completion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = self.send.moderator.moment();
        f.write_fmt(fmt!(
            "{:#x} {} per_second {} period_us {} count {}\n",
            self.qpn,
            if self.polled {
                "by_consumer"
            } else {
                moment.mode.name()
            },
            moment.per_second,
            moment.events.period_us,
            moment.events.count
        ))
    }
}

impl Queue {
    /// Receives posted, and completed.
    pub(crate) fn receive_totals(&self) -> (u64, u64) {
        let receives = self.send.receives.as_ref();
        receives.map_or((0, 0), |receives| receives.totals())
    }

    /// Bytes that it takes: rings, records, tables and structures, those of mlx5_core in them included.
    fn memory(&self) -> usize {
        self.send
            .memory()
            .saturating_add(size_of::<Self>())
            .saturating_add(self.hardware_memory)
    }
}

impl QueueReport for Queue {
    fn state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let send = &self.send;
        let memory = self.memory();
        let (receives, received) = self.receive_totals();
        f.write_fmt(fmt!(
            "qpn {:#x}\nstate {:?}\ndepth {}\nblocks {}\nin_flight {}\nmemory {memory}\n\
             receives {receives}\nreceived {received}\n",
            self.qpn,
            send.state(),
            send.shape().depth,
            send.ring().blocks(),
            send.credit.in_flight()
        ))?;
        for (name, value) in self.totals().named() {
            f.write_fmt(fmt!("{name} {value}\n"))?;
        }
        Ok(())
    }
}
