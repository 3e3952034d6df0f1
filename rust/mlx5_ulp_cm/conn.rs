// SPDX-License-Identifier: GPL-2.0

//! `struct mlx5_ulp_conn`: an rdma_cm_id and the queue that it connects.

use crate::{
    bindings,
    errno::ecanceled,
    event,
    held::held,
    id::Id,
    phase::{
        Phase,
        PhaseCell, //
    },
    ready,
    wait::Happening,
    work::{
        Work,
        WorkItem, //
    }, //
};
use core::{
    mem::offset_of,
    ptr::null_mut,
    sync::atomic::{
        AtomicBool,
        AtomicI32,
        AtomicPtr,
        Ordering::Relaxed, //
    },
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_void, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SetOnce, //
    },
};

/// Most bytes of private data of a request, of an answer and of a refusal.
const REQUEST_DATA: u8 = bindings::MLX5_ULP_CM_REQUEST_DATA as u8;
pub(crate) const ANSWER_DATA: usize = bindings::MLX5_ULP_CM_ANSWER_DATA as usize;

/// Who hears of events.
#[derive(Clone, Copy)]
pub(crate) struct Consumer {
    ops: *const bindings::mlx5_ulp_conn_ops,
    context: *mut c_void,
}

impl Consumer {
    /// # Safety
    ///
    /// Both must stay valid until the connection is destroyed, as `<mlx5_ulp_conn.h>` says.
    pub(crate) unsafe fn new(
        ops: *const bindings::mlx5_ulp_conn_ops,
        context: *mut c_void,
    ) -> Self {
        Self { ops, context }
    }
}

// SAFETY: The context is only handed back; the functions may be called from any task.
unsafe impl Send for Consumer {}
// SAFETY: As above.
unsafe impl Sync for Consumer {}

/// A connection.
#[pin_data]
pub(crate) struct Conn {
    #[pin]
    pub(crate) id: Id,
    /// Destroys `id` when the device goes.
    #[pin]
    pub(crate) removal: WorkItem,
    pub(crate) phase: PhaseCell,
    /// How it ended; valid in [`Phase::Closed`].
    pub(crate) status: AtomicI32,
    /// Whether its owner has asked for the end.
    pub(crate) leaving: AtomicBool,
    /// Time to find the way, ms.
    pub(crate) timeout: c_uint,
    /// The phase is no longer [`Phase::Resolving`].
    #[pin]
    pub(crate) resolved: Happening,
    /// It is no longer [`Phase::Connecting`].
    #[pin]
    pub(crate) answered: Happening,
    /// Whether it was [`Phase::Connected`] then: its end is an event.
    pub(crate) made: AtomicBool,
    /// What the peer has said to a request of ours.
    #[pin]
    pub(crate) answer: Mutex<[u8; ANSWER_DATA]>,
    /// Why it refused, or 0. It may be asked for in any context.
    pub(crate) reason: AtomicI32,
    /// Only compared and handed out.
    pub(crate) ibdev: AtomicPtr<bindings::ib_device>,
    /// Null until there is one; outlives the identifier by the word of its owner.
    pub(crate) queue: AtomicPtr<bindings::mlx5_ulp_queue>,
    pub(crate) consumer: SetOnce<Consumer>,
}

impl Conn {
    /// A connection in `phase`, with `id`.
    pub(crate) fn new(
        id: impl PinInit<Id>,
        phase: Phase,
        ibdev: *mut bindings::ib_device,
        timeout: c_uint,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                id <- id,
                // SAFETY: At the offset that is told. `destroy` disables it before the connection is
                // dropped; nobody queues it before the identifier has a handler.
                removal <- unsafe { WorkItem::new::<Self>() },
                phase: PhaseCell::new(phase),
                status: AtomicI32::new(0),
                leaving: AtomicBool::new(false),
                timeout,
                resolved <- Happening::new(),
                answered <- Happening::new(),
                made: AtomicBool::new(false),
                answer <- new_mutex!([0; ANSWER_DATA], "mlx5_ulp_cm_answer"),
                reason: AtomicI32::new(0),
                ibdev: AtomicPtr::new(ibdev),
                queue: AtomicPtr::new(null_mut()),
                consumer: SetOnce::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Where rdma_cm and consumers know it.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// Tells its owner.
    pub(crate) fn tell(&self, event: bindings::mlx5_ulp_conn_event, status: c_int) {
        if let Some(consumer) = self.consumer.as_ref() {
            // SAFETY: By the contract of `Consumer::new`, and events come while the identifier exists.
            if let Some(f) = unsafe { (*consumer.ops).event } {
                // SAFETY: As above; process context, without locks of ours.
                unsafe { f(consumer.context, event, status) };
            }
        }
    }

    /// The queue leaves its peer, if there is one. Sleeps.
    pub(crate) fn disconnect_queue(&self) {
        let queue = self.queue.load(Relaxed);
        if !queue.is_null() {
            // SAFETY: The owner destroys the queue after the connection. If the device is gone the queue
            // has ended, and that is all that is wanted.
            unsafe { bindings::mlx5_ulp_queue_disconnect(queue) };
        }
    }

    /// See `mlx5_ulp_conn_resolve()`.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn resolve(
        net: *mut bindings::net,
        source: *const bindings::sockaddr,
        destination: *const bindings::sockaddr,
        timeout: c_uint,
        consumer: Consumer,
    ) -> Result<Arc<Self>> {
        let conn = Self::new(Id::none(), Phase::Resolving, null_mut(), timeout)?;
        conn.consumer.populate(consumer);
        // SAFETY: The connection is pinned, and destroys the identifier before it goes.
        unsafe { conn.id.create(net, event::connection, conn.as_ptr())? };
        let begun = conn.id.with(|id| {
            // SAFETY: The identifier exists, and has no QP type that the call would not know. The
            // addresses are valid by contract; that of the source is only copied.
            unsafe {
                bindings::rdma_set_min_rnr_timer(id, ready::MIN_RNR_TIMER);
                bindings::rdma_resolve_addr(id, source.cast_mut(), destination, timeout as c_ulong)
            }
        });
        let result = begun.and_then(|()| {
            conn.resolved.wait_for(0)?;
            match conn.phase.get() {
                Phase::Resolved => Ok(()),
                _ => to_result(conn.status.load(Relaxed)),
            }
        });
        if let Err(e) = result {
            conn.destroy();
            return Err(e);
        }
        Ok(conn)
    }

