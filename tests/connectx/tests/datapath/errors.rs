// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Refusals as on a card: each with its syndrome, the queue pair in error, everything else flushed in order.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::field;
use connectx::wqe::opcode::Opcode;

use crate::bench::*;

/// Event types of queue pairs.
const CATASTROPHIC: u8 = 0x05;
const INVALID_REQUEST: u8 = 0x10;
const ACCESS_ERROR: u8 = 0x11;

fn pair(link: Link) -> Pair {
    Pair::new(link, 8192)
}

impl Pair {
    /// Posts a WQE that fails and one behind it; checks the syndrome, the flush, and that a later one is flushed too.
    pub fn expect(&mut self, opcode: Opcode, segments: &[u8], want: Syndrome, what: &str) {
        let index = self.b.sides[0].post_with(&mut self.a.qp, opcode, SILENT, 0, segments);
        let behind = self.b.sides[0].post(&mut self.a.qp, Opcode::NOP, 0, &[]);
        assert!(
            self.b
                .run_until(5_000_000_000, |b| b.sides[0].hca.io.counters.cqes >= 2),
            "{what}: no completion"
        );
        let first = failure(self.b.sides[0].poll(&mut self.a.send));
        assert_eq!(first.syndrome, want, "{what}");
        assert_eq!(first.tail.wqe_counter, index, "{what}");
        assert_eq!(first.tail.wqe_opcode, opcode.0, "{what}");
        assert_ne!(first.vendor_syndrome, 0, "{what}");
        let flushed = failure(self.b.sides[0].poll(&mut self.a.send));
        assert_eq!(flushed.syndrome, Syndrome::FLUSHED, "{what}");
        assert_eq!(flushed.tail.wqe_counter, behind, "{what}");
        let later = self.b.sides[0].post(&mut self.a.qp, Opcode::NOP, 0, &[]);
        self.b.settle();
        let flushed = failure(self.b.sides[0].poll(&mut self.a.send));
        assert_eq!(flushed.syndrome, Syndrome::FLUSHED, "{what}");
        assert_eq!(flushed.tail.wqe_counter, later, "{what}");
        assert!(self.b.sides[0].poll(&mut self.a.send).is_none(), "{what}");
    }
}

#[test]
fn a_local_key_is_checked() {
    let read = field!(mlx5_ifc_mkc_bits, lr);
    for what in [
        "unknown",
        "variant",
        "beyond",
        "before",
        "no right",
        "other domain",
        "free",
    ] {
        let mut p = pair(Link::default());
        let (mut key, mut addr) = (p.lkey, p.src);
        match what {
            "unknown" => key += 0x100_0000,
            "variant" => key ^= 1,
            "beyond" => addr = p.src + 8192 - 15,
            "before" => addr = p.src - 1,
            "no right" => key = p.b.sides[0].create_mkey(p.src, p.src, 8192, &[read]),
            "other domain" => {
                let pd = p.b.sides[0].alloc_object(0x800);
                let own = std::mem::replace(&mut p.b.sides[0].pd, pd);
                key = p.b.sides[0].create_mkey(p.src, p.src, 8192, &[]);
                p.b.sides[0].pd = own;
            }
            _ => {
                let (src, pd) = (p.src, p.b.sides[0].pd);
                key = p.b.sides[0]
                    .create_mkey_with(src, src, 8192, |c| {
                        connectx::ifc::set(c, field!(mlx5_ifc_mkc_bits, pd), pd);
                        connectx::ifc::set(c, field!(mlx5_ifc_mkc_bits, free), 1);
                    })
                    .unwrap();
            }
        }
        let segments = [remote(p.dst, p.rkey), data(16, key, addr)].concat();
        p.expect(
            Opcode::RDMA_WRITE,
            &segments,
            Syndrome::LOCAL_PROTECTION,
            what,
        );
        assert_eq!(
            p.b.sides[1].next_news(),
            None,
            "{what}: the peer saw nothing"
        );
    }
}

#[test]
fn a_remote_key_is_checked() {
    let write = field!(mlx5_ifc_mkc_bits, rw);
    for what in [
        "unknown",
        "beyond",
        "wraps",
        "no right",
        "other domain",
        "other function",
        "queue pair",
    ] {
        let rights = (true, what != "queue pair", true);
        let mut p = pair(Link {
            rights,
            ..Link::default()
        });
        let (mut key, mut addr) = (p.rkey, p.dst);
        match what {
            "unknown" => key += 0x100_0000,
            "beyond" => addr = p.dst + 8192 - 15,
            "wraps" => addr = u64::MAX - 3,
            "no right" => key = p.b.sides[1].create_mkey(p.dst, p.dst, 8192, &[write]),
            "other domain" => {
                let pd = p.b.sides[1].alloc_object(0x800);
                let own = std::mem::replace(&mut p.b.sides[1].pd, pd);
                key = p.b.sides[1].create_mkey(p.dst, p.dst, 8192, &[]);
                p.b.sides[1].pd = own;
            }
            // The sender's own, to the same addresses of its own memory.
            "other function" => key = p.b.sides[0].create_mkey(p.dst, p.dst, 8192, &[]),
            _ => {}
        }
        p.b.sides[1].post_receive(&mut p.c.qp, &[data(64, p.rkey, p.dst)]);
        let before = p.b.sides[1].read(p.dst, 8192);
        let segments = [remote(addr, key), data(16, p.lkey, p.src)].concat();
        p.expect(Opcode::RDMA_WRITE, &segments, Syndrome::REMOTE_ACCESS, what);
        let qpn = p.c.qp.qpn;
        assert_eq!(
            p.b.sides[1].next_news(),
            Some((ACCESS_ERROR, qpn)),
            "{what}"
        );
        assert_eq!(
            syndrome(p.b.sides[1].poll(&mut p.c.receive)),
            Syndrome::FLUSHED,
            "{what}: the peer is in error too"
        );
        assert!(p.b.sides[1].read(p.dst, 8192) == before, "{what}");
    }
}

