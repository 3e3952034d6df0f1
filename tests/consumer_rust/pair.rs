// SPDX-License-Identifier: GPL-2.0

//! Two queues, one on each device, and requests that are counted.

use crate::ulp::{
    Access,
    Completion,
    Device,
    Done,
    Queue,
    QueueAttr,
    Request,
    Space, //
};
use core::sync::atomic::{
    AtomicI32,
    AtomicU32,
    Ordering::{
        Acquire,
        Relaxed,
        Release, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Bytes of the memory of a test.
pub(crate) const BYTES: usize = 8192;

/// What all rights are.
pub(crate) const ALL: Access = Access::REMOTE_WRITE.and(Access::REMOTE_READ);

/// Two queues that are connected. Dropped in the order of the fields.
pub(crate) struct Pair {
    pub(crate) here: Queue,
    pub(crate) there: Queue,
    pub(crate) at_here: Arc<Device>,
    pub(crate) at_there: Arc<Device>,
}

impl Pair {
    /// Makes both, `here` by `attr`.
    pub(crate) fn new(attr: QueueAttr) -> Result<Self> {
        Self::with(|device| Queue::new(device, attr), QueueAttr::new(1))
    }

    /// Likewise, and somebody hears of room `here`.
    pub(crate) fn with_space(attr: QueueAttr, space: Arc<dyn Space>) -> Result<Self> {
        let here = |device: &_| Queue::with_space(device, attr, space);
        Self::with(here, QueueAttr::new(1))
    }

    /// Makes both, `there` by its own attributes; the peer may do there what it likes.
    pub(crate) fn between(here: QueueAttr, there: QueueAttr) -> Result<Self> {
        Self::with(|device| Queue::new(device, here), there)
    }

    fn with(here: impl FnOnce(&Arc<Device>) -> Result<Queue>, there: QueueAttr) -> Result<Self> {
        let (at_here, at_there) = (Device::open(c"mlx5_0")?, Device::open(c"mlx5_1")?);
        let there = QueueAttr {
            access: ALL,
            ..there
        };
        let (here, there) = (here(&at_here)?, Queue::new(&at_there, there)?);
        here.connect(&there.address(None)?, None)?;
        there.connect(&here.address(None)?, None)?;
        Ok(Self {
            here,
            there,
            at_here,
            at_there,
        })
    }
}

/// Hears of room.
pub(crate) struct Told(AtomicU32);

impl Told {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(AtomicU32::new(0)), GFP_KERNEL)?)
    }

    /// How often it has.
    pub(crate) fn times(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Space for Told {
    fn space(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Counts requests that have ended, and keeps the first error.
pub(crate) struct Tally {
    ended: AtomicU32,
    error: AtomicI32,
}

impl Tally {
    /// A request that may be posted again and again.
    pub(crate) fn new() -> Result<Arc<Request<Self>>> {
        let tally = Self {
            ended: AtomicU32::new(0),
            error: AtomicI32::new(0),
        };
        Ok(Arc::new(Request::new(tally), GFP_KERNEL)?)
    }

    /// How many have ended.
    pub(crate) fn ended(&self) -> u32 {
        self.ended.load(Acquire)
    }

    /// Waits for so many, and returns the first error.
    pub(crate) fn wait(&self, count: u32) -> Result {
        until(|| self.ended() >= count);
        kernel::error::to_result(self.error.load(Relaxed))
    }
}

impl Done for Tally {
    fn done(request: &Arc<Request<Self>>, completion: Completion) {
        let this = request.data();
        if let Err(e) = completion.result {
            let _ = this
                .error
                .compare_exchange(0, e.to_errno(), Relaxed, Relaxed);
        }
        this.ended.fetch_add(1, Release);
    }
}

/// Sleeps until it is so.
pub(crate) fn until(so: impl Fn() -> bool) {
    while !so() {
        fsleep(Delta::from_millis(1));
    }
}

/// Memory with a pattern.
pub(crate) fn pattern() -> Result<KVec<u8>> {
    let mut memory = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
    for (i, byte) in memory.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    Ok(memory)
}
