// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The adaptive mode and the latency that it measures, against a model of a device with a clock.

use std::collections::VecDeque;

use mlx5_ulp_host_tests::doorbell::policy::{Hint, Mode, Policy};
use mlx5_ulp_host_tests::doorbell::sample::Sample;

/// Nanoseconds from the doorbell to the completion, for a device with nothing else to do.
const ROUND_TRIP: i64 = 8_000;
/// Nanoseconds between two completions.
const EACH: i64 = 200;
/// See [`Queue::moderation`]: what the drivers of the kernel set.
const MODERATION: i64 = 16_000;
/// Nanoseconds between two posts of a burst.
const POST: i64 = 50;

/// A queue as in `queue/doorbell.rs`, whose device takes [`ROUND_TRIP`] and [`EACH`].
struct Queue {
    policy: Policy,
    sample: Sample,
    /// Nanoseconds for which completions are held back, so that one interrupt tells of many.
    moderation: i64,
    now: i64,
    posted: u32,
    retired: u32,
    /// When the requests that wait were posted.
    waiting: Vec<i64>,
    /// When the requests at the device complete.
    rung: VecDeque<i64>,
    doorbells: i64,
    /// Sum of how long requests waited for the doorbell.
    waited: i64,
}

impl Queue {
    fn new(moderation: i64) -> Queue {
        Queue {
            policy: Policy::new(Mode::Adaptive, 4, 16),
            sample: Sample::new(),
            moderation,
            now: 0,
            posted: 0,
            retired: 0,
            waiting: vec![],
            rung: VecDeque::new(),
            doorbells: 0,
            waited: 0,
        }
    }

    fn ring(&mut self, new: u32) {
        self.policy.rung(new);
        self.sample.rung(|| self.now);
        for since in self.waiting.drain(..) {
            self.waited += self.now - since;
            let after = self.rung.back().map_or(0, |last| last + EACH);
            self.rung.push_back(after.max(self.now + ROUND_TRIP));
        }
        self.doorbells += 1;
    }

    fn post(&mut self) {
        self.posted += 1;
        self.waiting.push(self.now);
        let busy = !self.rung.is_empty();
        if self.policy.posted(1, || busy, Hint::None).is_some() {
            self.ring(1);
        } else if self.policy.waiting() == 1 {
            self.sample.begin(self.posted, self.now);
        }
    }

    /// The rounds of completions up to `until`.
    fn pass(&mut self, until: i64) {
        while let Some(round) = self.rung.front().map(|first| first + self.moderation) {
            if round > until {
                break;
            }
            self.now = round;
            let load = self.posted - self.retired;
            while self.rung.front().is_some_and(|&at| at <= round) {
                self.rung.pop_front();
                self.retired += 1;
            }
            let measured = self.sample.completed(self.retired, || self.now);
            if let Some(latency) = measured {
                self.policy.measured(latency.waited, latency.total, load);
            }
            if self.policy.completed(load, !self.rung.is_empty()).is_some() {
                self.ring(0);
            }
        }
        self.now = until;
    }

    /// Posts bursts of so many requests; the device is through with one long before the next.
    fn bursts(&mut self, requests: u32) {
        for _ in 0..2000 {
            let next = self.now + 200_000;
            for _ in 0..requests {
                self.post();
                self.pass(self.now + POST);
            }
            self.pass(next);
            assert!(self.waiting.is_empty() && self.rung.is_empty());
        }
    }

    /// Keeps so many requests in flight.
    fn depth(&mut self, requests: u32) {
        for _ in 0..20_000 {
            while self.posted - self.retired < requests {
                self.post();
                self.now += POST;
            }
            let next = self
                .rung
                .front()
                .map_or(self.now, |first| first + self.moderation);
            self.pass(next.max(self.now));
        }
    }
}

/// The device is idle between bursts, and lone requests end them, but within one it has plenty to do: batches are
/// large, and yet nobody waits for long.
#[test]
fn bursts_are_batched() {
    for moderation in [0, MODERATION] {
        for (requests, share) in [(14, 2), (30, 4), (38, 4), (50, 4), (62, 4), (70, 8)] {
            let mut queue = Queue::new(moderation);
            queue.bursts(requests);
            let (rings, posts) = (queue.doorbells, i64::from(queue.posted));
            assert!(
                rings * share <= posts,
                "{rings} for {posts} in bursts of {requests}"
            );
            let latency = ROUND_TRIP + moderation;
            let waited = queue.waited / posts;
            assert!(
                waited * 2 < latency,
                "{waited} of {latency} ns in bursts of {requests}"
            );
        }
    }
}

/// Requests that are in flight by twos or threes wait for one another if they wait at all: the load alone would
/// have them do so for ever.
#[test]
fn few_requests_in_flight_do_not_wait() {
    for requests in [2, 3] {
        let mut queue = Queue::new(0);
        queue.depth(requests);
        let before = queue.waited;
        queue.depth(requests);
        assert_eq!(queue.waited - before, 0, "{requests} in flight");
    }
}

/// Requests wait for a quarter of their latency at most.
#[test]
fn a_batch_is_not_worth_more_than_a_quarter_of_the_latency() {
    for requests in [2, 3, 4, 6, 8, 12, 16, 24, 32, 48] {
        let mut queue = Queue::new(0);
        queue.depth(requests);
        let before = (queue.waited, queue.posted);
        queue.depth(requests);
        let waited = (queue.waited - before.0) / i64::from(queue.posted - before.1);
        let latency = waited + ROUND_TRIP;
        assert!(
            waited * 4 <= latency,
            "{waited} of {latency} ns with {requests} in flight"
        );
    }
}

/// With many in flight throughput is what counts.
#[test]
fn a_deep_queue_rings_at_most_one_time_in_eight() {
    for moderation in [0, MODERATION] {
        for requests in [64, 70, 100, 128] {
            let mut queue = Queue::new(moderation);
            // From the start on, and after it has been shallow.
            for shallow in [false, true] {
                if shallow {
                    queue.depth(1);
                    queue.depth(3);
                }
                queue.depth(requests);
                let before = (queue.doorbells, queue.posted);
                queue.depth(requests);
                let rings = queue.doorbells - before.0;
                let posts = i64::from(queue.posted - before.1);
                assert!(
                    rings * 8 <= posts,
                    "{rings} rings for {posts} posts, depth {requests}"
                );
            }
        }
    }
}
