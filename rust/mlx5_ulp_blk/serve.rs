// SPDX-License-Identifier: GPL-2.0

//! An export that waits for disks at a port.
//!
//! One queue serves each queue of a disk. It goes when its connection has ended, when the disk does not
//! [answer](crate::alive), or when the same queue of the same disk comes again, which has lost its connections then,
//! all of them: the newcomer is refused until the old queue pairs are destroyed, and tries again.

use crate::{
    alive::{
        self,
        Alive, //
    },
    connector::Conn,
    export::Export,
    greeting::{
        Guest,
        ANSWER, //
    },
    ulp::{
        Queue,
        Request, //
    },
    ulp_bindings as bindings,
    work::{
        DelayedWork,
        Later, //
    },
    work_item::{
        Work,
        WorkItem, //
    }, //
};
use core::{
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::{
        c_int,
        c_void, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Most queues that one export serves.
const MAX_GUESTS: usize = 4096;

/// A queue that serves one of a disk.
struct Served {
    guest: Guest,
    /// `None` while it is being given back. The connection before its queue.
    body: Option<(Conn, Queue)>,
    /// Outlives the connection, which tells it.
    alive: Arc<Request<Alive>>,
}

/// What a listener knows.
#[pin_data]
struct Service {
    export: Arc<Export>,
    answer: [u8; ANSWER],
    #[pin]
    served: Mutex<KVec<Served>>,
    /// Gives back queues whose disk is gone.
    #[pin]
    reap: WorkItem,
    /// Asks disks whether they are there.
    #[pin]
    pulse: DelayedWork,
}

/// Waits for disks, until it is dropped.
pub(crate) struct Listener {
    raw: NonNull<bindings::mlx5_ulp_listener>,
    service: Pin<KBox<Service>>,
}

// SAFETY: All functions of the interface may be called from any task.
unsafe impl Send for Listener {}

impl Listener {
    /// Waits at a port of all addresses. Sleeps.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else does, `ENOMEM`.
    pub(crate) fn new(export: Arc<Export>, port: u16) -> Result<Self> {
        let answer = export.peer().encode();
        let service = KBox::pin_init(
            try_pin_init!(Service {
                export,
                answer,
                served <- new_mutex!(KVec::new(), "mlx5_ulp_blk_served"),
                // SAFETY: At the offset that is told; `drop` disables it.
                reap <- unsafe { WorkItem::new::<Service>() },
                // SAFETY: As above.
                pulse <- unsafe { DelayedWork::new::<Service>(None) },
            }? Error),
            GFP_KERNEL,
        )?;
        let context = core::ptr::from_ref(&*service).cast_mut().cast();
        // SAFETY: `drop` ends the listener before the service goes.
        let raw = from_err_ptr(unsafe { bindings::mlx5_ulp_blk_listen(port, context) })?;
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            service,
        };
        this.service.pulse.after(alive::PERIOD_MS);
        Ok(this)
    }

    /// How many queues are served. Sleeps.
    pub(crate) fn serves(&self) -> usize {
        self.service.served.lock().len()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: Made by `new`.
        unsafe { bindings::mlx5_ulp_blk_unlisten(self.raw.as_ptr()) };
        self.service.pulse.disable();
        // Before what it may be giving back goes; what ends from here on asks for it in vain.
        self.service.reap.disable();
        let served = core::mem::take(&mut *self.service.served.lock());
        drop(served);
    }
}

impl Service {
    /// Somebody wants to connect.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a disk, `EBUSY` as long as its old queue pair is there, `ENOSPC`, and those of making a
    /// queue.
    ///
    /// # Safety
    ///
    /// To be called for a request of rdma_cm. If it is not refused, `conn` is given up.
    unsafe fn accept(
        &self,
        conn: NonNull<bindings::mlx5_ulp_conn>,
        data: &[u8],
    ) -> Result<(*mut bindings::mlx5_ulp_queue, *mut c_void)> {
        let guest = Guest::decode(data).ok_or(EINVAL)?;
        let mut served = self.served.lock();
        if served.iter().any(|s| s.guest == guest) {
            // A disk connects all of its queues or none. One by one they would cost it as many attempts as
            // there are: each would find the next.
            for old in served.iter().filter(|s| s.guest.disk == guest.disk) {
                old.alive.data().part();
            }
            return Err(EBUSY);
        }
        if served.len() >= MAX_GUESTS {
            return Err(ENOSPC);
        }
        let queue = self.export.serving_queue()?;
        // SAFETY: The service gives back what it serves before it goes.
        let alive = unsafe { Alive::new(&self.reap)? };
        let result = (
            queue.as_ptr(),
            core::ptr::from_ref(alive.data()).cast_mut().cast(),
        );
        served.reserve(1, GFP_KERNEL)?;
        // SAFETY: The caller guarantees it; there is room, so nothing fails after this.
        let conn = unsafe { Conn::from_raw(conn) };
        served.push(
            Served {
                guest,
                body: Some((conn, queue)),
                alive,
            },
            GFP_KERNEL,
        )?;
        Ok(result)
    }
}

impl Work for Service {
    const ITEM: usize = offset_of!(Service, reap);

    fn work(&self) {
        loop {
            let body = self
                .served
                .lock()
                .iter_mut()
                .filter(|s| s.alive.data().is_gone())
                .find_map(|s| s.body.take());
            match body {
                // Not under the lock, which whoever wants to connect takes.
                Some((conn, queue)) => {
                    drop(conn);
                    drop(queue);
                }
                None => break,
            }
        }
        // Only now may they come again.
        self.served.lock().retain(|s| s.body.is_some());
    }
}

impl Later for Service {
    const LATER: usize = offset_of!(Service, pulse);

    fn later(&self) {
        for served in self.served.lock().iter() {
            if let Some((_, queue)) = &served.body {
                Alive::ask(&served.alive, queue);
            }
        }
        self.pulse.after(alive::PERIOD_MS);
    }
}

/// Somebody wants to connect.
///
/// # Safety
///
/// `context` must be that of a listener; `guest` valid.
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_blk_request(
    context: *mut c_void,
    guest: *mut bindings::mlx5_ulp_blk_guest,
) -> c_int {
    // SAFETY: The service outlives its listener, which waits for this call.
    let service = unsafe { &*context.cast::<Service>() };
    // SAFETY: Guaranteed by the caller.
    let guest = unsafe { &mut *guest };
    let data = if guest.data.is_null() {
        &[]
    } else {
        // SAFETY: The caller guarantees so many bytes.
        unsafe { core::slice::from_raw_parts(guest.data.cast::<u8>(), guest.length.into()) }
    };
    let Some(conn) = NonNull::new(guest.conn) else {
        return EINVAL.to_errno();
    };
    // SAFETY: This is for a request; the connection is ours if it is not refused.
    match unsafe { service.accept(conn, data) } {
        Ok((queue, parting)) => {
            guest.queue = queue;
            guest.context = parting;
            guest.answer = service.answer.as_ptr().cast();
            guest.answer_length = ANSWER as u8;
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// A disk knows that it is served.
///
/// # Safety
///
/// `context` must be that of [`Service::accept`].
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_blk_joined(context: *mut c_void) {
    // SAFETY: It outlives the connection, which waits for this call when it is given back.
    unsafe { &*context.cast::<Alive>() }.joined();
}

/// A connection has ended.
///
/// # Safety
///
/// `context` must be that of [`Service::accept`].
#[no_mangle]
unsafe extern "C" fn mlx5_ulp_blk_parted(context: *mut c_void) {
    // SAFETY: It outlives the connection, which waits for this call when it is given back.
    unsafe { &*context.cast::<Alive>() }.part();
}
