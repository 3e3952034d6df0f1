// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Compressed completions, read as `mlx5e_decompress_cqes_start` and `_cont` do.

use connectx::cqfmt::compressed::Block;
use connectx::cqfmt::cqe::{Opcode as Kind, Tail};
use connectx::wqe::opcode::Opcode;
use connectx::{caps, field, ifc};

use crate::bench::*;

/// What one completion of a block says: opcode, counter, byte count.
type Said = (u8, u16, u32);

/// Format 1, the checksum.
const CHECKSUM: u32 = 1;

fn compressing(format: u32) -> impl Fn(&mut [u8]) {
    move |input: &mut [u8]| {
        ifc::set(
            input,
            field!(mlx5_ifc_create_cq_in_bits, cq_context.cqe_comp_en),
            1,
        );
        let field = field!(mlx5_ifc_create_cq_in_bits, cq_context.mini_cqe_res_format);
        ifc::set(input, field, format);
    }
}

/// Two connected queue pairs, the first of which completes into compressing queues of `1 << log_size` entries.
fn connected(log_size: u8, format: u32) -> (Bench, Endpoint, Endpoint) {
    let mut b = Bench::new();
    let [_, second] = b.endpoints(QpSpec::default());
    let side = &mut b.sides[0];
    let send = side.create_cq_with(log_size, 64, compressing(format));
    let receive = side.create_cq_with(log_size, 64, compressing(format));
    let qp = side.create_qp(QpSpec::default(), &send, &receive);
    let first = Endpoint { qp, send, receive };
    let [a, c] = b.link([first, second], Link::default());
    (b, a, c)
}

/// Takes what is at the consumer index: one entry, or a block. `None` if nothing is there.
fn take(side: &mut Side, cq: &mut CqHandle) -> Option<Vec<Said>> {
    let size = 1u32 << cq.log_size();
    let title = side.entry(cq, cq.ci);
    let tail = Tail::decode(title.last_chunk().unwrap());
    let round = (cq.ci >> cq.log_size()) & 1;
    if u32::from(tail.op_own & 1) != round || tail.opcode() == Kind::INVALID {
        return None;
    }
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut out = Vec::new();
    if tail.format() == 3 {
        let count = word(&title, 0x2c);
        let mut array = side.entry(cq, cq.ci + 1);
        for i in 0..count {
            // The next array is read where the consumer stands when it has used up the last one.
            if i != 0 && i % 8 == 0 {
                array = side.entry(cq, cq.ci + i);
            }
            let at = (i % 8) as usize * 8;
            let mini = &array[at..at + 8];
            let (opcode, counter) = if tail.opcode() == Kind::REQ {
                (mini[2], u16::from_be_bytes([mini[0], mini[1]]))
            } else {
                (0, tail.wqe_counter.wrapping_add(i as u16))
            };
            out.push((opcode, counter, word(mini, 4)));
        }
        // The module reads the same.
        let mut block = Block::open(&title, cq.ci, cq.log_size(), caps::CQE_COMPRESSION_MAX);
        let block = block.as_mut().expect("a block");
        for said in &out {
            let next = block.next(|at| side.entry(cq, at)).unwrap();
            let tail = next.tail;
            assert_eq!((tail.wqe_opcode, tail.wqe_counter, next.byte_cnt), *said);
        }
    } else {
        out.push((tail.wqe_opcode, tail.wqe_counter, word(&title, 0x2c)));
    }
    // All entries go back: those that were not written have a stale owner bit.
    for _ in 0..out.len() {
        let last = cq.place(cq.ci) + 63;
        side.write(last, &[0xf0 | ((cq.ci / size) & 1) as u8]);
        cq.ci += 1;
    }
    side.write(cq.record, &(cq.ci & 0xff_ffff).to_be_bytes());
    Some(out)
}

#[test]
fn sends_of_all_lengths_of_blocks_around_the_ring() {
    let (mut b, mut a, _c) = connected(5, CHECKSUM);
    for count in (1..=20).chain(1..=20) {
        let first = a.qp.pi;
        for _ in 0..count {
            b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
        }
        b.settle();
        assert_eq!(take(&mut b.sides[0], &mut a.send), None, "kept back");
        b.pass(caps::CQE_COMPRESSION_TIMEOUT);
        let want: Vec<Said> = (0..count).map(|i| (0, first.wrapping_add(i), 0)).collect();
        assert_eq!(take(&mut b.sides[0], &mut a.send), Some(want));
        assert_eq!(take(&mut b.sides[0], &mut a.send), None);
    }
    assert_eq!(b.sides[0].hca.io.counters.cqe_blocks, 38);
}

