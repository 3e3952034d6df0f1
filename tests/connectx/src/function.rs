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

/// Frames that may wait for the worker: what a port's receive buffer holds.
const INBOX: usize = 4096;
/// The same for packets of reliable connections, which have a traffic class that is next to
/// lossless: each connection has a window, and several hundred may fill theirs at once.
const RELIABLE_INBOX: usize = 65536;

/// What wakes the worker.
#[derive(Debug, Default)]
struct Inbox {
    frames: VecDeque<Frame>,
    /// Frames that found no room since the worker asked last.
    overflow: u64,
    kicked: bool,
}

/// What the worker found in the inbox.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// Frames in the order in which they came.
    pub frames: VecDeque<Frame>,
    /// Frames that were dropped meanwhile.
    pub overflow: u64,
}

/// Ways of the MSI-X messages to the VMM.
#[derive(Debug, Default)]
struct Interrupts {
    /// Event file descriptors by vector.
    fds: Vec<Option<File>>,
    /// Messages of vectors that are not connected, one bit each: sent when they are. So a VMM may
    /// disconnect vectors for a moment, as QEMU does with all of them when it needs one more.
    pending: u64,
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
    interrupts: Mutex<Interrupts>,
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
        let mut inbox = lock(&self.inbox);
        let waiting = inbox.frames.len();
        if waiting < INBOX || waiting < RELIABLE_INBOX && crate::wire::is_reliable(&frame) {
            inbox.frames.push_back(frame);
        } else {
            inbox.overflow += 1;
        }
        drop(inbox);
        self.bell.notify_one();
    }

    /// Tells the worker that there may be work.
    pub(crate) fn kick(&self) {
        lock(&self.inbox).kicked = true;
        self.bell.notify_one();
    }

    /// Takes up to `most` frames out of the inbox. If there is none and nobody kicked, waits for
    /// that until `deadline` (by [`now`](Self::now)), or not at all with `idle` false.
    pub(crate) fn take_frames(&self, most: usize, idle: bool, deadline: Option<u64>) -> Mail {
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
        Mail {
            frames: std::mem::replace(&mut inbox.frames, later),
            overflow: std::mem::take(&mut inbox.overflow),
        }
    }

    /// Connects `count` vectors from `first` on with event file descriptors, in place of earlier
    /// ones, or disconnects them if there are none.
    ///
    /// # Errors
    ///
    /// When there are some descriptors, but not one for each vector.
    pub(crate) fn set_interrupts(
        &self,
        first: usize,
        count: usize,
        fds: Vec<File>,
    ) -> std::io::Result<()> {
        if !fds.is_empty() && fds.len() != count {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "not one event file descriptor per vector",
            ));
        }
        let mut interrupts = lock(&self.interrupts);
        let vectors = usize::from(crate::pci::MSIX_VECTORS);
        interrupts.fds.resize_with(vectors, || None);
        let mut fds = fds.into_iter();
        for place in interrupts.fds.iter_mut().skip(first).take(count) {
            *place = fds.next();
        }
        let pending = std::mem::take(&mut interrupts.pending);
        self.send(&mut interrupts, pending);
        Ok(())
    }

    /// Disconnects all vectors.
    pub(crate) fn clear_interrupts(&self) {
        lock(&self.interrupts).fds.clear();
    }

    /// Forgets the messages that could not be sent: a reset.
    pub(crate) fn forget_interrupts(&self) {
        lock(&self.interrupts).pending = 0;
    }

    /// Fires MSI-X vectors, one bit each.
    pub(crate) fn fire(&self, vectors: u64) {
        if vectors != 0 {
            self.send(&mut lock(&self.interrupts), vectors);
        }
    }

    fn send(&self, interrupts: &mut Interrupts, vectors: u64) {
        for vector in (0..64).filter(|vector| (vectors >> vector) & 1 != 0) {
            let Some(Some(fd)) = interrupts.fds.get(vector) else {
                interrupts.pending |= 1 << vector;
                continue;
            };
            let mut fd: &File = fd;
            if let Err(error) = fd.write_all(&1u64.to_ne_bytes()) {
                log::warn!("{}: vector {vector}: {error}", self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kind;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    fn function() -> Function {
        Function::new(FunctionConfig::new(0, Kind::Pf))
    }

    /// A socket pair in place of an event file descriptor: what is written, and where.
    fn event() -> (UnixStream, File) {
        let (reader, writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        (reader, File::from(OwnedFd::from(writer)))
    }

    fn fired(reader: &mut UnixStream) -> usize {
        let mut bytes = [0; 256];
        reader.read(&mut bytes).unwrap_or(0) / 8
    }

    #[test]
    fn messages_wait_for_their_vector_to_be_connected() {
        let function = function();
        let (mut one, fd) = event();
        function.set_interrupts(1, 1, vec![fd]).unwrap();
        function.fire(0b110);
        assert_eq!(fired(&mut one), 1);
        // All are disconnected for a moment, and one fires.
        function.clear_interrupts();
        function.fire(0b010);
        function.fire(0b010);
        assert_eq!(fired(&mut one), 0);
        let ((mut one, a), (mut two, b)) = (event(), event());
        function.set_interrupts(1, 2, vec![a, b]).unwrap();
        assert_eq!((fired(&mut one), fired(&mut two)), (1, 1));
        function.fire(0b110);
        assert_eq!((fired(&mut one), fired(&mut two)), (1, 1));
    }

    #[test]
    fn no_descriptors_disconnect() {
        let function = function();
        let (mut one, fd) = event();
        function.set_interrupts(1, 1, vec![fd]).unwrap();
        function.set_interrupts(1, 1, vec![]).unwrap();
        function.fire(0b010);
        assert_eq!(fired(&mut one), 0);
        function.forget_interrupts();
        let (mut one, fd) = event();
        function.set_interrupts(1, 1, vec![fd]).unwrap();
        assert_eq!(fired(&mut one), 0, "forgotten");
        let (_, fd) = event();
        assert!(function.set_interrupts(1, 2, vec![fd]).is_err());
    }

    #[test]
    fn the_inbox_drops_what_is_too_much() {
        let function = function();
        for _ in 0..INBOX + 3 {
            function.deliver(vec![0; 64]);
        }
        let mail = function.take_frames(10, false, None);
        assert_eq!((mail.frames.len(), mail.overflow), (10, 3));
        function.deliver(vec![0; 64]);
        assert_eq!(function.take_frames(usize::MAX, false, None).overflow, 0);
    }
}