#[test]
fn a_message_that_is_too_long_fails_on_both_sides() {
    let mut p = pair(Link::default());
    p.b.sides[1].post_receive(&mut p.c.qp, &[data(1500, p.rkey, p.dst)]);
    p.b.sides[1].post_receive(&mut p.c.qp, &[data(1500, p.rkey, p.dst)]);
    p.expect(
        Opcode::SEND,
        &data(1501, p.lkey, p.src),
        Syndrome::REMOTE_INVALID_REQUEST,
        "too long",
    );
    let side = &mut p.b.sides[1];
    assert_eq!(
        syndrome(side.poll(&mut p.c.receive)),
        Syndrome::LOCAL_LENGTH
    );
    assert_eq!(syndrome(side.poll(&mut p.c.receive)), Syndrome::FLUSHED);
    assert_eq!(side.next_news(), Some((INVALID_REQUEST, p.c.qp.qpn)));
}

#[test]
fn a_receive_that_may_not_be_written_is_a_remote_operation_error() {
    let mut p = pair(Link::default());
    p.b.sides[1].post_receive(&mut p.c.qp, &[data(64, p.rkey + 0x100_0000, p.dst)]);
    p.expect(
        Opcode::SEND,
        &inline(b"x"),
        Syndrome::REMOTE_OPERATION,
        "receive key",
    );
    assert_eq!(
        syndrome(p.b.sides[1].poll(&mut p.c.receive)),
        Syndrome::LOCAL_PROTECTION
    );
}

#[test]
fn without_a_receive_the_sender_waits_and_gives_up() {
    let mut p = pair(Link {
        min_rnr: 12,
        rnr_retry: 2,
        ..Link::default()
    });
    let start = p.b.now;
    p.expect(
        Opcode::SEND,
        &inline(b"x"),
        Syndrome::RNR_RETRY_EXCEEDED,
        "no receive",
    );
    // Code 12: 0.64 ms, twice.
    let waited = p.b.now - start;
    assert!((1_280_000..2_000_000).contains(&waited), "{waited} ns");
}

#[test]
fn a_late_receive_is_found() {
    let mut p = pair(Link {
        rnr_retry: 7,
        ..Link::default()
    });
    p.b.sides[0].post(&mut p.a.qp, Opcode::SEND, 0, &inline(b"patience"));
    p.b.pass(50_000_000);
    assert!(p.b.sides[0].poll(&mut p.a.send).is_none());
    p.b.sides[1].post_receive(&mut p.c.qp, &[data(64, p.rkey, p.dst)]);
    assert!(p
        .b
        .run_until(1_000_000, |b| b.sides[0].hca.io.counters.cqes == 1));
    success(p.b.sides[0].poll(&mut p.a.send));
    success(p.b.sides[1].poll(&mut p.c.receive));
    assert_eq!(p.b.sides[1].read(p.dst, 8), b"patience");
}

#[test]
fn a_peer_that_is_not_there_is_noticed_by_time() {
    let mut p = pair(Link {
        ack_timeout: 10,
        retry_count: 3,
        ..Link::default()
    });
    p.b.sides[1].simple(0x501, p.c.qp.qpn).expect("DESTROY_QP");
    let start = p.b.now;
    let segments = [remote(p.dst, p.rkey).to_vec(), inline(b"x")].concat();
    p.expect(
        Opcode::RDMA_WRITE,
        &segments,
        Syndrome::TRANSPORT_RETRY_EXCEEDED,
        "no peer",
    );
    // 4.096 us * 2^10, once and three times again.
    let waited = p.b.now - start;
    assert!((16_700_000..25_000_000).contains(&waited), "{waited} ns");
}

#[test]
fn what_cannot_be_executed_is_a_local_error() {
    for (what, opcode, segments) in [
        ("unknown opcode", Opcode(0x3f), vec![]),
        ("no remote address", Opcode::RDMA_WRITE, vec![]),
        ("LSO", Opcode::LSO, vec![0; 16]),
    ] {
        let mut p = pair(Link::default());
        p.expect(opcode, &segments, Syndrome::LOCAL_QP_OPERATION, what);
    }
}

#[test]
fn a_send_queue_that_is_overrun_is_a_hardware_error() {
    let mut p = pair(Link::default());
    p.b.sides[0].set_send_counter(&p.a.qp, 65);
    p.b.sides[0].ring(&p.a.qp, 0);
    p.b.settle();
    let qpn = p.a.qp.qpn;
    assert_eq!(p.b.sides[0].next_news(), Some((CATASTROPHIC, qpn)));
    assert!(p.b.sides[0].poll(&mut p.a.send).is_none());
}

#[test]
fn what_was_done_before_completes_before_the_failure() {
    let mut p = pair(Link::default());
    let good = [remote(p.dst, p.rkey).to_vec(), inline(b"x")].concat();
    let bad = [remote(p.dst, p.rkey), data(1, 0xdead_0000, 0)].concat();
    for _ in 0..3 {
        p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &good);
    }
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &bad);
    p.b.sides[0].post(&mut p.a.qp, Opcode::RDMA_WRITE, 0, &good);
    p.b.settle();
    for _ in 0..3 {
        success(p.b.sides[0].poll(&mut p.a.send));
    }
    let side = &mut p.b.sides[0];
    assert_eq!(
        syndrome(side.poll(&mut p.a.send)),
        Syndrome::LOCAL_PROTECTION
    );
    assert_eq!(syndrome(side.poll(&mut p.a.send)), Syndrome::FLUSHED);
}
