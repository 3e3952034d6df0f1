// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The order of a post: the WQE, the doorbell record, the doorbell. All through the registers, as a driver does it.

use connectx::uar::HOLD;
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// A queue pair, and where its doorbells are rung.
struct Post {
    p: Pair,
    register: u64,
}

impl Post {
    /// Whose doorbell register was never written.
    fn new() -> Self {
        let p = Pair::new(Link::default(), 4096);
        let register = u64::from(p.b.sides[0].uar) * 4096 + 0x800;
        Post { p, register }
    }

    /// Writes a WQE that does nothing, and the record; returns how the WQE begins.
    fn place(&mut self) -> [u8; 8] {
        let (_, head) = self.p.b.sides[0].place(&mut self.p.a.qp, Opcode::NOP, SIGNALED, 0, &[]);
        head
    }

    fn set_record(&mut self, counter: u16) {
        self.p.b.sides[0].set_send_counter(&self.p.a.qp, counter);
    }

    /// Writes `bytes` to the register from byte `at` on. The device does not come to work before `done`.
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let now = self.p.b.now;
        self.p.b.sides[0]
            .hca
            .mmio_write(now, self.register + at, bytes);
    }

    /// Lets so much time pass that no doorbell is held any more.
    fn wait(&mut self) {
        self.p.b.pass(2 * HOLD);
    }

    /// Waits, and takes the completions.
    fn done(&mut self) -> Vec<u16> {
        self.wait();
        let mut done = vec![];
        while let Some(cqe) = self.p.b.sides[0].poll(&mut self.p.a.send) {
            done.push(success(Some(cqe)).tail.wqe_counter);
        }
        done
    }
}

#[test]
fn a_record_that_is_written_after_the_doorbell_waits_for_the_next() {
    // On a register that is held, and on one that has shown that it need not be.
    for doorbells_before in [0, 8] {
        let mut post = Post::new();
        for index in 0..doorbells_before {
            let head = post.place();
            post.write(0, &head);
            assert_eq!(post.done(), [index]);
        }
        let head = post.place();
        post.set_record(doorbells_before);
        post.write(0, &head);
        post.set_record(doorbells_before + 1);
        assert!(
            post.done().is_empty(),
            "behind {doorbells_before} doorbells"
        );
        let head = post.place();
        post.write(0, &head);
        assert_eq!(post.done(), [doorbells_before, doorbells_before + 1]);
    }
}

#[test]
fn doorbells_that_end_each_others_wait_show_each_what_was_posted() {
    let mut post = Post::new();
    for half in [0, 0x100, 0, 0, 0x100] {
        let head = post.place();
        post.write(half, &head);
    }
    assert_eq!(post.done(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_copy_is_taken_whole_and_what_is_left_of_one_is_fetched() {
    for (bytes, from_copy) in [(64, 1), (32, 0), (8, 0)] {
        let mut post = Post::new();
        let mut wqe = post.place().to_vec();
        let ring = post.p.a.qp.sq;
        wqe.extend(&post.p.b.sides[0].read(ring, 64)[8..]);
        for (at, part) in (0..).step_by(8).zip(wqe[..bytes].chunks(8)) {
            post.write(at, part);
        }
        assert_eq!(post.done(), [0], "{bytes} bytes");
        let io = &post.p.b.sides[0].hca.io;
        assert_eq!(io.counters.wqes_from_blueflame, from_copy, "{bytes} bytes");
        let records = io.memory.reads(connectx::dma::Kind::DoorbellRecord);
        assert_eq!(records.accesses, 1, "{bytes} bytes");
    }
}
