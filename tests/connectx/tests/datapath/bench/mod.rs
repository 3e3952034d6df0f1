// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The stage of the tests: a driver's view of two functions.

mod completion;
mod event;
mod extended;
mod key;
mod pair;
mod post;
mod queue_pair;
mod side;

pub use completion::*;
pub use event::*;
pub use extended::*;
pub use pair::*;
pub use post::*;
pub use queue_pair::*;
pub use side::*;

use std::collections::VecDeque;

/// What the wire does with a frame: how often, and after how many others, it arrives.
pub type WireFault = Box<dyn FnMut(usize, &[u8]) -> Vec<usize>>;

/// Two functions, connected.
pub struct Bench {
    pub sides: [Side; 2],
    pub now: u64,
    wire: VecDeque<(usize, usize, Vec<u8>)>,
    fault: Option<WireFault>,
    pub frames: usize,
    /// Frames come back to the function that sent them.
    pub loopback: bool,
}

impl Bench {
    pub fn new() -> Self {
        Self::scrambled(None)
    }

    /// With random bytes in reserved fields.
    pub fn scrambled(seed: Option<u64>) -> Self {
        Bench {
            sides: [Side::new(0, seed), Side::new(1, seed)],
            now: 1,
            wire: VecDeque::new(),
            fault: None,
            frames: 0,
            loopback: false,
        }
    }

    /// From now on, `fault(number, frame)` tells for each frame after how many others it arrives; empty: never.
    pub fn set_fault(&mut self, fault: impl FnMut(usize, &[u8]) -> Vec<usize> + 'static) {
        self.fault = Some(Box::new(fault));
    }

    /// A queue pair on each side with completion queues of its own, connected.
    pub fn connect(&mut self, spec: QpSpec, link: Link) -> [Endpoint; 2] {
        let endpoints = self.endpoints(spec);
        self.link(endpoints, link)
    }

    /// Queue pairs in reset.
    pub fn endpoints(&mut self, spec: QpSpec) -> [Endpoint; 2] {
        self.endpoints_with(spec, |_| ())
    }

    /// The same with other completion queues.
    pub fn endpoints_with(&mut self, spec: QpSpec, adjust: impl Fn(&mut [u8])) -> [Endpoint; 2] {
        [0, 1].map(|i| {
            let side = &mut self.sides[i];
            let send = side.create_cq_with(8, 64, &adjust);
            let receive = side.create_cq_with(8, 64, &adjust);
            let qp = side.create_qp(spec, &send, &receive);
            Endpoint { qp, send, receive }
        })
    }

    /// Brings queue pairs from reset to ready-to-send, each the other's peer.
    pub fn link(&mut self, endpoints: [Endpoint; 2], link: Link) -> [Endpoint; 2] {
        for i in 0..2 {
            let qpn = endpoints[1 - i].qp.qpn;
            let me = &endpoints[i];
            let side = &mut self.sides[i];
            side.move_to_init(&me.qp, (me.send.cqn, me.receive.cqn), &link)
                .expect("RST2INIT");
            side.move_to_rtr(&me.qp, (1 - i as u16, qpn), &link)
                .expect("INIT2RTR");
            side.move_to_rts(&me.qp, &link).expect("RTR2RTS");
        }
        endpoints
    }

    /// Lets both functions work and the wire carry until nothing more happens at this time.
    pub fn settle(&mut self) {
        loop {
            let mut busy = false;
            for i in 0..2 {
                busy |= self.sides[i].hca.run(self.now, 64);
                let output = self.sides[i].hca.take_output();
                for frame in output.frames {
                    let to = if self.loopback { i } else { 1 - i };
                    self.submit(to, frame);
                    busy = true;
                }
            }
            busy |= self.deliver();
            if !busy && self.wire.is_empty() {
                return;
            }
        }
    }

    fn submit(&mut self, to: usize, frame: Vec<u8>) {
        let number = self.frames;
        self.frames += 1;
        let delays = match &mut self.fault {
            Some(fault) => fault(number, &frame),
            None => vec![0],
        };
        for delay in delays {
            self.wire.push_back((delay, to, frame.clone()));
        }
    }

    /// Delivers what is due; what waits for others moves up.
    fn deliver(&mut self) -> bool {
        let mut delivered = false;
        let mut later = VecDeque::new();
        while let Some((delay, to, frame)) = self.wire.pop_front() {
            if delay > 0 && !(delivered && self.wire.is_empty()) {
                later.push_back((delay - 1, to, frame));
                continue;
            }
            self.sides[to].hca.receive(self.now, &frame);
            delivered = true;
        }
        self.wire = later;
        delivered
    }

    /// Settles, and goes on to the next deadline, until `done` or `limit` nanoseconds have passed.
    pub fn run_until(&mut self, limit: u64, mut done: impl FnMut(&mut Bench) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            let next = self
                .sides
                .iter()
                .filter_map(|side| side.hca.next_deadline())
                .min();
            match next {
                Some(time) if time <= end => self.now = self.now.max(time),
                _ => return false,
            }
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, nanoseconds: u64) {
        self.run_until(nanoseconds, |_| false);
        self.now += nanoseconds;
        self.settle();
    }
}

/// A queue pair with its completion queues.
pub struct Endpoint {
    pub qp: QpHandle,
    pub send: CqHandle,
    pub receive: CqHandle,
}
