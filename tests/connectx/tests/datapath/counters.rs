// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sets of Q counters: what the driver shows as `hw_counters` of a port.

use connectx::ifc::Field;
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc, size};

use crate::bench::*;

macro_rules! counter {
    ($name:ident) => {
        field!(mlx5_ifc_query_q_counter_out_bits, $name)
    };
}

/// A pair whose sides count in a set each.
struct Counting {
    p: Pair,
    sets: [u32; 2],
}

impl Counting {
    fn new(link: Link) -> Self {
        let mut b = Bench::new();
        // The first set that a driver gets is number 1.
        let sets = [0, 1].map(|i| alloc(&mut b.sides[i]));
        assert_eq!(sets[0], sets[1]);
        let link = Link {
            counters: sets[0],
            ..link
        };
        let [a, c] = b.connect(QpSpec::default(), link);
        let (src, dst) = (b.sides[0].alloc(8192), b.sides[1].alloc(8192));
        let lkey = b.sides[0].create_mkey(src, src, 8192, &[]);
        let rkey = b.sides[1].create_mkey(dst, dst, 8192, &[]);
        let p = Pair {
            b,
            a,
            c,
            src,
            dst,
            lkey,
            rkey,
        };
        Counting { p, sets }
    }

    fn count(&mut self, side: usize, counter: Field) -> u32 {
        let mut input = command(0x773, size!(mlx5_ifc_query_q_counter_in_bits));
        let set = field!(mlx5_ifc_query_q_counter_in_bits, counter_set_id);
        ifc::set(&mut input, set, self.sets[side]);
        let len = size!(mlx5_ifc_query_q_counter_out_bits);
        let out = self.p.b.sides[side]
            .cmd(&input, len)
            .expect("QUERY_Q_COUNTER");
        ifc::get(&out, counter)
    }

    /// A WRITE to this key; goes on until it has completed.
    fn write(&mut self, len: u32, rkey: u32) {
        let p = &mut self.p;
        let segments = [remote(p.dst, rkey), data(len, p.lkey, p.src)].concat();
        p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &segments);
        let before = p.b.sides[0].hca.io.counters.cqes;
        let done = |b: &mut Bench| b.sides[0].hca.io.counters.cqes > before;
        assert!(p.b.run_until(10_000_000_000, done));
    }
}

fn alloc(side: &mut Side) -> u32 {
    let out = side.simple(0x771, 0).expect("ALLOC_Q_COUNTER");
    ifc::get(
        &out,
        field!(mlx5_ifc_alloc_q_counter_out_bits, counter_set_id),
    )
}

#[test]
fn requests_are_counted_where_they_arrive() {
    let mut n = Counting::new(Link::default());
    n.write(3000, n.p.rkey);
    n.write(1, n.p.rkey);
    let p = &mut n.p;
    let read = [remote(p.dst, p.rkey), data(100, p.lkey, p.src)].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_READ, 0, &read);
    let operands = [[0; 16], data(8, p.lkey, p.src)].concat();
    let atomic = [remote(p.dst, p.rkey).as_slice(), &operands].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::ATOMIC_FA, 0, &atomic);
    p.b.settle();
    for (counter, count) in [
        (counter!(rx_write_requests), 2),
        (counter!(rx_read_requests), 1),
        (counter!(rx_atomic_requests), 1),
    ] {
        assert_eq!(n.count(1, counter), count, "{counter:?}");
        assert_eq!(n.count(0, counter), 0, "{counter:?}");
    }
}

#[test]
fn what_is_lost_is_counted_on_both_sides() {
    // The second packet of a message: the third comes too early.
    let mut n = Counting::new(Link::default());
    n.p.b
        .set_fault(|number, _| if number == 1 { vec![] } else { vec![0] });
    n.write(3000, n.p.rkey);
    assert_eq!(n.count(1, counter!(out_of_sequence)), 1);
    assert_eq!(n.count(0, counter!(packet_seq_err)), 1);
    assert_eq!(n.count(0, counter!(local_ack_timeout_err)), 0);

    // The acknowledgment: time tells, and the request comes twice.
    let mut n = Counting::new(Link::default());
    n.p.b
        .set_fault(|number, _| if number == 1 { vec![] } else { vec![0] });
    n.write(100, n.p.rkey);
    assert_eq!(n.count(0, counter!(local_ack_timeout_err)), 1);
    assert_eq!(n.count(1, counter!(duplicate_request)), 1);

    // The answer to a READ, while that to the next request comes.
    let mut n = Counting::new(Link::default());
    n.p.b
        .set_fault(|number, _| if number == 2 { vec![] } else { vec![0] });
    let p = &mut n.p;
    let read = [remote(p.dst, p.rkey), data(100, p.lkey, p.src)].concat();
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_READ, 0, &read);
    n.write(100, n.p.rkey);
    assert_eq!(n.count(0, counter!(implied_nak_seq_err)), 1);
}

#[test]
fn refusals_are_counted() {
    let mut n = Counting::new(Link {
        rnr_retry: 2,
        ..Link::default()
    });
    let p = &mut n.p;
    p.b.sides[0].post(&mut p.a.qp, Opcode::SEND, 0, &inline(b"x"));
    assert!(p
        .b
        .run_until(10_000_000_000, |b| b.sides[0].hca.io.counters.cqes == 1));
    assert_eq!(n.count(1, counter!(out_of_buffer)), 3);
    assert_eq!(n.count(0, counter!(rnr_nak_retry_err)), 1);

    let mut n = Counting::new(Link::default());
    n.write(100, n.p.rkey ^ 0x100_0000);
    assert_eq!(n.count(0, counter!(req_remote_access_errors)), 1);
    assert_eq!(n.count(1, counter!(resp_remote_access_errors)), 1);
}

#[test]
fn a_query_may_clear_and_may_add_up() {
    let mut n = Counting::new(Link::default());
    n.write(100, n.p.rkey);
    let side = &mut n.p.b.sides[1];
    let len = size!(mlx5_ifc_query_q_counter_out_bits);
    let mut all = command(0x773, size!(mlx5_ifc_query_q_counter_in_bits));
    let mut one = all.clone();
    let aggregate = field!(mlx5_ifc_query_q_counter_in_bits, aggregate);
    ifc::set(&mut all, aggregate, 1);
    let set = field!(mlx5_ifc_query_q_counter_in_bits, counter_set_id);
    ifc::set(&mut one, set, n.sets[1]);
    ifc::set(&mut one, field!(mlx5_ifc_query_q_counter_in_bits, clear), 1);
    for (input, want) in [(&all, 1), (&one, 1), (&one, 0), (&all, 0)] {
        let out = side.cmd(input, len).expect("QUERY_Q_COUNTER");
        assert_eq!(ifc::get(&out, counter!(rx_write_requests)), want);
    }
}
