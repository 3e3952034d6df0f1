// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the send queue.

use super::*;
use crate::dma::GuestMemory;
use crate::wqe::opcode::Opcode;

const RECORD: u64 = 0x3000;

struct Bench {
    io: Io,
    buffer: QueueBuffer,
    ring: SendRing,
}

impl Bench {
    /// A ring of 4 blocks at 0x1000.
    fn new() -> Self {
        let mut io = Io::new(None);
        io.memory = GuestMemory::anonymous(0, 0x4000);
        Bench {
            io,
            buffer: QueueBuffer::new(vec![0x1000], 0, 0, 0x100).unwrap(),
            ring: SendRing::new(2, 0),
        }
    }

    fn put(&mut self, index: u16, ds: u8, fill: u8) {
        let head = Head {
            opmod: 0,
            index,
            opcode: Opcode::NOP,
            qpn: 1,
            ds,
        };
        let mut bytes = vec![fill; usize::from(blocks(ds).max(1)) * BB];
        bytes[..8].copy_from_slice(&head.encode());
        for (i, block) in bytes.chunks(BB).enumerate() {
            let slot = (u64::from(index) + i as u64) & 3;
            self.io
                .memory
                .write(Kind::Payload, 0x1000 + slot * 64, block)
                .unwrap();
        }
    }

    fn post(&mut self, counter: u16) {
        let word = u32::from(counter).to_be_bytes();
        self.io
            .memory
            .write(Kind::Payload, RECORD + 4, &word)
            .unwrap();
    }

    fn next(&mut self) -> Option<Fetched> {
        self.ring.poll(&mut self.io, RECORD).unwrap();
        self.ring.fetch(&mut self.io, &self.buffer).unwrap()
    }
}

#[test]
fn a_doorbell_without_its_record_fetches_nothing() {
    let mut b = Bench::new();
    b.put(0, 1, 1);
    b.ring.ring(0, None);
    assert_eq!(b.next(), None);
    b.post(1);
    assert_eq!(b.next(), None, "the record is read on a doorbell only");
    b.ring.ring(0, None);
    assert_eq!(b.next().map(|f| f.index), Some(0));
}

#[test]
fn a_record_written_after_a_doorbell_that_came_alone_does_not_count() {
    let mut b = Bench::new();
    b.put(0, 1, 1);
    b.ring.see(&b.io, RECORD);
    b.post(1);
    b.ring.ring_alone();
    assert_eq!(b.next(), None);
    b.ring.see(&b.io, RECORD);
    b.ring.ring_alone();
    assert_eq!(b.next().map(|f| f.index), Some(0));
    assert_eq!(b.io.memory.reads(Kind::DoorbellRecord).accesses, 2);
}

#[test]
fn what_was_seen_is_forgotten_when_the_record_is_read() {
    let mut b = Bench::new();
    b.put(0, 1, 1);
    b.put(1, 1, 1);
    b.post(1);
    b.ring.see(&b.io, RECORD);
    // By another register.
    b.post(2);
    b.ring.ring(1, None);
    assert_eq!(b.next().map(|f| f.index), Some(0));
    b.ring.ring_alone();
    assert_eq!(b.next().map(|f| f.index), Some(1));
    assert_eq!(b.ring.posted(), 2);
}

#[test]
fn wqes_wrap_at_the_end_of_the_ring_and_of_the_counter() {
    let mut b = Bench::new();
    let mut index = 0u16;
    for round in 0..50_000u32 {
        let ds = (round % 12 + 1) as u8;
        b.put(index, ds, round as u8);
        let next = index.wrapping_add(blocks(ds));
        b.post(next);
        b.ring.ring(index, None);
        let f = b.next().unwrap();
        assert_eq!((f.index, f.blocks), (index, blocks(ds)));
        let bytes = f.bytes.unwrap();
        assert_eq!(bytes.len(), usize::from(ds) * DS);
        assert!(bytes[8..].iter().all(|b| *b == round as u8));
        b.ring.complete(next);
        index = next;
    }
}

#[test]
fn an_overrun_is_an_error() {
    let mut b = Bench::new();
    b.post(5);
    b.ring.ring(0, None);
    assert_eq!(b.ring.poll(&mut b.io, RECORD), Err(RingError::Overrun));
}

#[test]
fn lengths_that_make_no_sense_take_one_block() {
    let mut b = Bench::new();
    b.put(0, 0, 0);
    b.put(1, 9, 0);
    b.post(3);
    b.ring.ring(0, None);
    for index in [0, 1] {
        let f = b.next().unwrap();
        assert_eq!((f.index, f.blocks, f.bytes), (index, 1, None));
    }
}

#[test]
fn a_whole_copy_replaces_the_fetch() {
    let mut b = Bench::new();
    b.put(0, 4, 1);
    let mut copy = vec![2; 64];
    copy[..8].copy_from_slice(
        &Head {
            opmod: 0,
            index: 0,
            opcode: Opcode::NOP,
            qpn: 1,
            ds: 4,
        }
        .encode(),
    );
    b.post(1);
    b.ring.ring(0, Some(copy.clone()));
    assert_eq!(b.next().unwrap().bytes, Some(copy.clone()));
    assert_eq!(b.io.memory.reads(Kind::WqeFetch).accesses, 0);
    assert_eq!(b.io.counters.wqes_from_blueflame, 1);

    // Longer than the copy: fetched from memory.
    b.ring.complete(1);
    b.put(1, 5, 3);
    copy[7] = 5;
    b.post(3);
    b.ring.ring(1, Some(copy));
    assert_eq!(b.next().unwrap().bytes.map(|b| b[70]), Some(3));
    assert_eq!(b.io.counters.wqes_from_blueflame, 1);
}
