// SPDX-License-Identifier: GPL-2.0

//! Whether the other end of a queue that serves is still there.
//!
//! A disk that goes says so, and the connection ends. One whose machine has crashed, or whose cable is out when it
//! goes, does not; and rdma_cm does not look. Nothing is posted to a queue that serves, so the device does not find
//! out either: queue pair and connection would stay for ever. So each [`PERIOD_MS`] the target writes 0 bytes to the
//! disk. The adapter there acknowledges that by itself; no acknowledgment in all the attempts of the transport means
//! that nobody is there. A WRITE of 0 bytes names no memory, its key is not looked at (InfiniBand specification,
//! C9-88): all that the queue of the disk has to do is allow WRITEs.
//!
//! It does no harm to give up a queue of a disk that is there after all and was only cut off: the disk
//! finds its peer away, and connects anew.

use crate::{
    ulp::{
        Completion,
        Done,
        Flags,
        Local,
        Operation,
        Queue,
        Request,
        Work, //
    },
    ulp_cm::Events,
    work_item::WorkItem, //
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Between two looks, ms.
pub(crate) const PERIOD_MS: u32 = 5000;

/// What is known of the other end of a queue.
pub(crate) struct Alive {
    /// It has heard that it is served.
    joined: AtomicBool,
    /// A WRITE is under way.
    asked: AtomicBool,
    gone: AtomicBool,
    /// Asked for when it is gone.
    reap: NonNull<WorkItem>,
}

// SAFETY: The work item is `Sync`, and outlives it by the contract of `new`.
unsafe impl Send for Alive {}
// SAFETY: As above.
unsafe impl Sync for Alive {}

impl Alive {
    /// Of a queue that is being connected. Who is gone has `reap` done.
    ///
    /// # Safety
    ///
    /// `reap` must exist as long as the queue and its connection, and as long as other functions than `new` are called.
    pub(crate) unsafe fn new(reap: &WorkItem) -> Result<Arc<Request<Self>>> {
        let this = Self {
            joined: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            reap: NonNull::from(reap),
        };
        Ok(Arc::new(Request::new(this), GFP_KERNEL)?)
    }

    /// It knows of the connection: it may be asked. Any context.
    pub(crate) fn joined(&self) {
        self.joined.store(true, Relaxed);
    }

    /// Whether it is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// It is gone. Any context.
    pub(crate) fn part(&self) {
        self.gone.store(true, Release);
        // SAFETY: By the contract of `new`.
        unsafe { self.reap.as_ref() }.queue();
    }

    /// Asks it, unless it still owes an answer. One task at a time.
    pub(crate) fn ask(request: &Arc<Request<Self>>, queue: &Queue) {
        let this = request.data();
        if !this.joined.load(Relaxed) || this.is_gone() || this.asked.swap(true, Acquire) {
            return;
        }
        let asked = queue.post(&[Work {
            request,
            operation: Operation::Write,
            local: Local::NONE,
            remote_addr: 0,
            rkey: 0,
            flags: Flags::LAST,
        }]);
        if asked.is_err() {
            // The queue has failed before, or its device is gone.
            this.part();
        }
    }
}

impl Done for Alive {
    fn done(request: &Arc<Request<Self>>, completion: Completion) {
        let this = request.data();
        this.asked.store(false, Release);
        if completion.result.is_err() {
            this.part();
        }
    }
}

/// What befalls the connection.
impl Events for Request<Alive> {
    fn established(&self) {
        self.data().joined();
    }

    fn closed(&self, _why: Result) {
        self.data().part();
    }
}
