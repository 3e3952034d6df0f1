// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Waiting for the doorbell under every interleaving and every reordering that the memory model allows:
//! who completes looks at the poster only when `Pending` says so, and yet no WQE is left behind. `loom`
//! runs each model once for each of them.
//!
//! `Pending` and `Policy` are those of the module. What stands between them here, `Queue`, is the same in
//! `queue/doorbell.rs`, `queue/post.rs` and `cq/poll.rs`, function by function.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::sync::Mutex;
use loom::thread;

#[allow(dead_code, missing_docs)]
#[path = "../../../rust/mlx5_ulp/doorbell"]
mod doorbell {
    use loom::sync::atomic;
    pub mod pending;
    pub mod policy;

    fn full_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }
}

use doorbell::pending::Pending;
use doorbell::policy::{Cause, Hint, Mode, Policy};

/// What only a poster touches.
struct Poster {
    policy: Policy,
    /// Requests since the last that was signaled.
    unsignaled: u32,
    /// Number behind the last signaled request that was rung.
    signaled_rung: u32,
}

/// A queue with one WQE for each request.
struct Queue {
    poster: Mutex<Poster>,
    posted: AtomicU32,
    retired: AtomicU32,
    pending: Pending,
}

impl Queue {
    /// With `rung` requests, all signaled, that the device has.
    fn new(policy: Policy, rung: u32) -> Self {
        let pending = Pending::new();
        pending.expect(policy.calm());
        Queue {
            poster: Mutex::new(Poster {
                policy,
                unsignaled: 0,
                signaled_rung: rung,
            }),
            posted: AtomicU32::new(rung),
            retired: AtomicU32::new(0),
            pending,
        }
    }

    /// As `SendQueue::expects_completion`.
    fn expects_completion(&self, signaled_rung: u32) -> bool {
        (self.retired.load(Relaxed).wrapping_sub(signaled_rung) as i32) < 0
    }

    /// As `SendQueue::rung`.
    fn ring(&self, poster: &mut Poster, wqes: u32) {
        if poster.policy.waiting() != 0 {
            self.pending.end();
        }
        poster.policy.rung(wqes);
        poster.signaled_rung = self.posted.load(Relaxed).wrapping_sub(poster.unsignaled);
    }

    fn ring_if(&self, poster: &mut Poster, cause: Option<Cause>) {
        if cause.is_some() {
            self.ring(poster, 0);
        }
    }

    /// As `SendQueue::post_writes`, with `show`.
    fn post(&self, hint: Hint, signaled: bool) {
        let mut poster = self.poster.lock().unwrap();
        poster.unsignaled = if signaled { 0 } else { poster.unsignaled + 1 };
        self.posted
            .store(self.posted.load(Relaxed).wrapping_add(1), Release);
        let signaled_rung = poster.signaled_rung;
        let busy = || self.expects_completion(signaled_rung);
        match poster.policy.posted(1, busy, hint) {
            Some(_) => self.ring(&mut poster, 1),
            None => self.wait(&mut poster, hint),
        }
    }

    /// As `SendQueue::wait`, for one WQE; without the clock.
    fn wait(&self, poster: &mut Poster, hint: Hint) {
        if poster.policy.waiting() == 1 {
            self.pending.begin();
            if hint == Hint::None && !self.expects_completion(poster.signaled_rung) {
                self.ring_if(poster, Some(Cause::Idle));
            }
        }
    }

    /// As `SendQueue::poll`: everything up to request `end` is reported.
    fn complete(&self, end: u32) {
        let load = self
            .posted
            .load(Acquire)
            .wrapping_sub(self.retired.load(Relaxed));
        self.retired.store(end, Release);
        if self.pending.concerns(load) {
            // As `SendQueue::completed_pending`.
            let mut poster = self.poster.lock().unwrap();
            let busy = self.expects_completion(poster.signaled_rung);
            let cause = poster.policy.completed(load, busy);
            self.pending.expect(poster.policy.calm());
            self.ring_if(&mut poster, cause);
        }
    }

    /// As `SendQueue::configure`.
    fn configure(&self, mode: Mode, batch: u32) {
        let mut poster = self.poster.lock().unwrap();
        let cause = poster.policy.change(mode, batch, 16);
        self.pending.expect(poster.policy.calm());
        self.ring_if(&mut poster, cause);
    }

    /// Whether what waits has a completion before it that is still to come.
    fn nothing_is_left_behind(&self) -> bool {
        let poster = self.poster.lock().unwrap();
        poster.policy.waiting() == 0 || self.expects_completion(poster.signaled_rung)
    }
}

/// Checks a queue with `rung` requests at the device, which are completed in so many rounds while others do
/// what they do.
fn check(mode: Mode, rung: u32, others: &'static [fn(&Queue)]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let queue = Arc::new(Queue::new(Policy::new(mode, 4, 16), rung));
        let mut threads = vec![];
        for other in others {
            let queue = queue.clone();
            threads.push(thread::spawn(move || other(&queue)));
        }
        for end in 1..=rung {
            queue.complete(end);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(queue.nothing_is_left_behind());
    });
}

#[test]
fn the_last_completion_meets_a_post() {
    for mode in [Mode::Batch, Mode::Adaptive] {
        check(mode, 1, &[|queue| queue.post(Hint::None, true)]);
    }
}

#[test]
fn two_completions_meet_two_posts() {
    for mode in [Mode::Batch, Mode::Adaptive] {
        check(
            mode,
            2,
            &[|queue| {
                queue.post(Hint::None, true);
                queue.post(Hint::None, true);
            }],
        );
    }
}

#[test]
fn a_completion_meets_a_chain_in_two_calls() {
    check(
        Mode::Batch,
        1,
        &[|queue| {
            queue.post(Hint::More, true);
            queue.post(Hint::None, true);
        }],
    );
}

#[test]
fn a_completion_meets_two_posters() {
    check(
        Mode::Batch,
        1,
        &[
            |queue| queue.post(Hint::None, true),
            |queue| queue.post(Hint::None, false),
        ],
    );
}

#[test]
fn a_completion_meets_a_silent_post_and_another() {
    check(
        Mode::Batch,
        1,
        &[|queue| {
            queue.post(Hint::None, false);
            queue.post(Hint::None, true);
        }],
    );
}

#[test]
fn a_completion_meets_a_post_and_a_change_of_mode() {
    check(
        Mode::Adaptive,
        1,
        &[
            |queue| queue.post(Hint::None, true),
            |queue| queue.configure(Mode::Batch, 8),
        ],
    );
}