    /// See `mlx5_ulp_conn_connect()`.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn connect(
        &self,
        queue: *mut bindings::mlx5_ulp_queue,
        request: Option<&bindings::mlx5_ulp_conn_data>,
        timeout_ms: c_uint,
    ) -> Result {
        if request.is_some_and(|r| r.length > REQUEST_DATA) {
            return Err(EMSGSIZE);
        }
        // The handler finds the queue in the next phase. Of two tasks that come at once one has its queue there.
        let first = self.phase.get() == Phase::Resolved
            && self
                .queue
                .compare_exchange(null_mut(), queue, Relaxed, Relaxed)
                .is_ok();
        if !first || !self.phase.advance(Phase::Resolved, Phase::Connecting) {
            return match self.phase.get() {
                Phase::Closed => Err(self.end()),
                _ => Err(EINVAL),
            };
        }
        // `disconnect` may destroy the identifier from here on.
        let asked = self.id.with(|id| {
            // SAFETY: Queue and identifier exist.
            let mut param = unsafe { ready::param(queue, id, None) };
            if let Some(request) = request {
                param.private_data = request.data;
                param.private_data_len = request.length;
            }
            // SAFETY: The identifier exists; the private data is valid by contract, and copied.
            unsafe { bindings::rdma_connect(id, &mut param) }
        });
        if let Err(e) = asked {
            // If it was ended meanwhile, because the device goes or by the owner, that is why.
            return match self.phase.close() {
                Phase::Closed => Err(self.end()),
                _ => {
                    self.status.store(e.to_errno(), Relaxed);
                    Err(e)
                }
            };
        }
        if let Err(e) = self.answered.wait_for(timeout_ms) {
            if self.forgo() {
                self.status.store(e.to_errno(), Relaxed);
                return Err(e);
            }
            // Just answered, or ended by another.
            self.answered.wait();
        }
        // It may have ended since.
        match self.made.load(Relaxed) {
            true => Ok(()),
            false => Err(self.end()),
        }
    }

    /// Why it has ended.
    fn end(&self) -> Error {
        if self.leaving.load(Relaxed) {
            return ecanceled();
        }
        match to_result(self.status.load(Relaxed)) {
            Err(e) => e,
            Ok(()) => ENODEV,
        }
    }

    /// Ends a connection that is not connected yet; `false` if it is, or has ended. Sleeps.
    fn forgo(&self) -> bool {
        // In the order in which it goes through them; of those that want to end it here one succeeds.
        let ended = [Phase::Resolved, Phase::Connecting]
            .into_iter()
            .any(|phase| self.phase.advance(phase, Phase::Closed));
        if ended {
            // Nobody is asked any more. A peer that has just accepted hears from rdma_cm that we are not there.
            self.id.destroy();
            // Behind the last handler, which may have been connecting the queue.
            self.disconnect_queue();
            self.answered.tell();
        }
        ended
    }

    /// See `mlx5_ulp_conn_disconnect()`.
    pub(crate) fn disconnect(&self) {
        // Who sees the phase closed by this sees it, too.
        self.leaving.store(true, Relaxed);
        if !self.forgo() && matches!(self.phase.get(), Phase::Accepted | Phase::Connected) {
            self.disconnect_queue();
            // What was not established yet is told so when it is: see `event`. A peer that has left by
            // itself is answered by the handler.
            // SAFETY: The identifier exists.
            let _ = self.id.with(|id| unsafe { bindings::rdma_disconnect(id) });
        }
    }

    /// Ends it: no event comes any more when this returns. Sleeps.
    pub(crate) fn destroy(&self) {
        self.disconnect();
        self.id.destroy();
        self.removal.disable();
        // For a connection that was being made.
        self.disconnect_queue();
    }
}

held!(
    pub(crate) Conn,
    CONNECTIONS,
    bindings::mlx5_ulp_conn,
    bindings::mlx5_ulp_cm_shim_stale
);

impl Work for Conn {
    const ITEM: usize = offset_of!(Conn, removal);

    fn work(&self) {
        self.id.destroy();
    }
}
