// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operations beyond WRITE and SEND: READ, atomics, fences, unreliable connections, shared receive queues.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::wqe::atomic::{Atomic, MaskedAtomic};
use connectx::wqe::ctrl::{Fence, Flags, Signal};
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc, size};

use crate::bench::*;

#[test]
fn a_read_brings_data_of_any_size() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (dst, src) = (b.sides[0].alloc(1 << 20), b.sides[1].alloc(1 << 20));
    let lkey = b.sides[0].create_mkey(dst, dst, 1 << 20, &[]);
    let rkey = b.sides[1].create_mkey(src, src, 1 << 20, &[]);
    let whole = b.sides[1].pattern(src, 1 << 20, 9);
    for (i, len) in [1usize, 1024, 1025, 5000, 700_000].into_iter().enumerate() {
        let from = 17 * i;
        let segments = [remote(src + from as u64, rkey), data(len as u32, lkey, dst)].concat();
        b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &segments);
        b.settle();
        let done = success(b.sides[0].poll(&mut a.send));
        assert_eq!(done.byte_cnt, len as u32);
        assert!(
            b.sides[0].read(dst, len) == whole[from..from + len],
            "{len}"
        );
    }
    // Reads and writes in a row, more than may be on their way at a time.
    for i in 0..20u64 {
        let segments = [remote(src + i, rkey), data(3000, lkey, dst + 3000 * i)].concat();
        b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &segments);
        let segments = [remote(src + 900_000, rkey).to_vec(), inline(&[i as u8])].concat();
        b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &segments);
    }
    b.settle();
    for i in 0..20usize {
        success(b.sides[0].poll(&mut a.send));
        success(b.sides[0].poll(&mut a.send));
        let got = b.sides[0].read(dst + 3000 * i as u64, 3000);
        assert!(got == whole[i..i + 3000], "read {i}");
    }
}

#[test]
fn a_read_needs_its_rights() {
    let read = field!(mlx5_ifc_mkc_bits, rr);
    for by_key in [true, false] {
        let mut b = Bench::new();
        let link = Link {
            rights: (by_key, true, true),
            ..Link::default()
        };
        let [mut a, _c] = b.connect(QpSpec::default(), link);
        let (dst, src) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
        let lkey = b.sides[0].create_mkey(dst, dst, 4096, &[]);
        let without: &[_] = if by_key { &[read] } else { &[] };
        let rkey = b.sides[1].create_mkey(src, src, 4096, without);
        let segments = [remote(src, rkey), data(8, lkey, dst)].concat();
        b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &segments);
        b.settle();
        assert_eq!(
            syndrome(b.sides[0].poll(&mut a.send)),
            Syndrome::REMOTE_ACCESS
        );
    }
}

#[test]
fn atomics_return_the_old_value_and_change_the_new() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (dst, word) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
    let lkey = b.sides[0].create_mkey(dst, dst, 4096, &[]);
    let rkey = b.sides[1].create_mkey(word, word, 4096, &[]);
    let plain = |swap_add, compare| Atomic { swap_add, compare }.encode().to_vec();
    let masked = |swap_add, compare, swap_add_mask, compare_mask| {
        MaskedAtomic {
            swap_add,
            compare,
            swap_add_mask,
            compare_mask,
        }
        .encode()
        .to_vec()
    };
    // Operands in memory are in the host's order.
    b.sides[1].write(word, &100u64.to_le_bytes());
    for (opcode, operands, old, new) in [
        (Opcode::ATOMIC_FA, plain(5, 0), 100u64, 105u64),
        (Opcode::ATOMIC_CS, plain(7, 100), 105, 105),
        (Opcode::ATOMIC_CS, plain(7, 105), 105, 7),
        (Opcode::ATOMIC_FA, plain(u64::MAX, 0), 7, 6),
        (
            Opcode::ATOMIC_MASKED_CS,
            masked(0xff00, 0x06, 0xff00, 0x0f),
            6,
            0xff06,
        ),
        (
            Opcode::ATOMIC_MASKED_FA,
            plain(0x0101, 0x8080),
            0xff06,
            0x0007,
        ),
    ] {
        let segments = [
            remote(word, rkey).to_vec(),
            operands,
            data(8, lkey, dst).to_vec(),
        ]
        .concat();
        b.sides[0].post(&mut a.qp, opcode, 0, &segments);
        b.settle();
        success(b.sides[0].poll(&mut a.send));
        let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(number(b.sides[0].read(dst, 8)), old, "{opcode:?}");
        assert_eq!(number(b.sides[1].read(word, 8)), new, "{opcode:?}");
    }
}

#[test]
fn an_atomic_is_aligned_and_allowed() {
    let no_atomics = field!(mlx5_ifc_mkc_bits, a);
    for (addr, by_key, want) in [
        (4, false, Syndrome::REMOTE_INVALID_REQUEST),
        (8, true, Syndrome::REMOTE_ACCESS),
    ] {
        let mut b = Bench::new();
        let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
        let (dst, word) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
        let lkey = b.sides[0].create_mkey(dst, dst, 4096, &[]);
        let without: &[_] = if by_key { &[no_atomics] } else { &[] };
        let rkey = b.sides[1].create_mkey(word, word, 4096, without);
        let operands = Atomic {
            swap_add: 1,
            compare: 0,
        };
        let segments = [
            remote(word + addr, rkey),
            operands.encode(),
            data(8, lkey, dst),
        ]
        .concat();
        b.sides[0].post(&mut a.qp, Opcode::ATOMIC_FA, 0, &segments);
        b.settle();
        assert_eq!(syndrome(b.sides[0].poll(&mut a.send)), want);
    }
}

