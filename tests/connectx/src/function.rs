// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A function as the threads around it share it.
//!
//! Three parties work on a function: the vfio-user thread that serves the guest's accesses, the
//! worker that runs its queues, and others that leave frames in its inbox. The [`Hca`] is behind
//! one mutex. No thread ever holds the mutexes of two functions.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::FunctionConfig;
use crate::hca::Hca;
use crate::io::Frame;

/// Locks a mutex. A panic ends the process, so that no lock is ever found poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What wakes the worker.
#[derive(Debug, Default)]
struct Inbox {
    frames: VecDeque<Frame>,
    kicked: bool,
}

/// One function and what its threads need.
#[derive(Debug)]
pub struct Function {
    /// Position on the command line and port of the switch.
    pub index: u16,
    /// Name in logs and answers.
    pub name: String,
    hca: Mutex<Hca>,
    /// Threads that wait for the HCA on behalf of the guest.
    urgent: AtomicU32,
    inbox: Mutex<Inbox>,
    bell: Condvar,
    /// MSI-X event file descriptors by vector.
    interrupts: Mutex<Vec<Option<File>>>,
    start: Instant,
}

impl Function {
    /// A function after power-on.
    pub fn new(config: FunctionConfig) -> Self {
        Self {
            index: config.index,
            name: config.name(),
            hca: Mutex::new(Hca::new(config)),
            urgent: AtomicU32::new(0),
            inbox: Mutex::default(),
            bell: Condvar::new(),
            interrupts: Mutex::default(),
            start: Instant::now(),
        }
    }

    /// Nanoseconds since the function started; the HCA's clock.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The HCA, for a thread that the guest waits for: the worker lets it go first.
    pub fn hca(&self) -> MutexGuard<'_, Hca> {
        self.urgent.fetch_add(1, Ordering::Relaxed);
        let guard = lock(&self.hca);
        self.urgent.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The HCA, for the worker.
    pub(crate) fn hca_for_worker(&self) -> MutexGuard<'_, Hca> {
        while self.urgent.load(Ordering::Relaxed) != 0 {
            std::thread::yield_now();
        }
        lock(&self.hca)
    }

    /// Leaves a frame for the worker.
    pub(crate) fn deliver(&self, frame: Frame) {
        lock(&self.inbox).frames.push_back(frame);
        self.bell.notify_one();
    }

    /// Tells the worker that there may be work.
    pub(crate) fn kick(&self) {
        lock(&self.inbox).kicked = true;
        self.bell.notify_one();
    }

    /// Takes up to `most` frames out of the inbox. If there is none and nobody kicked, waits for
    /// that until `deadline` (by [`now`](Self::now)), or not at all with `idle` false.
    pub(crate) fn take_frames(
        &self,
        most: usize,
        idle: bool,
        deadline: Option<u64>,
    ) -> VecDeque<Frame> {
        let mut inbox = lock(&self.inbox);
        while idle && inbox.frames.is_empty() && !inbox.kicked {
            let Some(deadline) = deadline else {
                inbox = self
                    .bell
                    .wait(inbox)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_sub(self.now());
            if left == 0 {
                break;
            }
            let left = Duration::from_nanos(left);
            let waited = self.bell.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        inbox.kicked = false;
        let rest = inbox.frames.len().min(most);
        let later = inbox.frames.split_off(rest);
        std::mem::replace(&mut inbox.frames, later)
    }

    /// Connects vectors from `first` on with event file descriptors, in place of earlier ones.
    pub(crate) fn set_interrupts(&self, first: usize, fds: Vec<File>) {
        let mut interrupts = lock(&self.interrupts);
        let vectors = usize::from(crate::pci::MSIX_VECTORS);
        interrupts.resize_with(vectors, || None);
        for (place, fd) in interrupts.iter_mut().skip(first).zip(fds) {
            *place = Some(fd);
        }
    }

    /// Disconnects all vectors.
    pub(crate) fn clear_interrupts(&self) {
        lock(&self.interrupts).clear();
    }

    /// Fires MSI-X vectors, one bit each.
    pub(crate) fn fire(&self, vectors: u64) {
        if vectors == 0 {
            return;
        }
        let interrupts = lock(&self.interrupts);
        for (vector, fd) in interrupts.iter().enumerate() {
            let Some(mut fd) = fd.as_ref().filter(|_| (vectors >> vector) & 1 != 0) else {
                continue;
            };
            if let Err(error) = fd.write_all(&1u64.to_ne_bytes()) {
                log::warn!("{}: vector {vector}: {error}", self.name);
            }
        }
    }
}
