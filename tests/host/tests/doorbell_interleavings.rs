// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Waiting for the doorbell under every interleaving and every reordering that the memory model allows:
//! who completes looks at the poster only when `Pending` says so, and yet no WQE is left behind. `loom`
//! runs each model once for each of them.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::Mutex;
use loom::thread;

#[allow(dead_code, missing_docs)]
#[path = "../../../rust/mlx5_ulp/doorbell"]
mod doorbell {
    use loom::sync::atomic;
    pub mod pending;

    fn full_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }
}

use doorbell::pending::Pending;

/// What only a poster touches.
#[derive(Default)]
struct Poster {
    posted: u32,
    waiting: u32,
    /// Number behind the last request that was rung.
    rung: u32,
}

/// A queue whose WQEs are all signaled. What is rung is what the device may carry out.
struct Queue {
    poster: Mutex<Poster>,
    retired: AtomicU32,
    pending: Pending,
}

impl Queue {
    /// With `rung` requests that the device has.
    fn new(rung: u32) -> Self {
        Queue {
            poster: Mutex::new(Poster {
                posted: rung,
                waiting: 0,
                rung,
            }),
            retired: AtomicU32::new(0),
            pending: Pending::new(),
        }
    }

    fn ring(&self, poster: &mut Poster) {
        poster.waiting = 0;
        poster.rung = poster.posted;
        self.pending.end();
    }

    fn busy(&self, poster: &Poster) -> bool {
        poster.rung != self.retired.load(Relaxed)
    }

    /// As `SendQueue::post_writes` in the mode `batch`.
    fn post(&self) {
        let mut poster = self.poster.lock().unwrap();
        poster.posted += 1;
        if !self.busy(&poster) {
            return self.ring(&mut poster);
        }
        poster.waiting += 1;
        self.pending.begin();
        if !self.busy(&poster) {
            self.ring(&mut poster);
        }
    }

    /// As `SendQueue::poll`: everything up to request `end` is reported.
    fn complete(&self, end: u32) {
        self.retired.store(end, Relaxed);
        if self.pending.concerns(end) {
            let mut poster = self.poster.lock().unwrap();
            if poster.waiting != 0 && !self.busy(&poster) {
                self.ring(&mut poster);
            }
        }
    }

    /// Whether what waits has a completion before it that is still to come.
    fn nothing_is_left_behind(&self) -> bool {
        let poster = self.poster.lock().unwrap();
        poster.waiting == 0 || self.busy(&poster)
    }
}

#[test]
fn the_last_completion_meets_a_post() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(1));
        let completer = {
            let queue = queue.clone();
            thread::spawn(move || queue.complete(1))
        };
        queue.post();
        completer.join().unwrap();
        assert!(queue.nothing_is_left_behind());
    });
}

#[test]
fn two_completions_meet_two_posts() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queue = Arc::new(Queue::new(2));
        let completer = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.complete(1);
                queue.complete(2);
            })
        };
        queue.post();
        queue.post();
        completer.join().unwrap();
        assert!(queue.nothing_is_left_behind());
    });
}