#[test]
fn a_fence_waits_for_a_read() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let (dst, src) = (b.sides[0].alloc(4096), b.sides[1].alloc(4096));
    let lkey = b.sides[0].create_mkey(dst, dst, 4096, &[]);
    let rkey = b.sides[1].create_mkey(src, src, 4096, &[]);
    b.sides[1].pattern(src, 4096, 3);
    // What is read into `dst` goes back from there: without the fence, old bytes would leave.
    let read = [remote(src, rkey), data(64, lkey, dst)].concat();
    let write = [remote(src + 1024, rkey), data(64, lkey, dst)].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_READ, 0, &read);
    let fenced = Flags::new(Fence::Fence, Signal::Always, false);
    b.sides[0].post_with(&mut a.qp, Opcode::RDMA_WRITE, fenced, 0, &write);
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    success(b.sides[0].poll(&mut a.send));
    assert_eq!(b.sides[1].read(src, 64), b.sides[1].read(src + 1024, 64));
}

#[test]
fn an_unreliable_connection_delivers_or_forgets() {
    let mut b = Bench::new();
    let spec = QpSpec {
        service: 1,
        ..QpSpec::default()
    };
    let [mut a, mut c] = b.connect(spec, Link::default());
    let (src, dst) = (b.sides[0].alloc(8192), b.sides[1].alloc(8192));
    let lkey = b.sides[0].create_mkey(src, src, 8192, &[]);
    let key = b.sides[1].create_mkey(dst, dst, 8192, &[]);
    let whole = b.sides[0].pattern(src, 8192, 4);
    b.sides[1].post_receive(&mut c.qp, &[data(8192, key, dst)]);
    b.sides[1].post_receive(&mut c.qp, &[data(8192, key, dst)]);
    // The second packet of the first message is lost: the receive stays for the next message.
    b.set_fault(|number, _| if number == 1 { vec![] } else { vec![0] });
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &data(3000, lkey, src));
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &data(5000, lkey, src));
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    success(b.sides[0].poll(&mut a.send));
    let received = success(b.sides[1].poll(&mut c.receive));
    assert_eq!((received.byte_cnt, received.tail.wqe_counter), (5000, 0));
    assert!(b.sides[1].poll(&mut c.receive).is_none());
    assert!(b.sides[1].read(dst, 5000) == whole[..5000]);
}

#[test]
fn a_shared_receive_queue_serves_in_list_order() {
    let mut b = Bench::new();
    let side = &mut b.sides[1];
    let (ring, record) = (side.alloc(4096), side.alloc(8));
    let dst = side.alloc(4096);
    let key = side.create_mkey(dst, dst, 4096, &[]);
    let mut input = command(0x90c, size!(mlx5_ifc_create_rmp_in_bits));
    let wq = [
        (field!(mlx5_ifc_create_rmp_in_bits, ctx.state), 1),
        (field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.pd), side.pd),
        (field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.log_wq_stride), 5),
        (field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.log_wq_sz), 2),
        (field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.lwm), 1),
    ];
    for (field, value) in wq {
        ifc::set(&mut input, field, value);
    }
    ifc::set64(
        &mut input,
        field!(mlx5_ifc_create_rmp_in_bits, ctx.wq.dbr_addr),
        record,
    );
    input.extend(ring.to_be_bytes());
    let out = side.cmd(&input, 0x10).expect("CREATE_RMP");
    let srqn = ifc::get(&out, field!(mlx5_ifc_create_rmp_out_bits, rmpn));
    // The list goes 0, 2, 1, 3.
    for (index, next, at) in [(0u64, 2u8, 0u64), (2, 1, 100), (1, 3, 200)] {
        let mut wqe = vec![0, 0, 0, next, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        wqe.extend(data(16, key, dst + at));
        side.write(ring + index * 32, &wqe);
    }
    side.write(record, &3u32.to_be_bytes());

    let spec = QpSpec {
        srqn: Some(srqn),
        ..QpSpec::default()
    };
    let [first, _] = b.endpoints(QpSpec::default());
    let send = b.sides[1].create_cq(4, 64);
    let receive = b.sides[1].create_cq(4, 64);
    let qp = b.sides[1].create_qp(spec, &send, &receive);
    let second = Endpoint { qp, send, receive };
    let [mut a, mut c] = b.link([first, second], Link::default());
    for text in [b"one", b"two", b"six"] {
        b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &inline(text));
    }
    b.settle();
    for (index, at, text) in [(0u16, 0, b"one"), (2, 100, b"two"), (1, 200, b"six")] {
        success(b.sides[0].poll(&mut a.send));
        let received = success(b.sides[1].poll(&mut c.receive));
        assert_eq!(received.tail.wqe_counter, index);
        assert_eq!(received.srqn, srqn);
        assert_eq!(b.sides[1].read(dst + at, 3), text);
    }
    // The limit was 1, and nothing is left.
    let limit = std::iter::from_fn(|| b.sides[1].next_async()).find(|(kind, _)| *kind == 0x14);
    assert_eq!(limit, Some((0x14, srqn)));
    // In error, the last receive is announced.
    b.sides[1].simple(0x507, c.qp.qpn).expect("2ERR");
    assert_eq!(b.sides[1].next_async(), Some((0x13, c.qp.qpn)));
}