#[test]
fn a_block_has_a_limit_and_needs_fewer_writes() {
    let (mut b, mut a, _c) = connected(8, CHECKSUM);
    let most = caps::CQE_COMPRESSION_MAX as u16;
    let before = b.sides[0].hca.io.memory.writes(connectx::dma::Kind::Cqe);
    for _ in 0..most {
        b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
        b.settle();
    }
    let said = take(&mut b.sides[0], &mut a.send).expect("full, so written at once");
    assert_eq!(said.len(), usize::from(most));
    let after = b.sides[0].hca.io.memory.writes(connectx::dma::Kind::Cqe);
    assert_eq!(after.bytes - before.bytes, u64::from(most / 8 + 1) * 64);
}

#[test]
fn a_failure_ends_the_block_and_stands_alone() {
    let (mut b, mut a, _c) = connected(5, CHECKSUM);
    for _ in 0..3 {
        b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    }
    b.sides[0].post(&mut a.qp, Opcode(0x3f), 0, &[]);
    b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    b.settle();
    assert_eq!(take(&mut b.sides[0], &mut a.send).map(|s| s.len()), Some(3));
    for _ in 0..2 {
        failure(b.sides[0].poll(&mut a.send));
    }
    assert_eq!(b.sides[0].poll(&mut a.send), None);
}

#[test]
fn receives_of_different_lengths() {
    let (mut b, mut a, mut c) = connected(5, 0);
    let (src, dst) = (b.sides[1].alloc(4096), b.sides[0].alloc(4096));
    let lkey = b.sides[1].create_mkey(src, src, 4096, &[]);
    let to = b.sides[0].create_mkey(dst, dst, 4096, &[]);
    for _ in 0..9 {
        b.sides[0].post_receive(&mut a.qp, &[data(4096, to, dst)]);
    }
    for i in 0..9 {
        b.sides[1].post(&mut c.qp, Opcode::SEND, 0, &data(i * 3 + 1, lkey, src));
    }
    b.pass(1_000_000);
    let want: Vec<Said> = (0..9u16).map(|i| (0, i, u32::from(i) * 3 + 1)).collect();
    assert_eq!(take(&mut b.sides[0], &mut a.receive), Some(want));
}

#[test]
fn an_event_comes_with_the_block() {
    let (mut b, mut a, _c) = connected(5, CHECKSUM);
    b.sides[0].arm(&a.send, 0, false);
    for _ in 0..3 {
        b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    }
    b.settle();
    assert_eq!(b.sides[0].next_completion(), None);
    b.pass(caps::CQE_COMPRESSION_TIMEOUT);
    assert_eq!(b.sides[0].next_completion(), Some(a.send.cqn));
    assert_eq!(b.sides[0].next_completion(), None);
    assert_eq!(take(&mut b.sides[0], &mut a.send).map(|s| s.len()), Some(3));
}

#[test]
fn no_block_of_more_than_there_is_room_for() {
    let (mut b, mut a, _c) = connected(2, CHECKSUM);
    for _ in 0..5 {
        b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    }
    b.pass(caps::CQE_COMPRESSION_TIMEOUT);
    assert_eq!(take(&mut b.sides[0], &mut a.send).map(|s| s.len()), Some(4));
    assert_eq!(b.sides[0].next_async(), Some((4, a.send.cqn)), "overrun");
}

#[test]
fn what_the_device_does_not_have_is_refused() {
    let mut b = Bench::new();
    let layout = field!(
        mlx5_ifc_create_cq_in_bits,
        cq_context.cqe_compression_layout
    );
    let format = field!(mlx5_ifc_create_cq_in_bits, cq_context.mini_cqe_res_format);
    let side = &mut b.sides[0];
    assert_eq!(side.try_create_cq(4, 128, compressing(0)).err(), Some(3));
    for (field, value) in [(layout, 1), (format, 3)] {
        let refused = side.try_create_cq(4, 64, |input| {
            compressing(0)(input);
            ifc::set(input, field, value);
        });
        assert_eq!(refused.err(), Some(3));
    }
}
