// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Credits and requests in flight against a model that keeps a list of WQEs.

use std::collections::VecDeque;

use mlx5_ulp_host_tests::queue::credit::{Credit, Handle, Way};
use mlx5_ulp_host_tests::queue::in_flight::{Cookie, InFlight, Mark};
use mlx5_ulp_host_tests::queue::ring::{hardware, Ring};
use proptest::collection::vec;
use proptest::prelude::*;

/// A WQE as the model knows it.
#[derive(Clone, Debug)]
struct Wqe {
    block: u32,
    blocks: u32,
    cookies: Vec<usize>,
}

/// The structures under test, used as the queue uses them.
struct Queue {
    credit: Credit,
    in_flight: InFlight<Box<[Cookie]>, Box<[Mark]>>,
    producer: u32,
}

impl Queue {
    fn new(depth: u32, ring: Ring, start: u32) -> Queue {
        let credit = Credit::new();
        credit.open(Handle::Shared, Way::Any, depth);
        Queue {
            credit,
            in_flight: InFlight::new(
                (0..depth.next_power_of_two())
                    .map(|_| Cookie::default())
                    .collect(),
                (0..ring.blocks()).map(|_| Mark::default()).collect(),
                ring,
            )
            .unwrap(),
            producer: start,
        }
    }

    /// Posts one WQE with several requests; `None` when they do not fit.
    fn post(&mut self, cookies: &[usize], blocks: u32) -> Option<u32> {
        let n = cookies.len() as u32;
        let first = self.credit.reserve(Handle::Shared, Way::Any, n).ok()?;
        let block = self.producer;
        for (i, &cookie) in cookies.iter().enumerate() {
            self.in_flight.record(first.wrapping_add(i as u32), cookie);
        }
        let last = first.wrapping_add(n).wrapping_sub(1);
        self.in_flight.mark(block, last, n as u16);
        self.producer = block.wrapping_add(blocks);
        self.credit.commit(first.wrapping_add(n));
        Some(block)
    }

    /// A completion names `counter`; returns the cookies that it retires.
    fn complete(&mut self, counter: u16) -> Option<Vec<usize>> {
        let retired = self.credit.retired();
        let range = self
            .in_flight
            .view()
            .at(counter, retired, self.credit.posted())?;
        let mut cookies = vec![];
        while self.credit.retired() != range.end {
            cookies.push(self.in_flight.view().cookie(self.credit.retired()));
            self.credit.retire();
        }
        Some(cookies)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Post a WQE of so many requests and blocks.
    Post(u32, u32),
    /// Complete the nth WQE in flight (and with it all before).
    Complete(usize),
    /// The device names any block.
    Garbage(u16),
    /// The device repeats the last completion.
    Repeat,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..4, 1u32..5).prop_map(|(r, b)| Step::Post(r, b)),
        3 => (0usize..4).prop_map(Step::Complete),
        1 => any::<u16>().prop_map(Step::Garbage),
        1 => Just(Step::Repeat),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every request is retired exactly once, in order, whatever the device says, also where the 16-bit
    /// and the 32-bit counters wrap and when the queue is full.
    #[test]
    fn every_request_is_retired_once_in_order(
        depth in 1u32..40,
        start in prop_oneof![Just(0u32), 65_400u32..65_540, u32::MAX - 300..=u32::MAX],
        steps in vec(step(), 1..400),
    ) {
        // Four blocks for each request: as a queue of that shape is made.
        let ring = Ring::at_least(depth * 4).unwrap();
        let mut queue = Queue::new(depth, ring, start);
        let mut model: VecDeque<Wqe> = VecDeque::new();
        let mut next_cookie = 1;
        let mut last_completed = None;

        for step in steps {
            match step {
                Step::Post(requests, blocks) => {
                    let used: usize = model.iter().map(|w| w.cookies.len()).sum();
                    let cookies: Vec<_> =
                        (next_cookie..next_cookie + requests as usize).collect();
                    let fits = used + cookies.len() <= depth as usize;
                    let before = queue.producer;
                    match queue.post(&cookies, blocks) {
                        Some(block) => {
                            prop_assert!(fits);
                            next_cookie += cookies.len();
                            model.push_back(Wqe { block, blocks, cookies });
                        }
                        None => {
                            prop_assert!(!fits);
                            prop_assert_eq!(queue.producer, before);
                        }
                    }
                    // The shape promises that blocks suffice when credits do.
                    let blocks: u32 = model.iter().map(|w| w.blocks).sum();
                    prop_assert!(blocks <= ring.blocks());
                }
                Step::Complete(n) => {
                    let Some(wqe) = model.get(n).cloned() else { continue };
                    let want: Vec<_> =
                        model.drain(..=n).flat_map(|w| w.cookies).collect();
                    let counter = hardware(wqe.block);
                    prop_assert_eq!(queue.complete(counter), Some(want));
                    last_completed = Some(counter);
                }
                Step::Garbage(counter) => {
                    let hit = model.iter().position(|w| hardware(w.block) == counter);
                    let got = queue.complete(counter);
                    match hit {
                        Some(n) => {
                            let want: Vec<_> =
                                model.drain(..=n).flat_map(|w| w.cookies).collect();
                            prop_assert_eq!(got, Some(want));
                        }
                        None => prop_assert_eq!(got, None),
                    }
                }
                Step::Repeat => {
                    let Some(counter) = last_completed else { continue };
                    // A small ring does not come round to the same 16 bits.
                    if model.iter().all(|w| hardware(w.block) != counter) {
                        prop_assert_eq!(queue.complete(counter), None);
                    }
                }
            }
            let used: usize = model.iter().map(|w| w.cookies.len()).sum();
            prop_assert_eq!(queue.credit.in_flight() as usize, used);
        }
    }

    /// Segments of a WQE lie behind one another, and go on at the start of the ring.
    #[test]
    fn segments_follow_one_another(log in 0u8..=15, counter: u32, n in 1u32..64) {
        let ring = Ring::new(log).unwrap();
        let mut at = ring.block_offset(counter);
        for s in 0..n {
            prop_assert_eq!(ring.segment_offset(counter, s), at);
            at = (at + 16) % ring.bytes();
        }
    }
}
