// SPDX-License-Identifier: GPL-2.0

//! Whether a connection works: a READ through it.
//!
//! Two queue pairs can be connected while the cable between them is out. Requests that were sent again on such
//! a connection would use up their attempts.

use crate::{
    attempt::Attempts,
    errno::ecanceled,
    ulp::{
        Completion,
        Done,
        Flags,
        Operation,
        QueueRef,
        Range,
        Request,
        Work, //
    }, //
};
use core::sync::atomic::{
    AtomicI32,
    Ordering::{
        Acquire,
        Release, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// For how long an answer is waited for. The device gives up earlier, unless it loses the completion.
const PATIENCE: Delta = Delta::from_secs(10);
/// Between two looks for it.
const PAUSE: Delta = Delta::from_millis(1);
/// No answer yet.
const WAITING: i32 = 1;

/// 0, an error number, or [`WAITING`].
struct Probe(AtomicI32);

impl Done for Probe {
    fn done(request: &Arc<Request<Self>>, completion: Completion) {
        let status = completion.result.map_or_else(Error::to_errno, |()| 0);
        request.data().0.store(status, Release);
    }
}

/// Reads what is at `remote_addr` into `range`, one of the `attempts` to connect. Sleeps.
///
/// # Errors
///
/// `ECANCELED` if these are given up, `ETIMEDOUT` if there is no answer, `EREMOTEIO` if the target does not let us, or how the queue has failed.
pub(crate) fn probe(
    attempts: &Attempts,
    queue: QueueRef<'_>,
    range: Range<'_>,
    remote_addr: u64,
    rkey: u32,
) -> Result {
    let request = Arc::new(Request::new(Probe(AtomicI32::new(WAITING))), GFP_KERNEL)?;
    queue.post(&[Work {
        request: &request,
        operation: Operation::Read,
        local: range.into(),
        remote_addr,
        rkey,
        flags: Flags::LAST,
    }])?;
    let start = Instant::<Monotonic>::now();
    loop {
        // It may have no interrupts.
        queue.poll(1);
        match request.data().0.load(Acquire) {
            WAITING if attempts.are_given_up() => return Err(ecanceled()),
            WAITING if start.elapsed() < PATIENCE => fsleep(PAUSE),
            WAITING => return Err(ETIMEDOUT),
            status => return to_result(status),
        }
    }
}
