// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What each WQE is taken for, and which ones are refused.

use super::super::super::context::CONTEXT_LEN;
use super::*;
use crate::field;
use crate::ifc;
use crate::wqe::ctrl::{Fence, Flags, Head, Signal};
use crate::wqe::data::inline_header;
use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};

const QPN: u32 = 0x123;

fn attributes(service: u32) -> Attributes {
    let mut c = [0; CONTEXT_LEN];
    ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, st), service);
    ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, fre), 1);
    Attributes::decode(&c).unwrap()
}

fn wqe(opcode: Opcode, segments: &[&[u8]]) -> Vec<u8> {
    let body = segments.concat();
    let ctrl = Ctrl {
        head: Head {
            opmod: match opcode {
                Opcode::ATOMIC_MASKED_CS | Opcode::ATOMIC_MASKED_FA => atomic::OPMOD_MASKED_8_BYTES,
                _ => 0,
            },
            index: 5,
            opcode,
            qpn: QPN,
            ds: ((16 + body.len()) / DS) as u8,
        },
        signature: 0,
        flags: Flags::new(Fence::None, Signal::Always, false),
        imm: 0x0102_0304,
    };
    [ctrl.encode().as_slice(), &body].concat()
}

fn decode(bytes: Vec<u8>, service: u32) -> Result<Work, Malformed> {
    Work::decode(bytes, 5, QPN, &attributes(service))
}

const REMOTE: RemoteAddr = RemoteAddr {
    addr: 0x1000,
    rkey: 0x42,
};

fn data(byte_count: u32) -> [u8; 16] {
    Data {
        byte_count,
        lkey: 7,
        addr: 0x2000,
    }
    .encode()
}

#[test]
fn a_write_with_inline_and_pointer_data() {
    let mut inline = [0u8; 16];
    inline[..4].copy_from_slice(&inline_header(3));
    inline[4..7].copy_from_slice(b"abc");
    let bytes = wqe(Opcode::RDMA_WRITE, &[&REMOTE.encode(), &inline, &data(9)]);
    let work = decode(bytes, 0).unwrap();
    let Task::Write { to, data, .. } = &work.task else {
        panic!("{:?}", work.task);
    };
    assert_eq!(*to, REMOTE);
    assert_eq!(data.len, 12);
    assert_eq!(data.pieces[0], Piece::Inline { at: 36, len: 3 });
    assert_eq!(work.bytes[36..39], *b"abc");
    assert!(work.signaled && !work.solicited);
}

#[test]
fn a_byte_count_of_zero_is_two_gigabytes() {
    let work = decode(wqe(Opcode::SEND, &[&data(0)]), 0).unwrap();
    assert_eq!(work.task.data().map(|d| d.len), Some(1 << 31));
    let none = decode(wqe(Opcode::SEND, &[]), 0).unwrap();
    assert_eq!(none.task.data().map(|d| d.len), Some(0));
}

#[test]
fn each_service_has_its_opcodes() {
    let remote = REMOTE.encode();
    // Three pieces of data to a connection, and a whole address to a datagram.
    let mut address = [[0; 16]; 3];
    address[0][8] = 0x80;
    for (opcode, segments, allowed) in [
        (Opcode::NOP, vec![], [0u32, 1, 2, 8, 0xc].as_slice()),
        (Opcode::SEND, address.to_vec(), &[0, 1, 2, 8]),
        (Opcode::SEND_INVAL, vec![], &[0]),
        (Opcode::RDMA_WRITE, vec![remote], &[0, 1]),
        (Opcode::RDMA_READ, vec![remote], &[0]),
        (Opcode::ATOMIC_CS, vec![remote, [0; 16], data(8)], &[0]),
        (Opcode::UMR, vec![[0; 16]; 7], &[0, 1, 0xc]),
        (Opcode::LSO, vec![], &[]),
        (Opcode(0xff), vec![], &[]),
    ] {
        let segments: Vec<&[u8]> = segments.iter().map(|s| s.as_slice()).collect();
        for service in [0, 1, 2, 8, 0xc] {
            let result = decode(wqe(opcode, &segments), service);
            if allowed.contains(&service) {
                assert!(result.is_ok(), "{opcode:?} on {service}: {result:?}");
            } else {
                assert_eq!(
                    result.unwrap_err(),
                    Malformed::Opcode,
                    "{opcode:?} on {service}"
                );
            }
        }
    }
}

#[test]
fn an_extended_connection_names_a_queue_of_the_peer() {
    let remote = REMOTE.encode();
    let mut queue = [0u8; 16];
    queue[..4].copy_from_slice(&0x0012_3456u32.to_be_bytes());
    let write = decode(wqe(Opcode::RDMA_WRITE, &[&queue, &remote, &data(9)]), 3).unwrap();
    assert_eq!(write.xrc_srq, Some(0x12_3456));
    assert!(matches!(write.task, Task::Write { to, .. } if to == REMOTE));
    assert_eq!(decode(wqe(Opcode::NOP, &[]), 3).unwrap().xrc_srq, None);
    let umr = decode(wqe(Opcode::UMR, &[&[0; 112]]), 3).unwrap();
    assert_eq!(umr.xrc_srq, None);
    let none = decode(wqe(Opcode::SEND, &[]), 3);
    assert_eq!(none.unwrap_err(), Malformed::Segments);
    let masked = wqe(
        Opcode::ATOMIC_MASKED_FA,
        &[&queue, &remote, &[0; 16], &data(8)],
    );
    assert_eq!(decode(masked, 3).unwrap_err(), Malformed::Opcode);
}

#[test]
fn a_masked_atomic_says_its_size() {
    let remote = REMOTE.encode();
    let operands: [u8; 16] = std::array::from_fn(|i| u8::from(i == 7) + 2 * u8::from(i == 15));
    let mut add = wqe(Opcode::ATOMIC_MASKED_FA, &[&remote, &operands, &data(8)]);
    let Task::Atomic { operands, data, .. } = decode(add.clone(), 0).unwrap().task else {
        panic!("not an atomic");
    };
    assert_eq!((operands.swap_add, operands.swap_add_mask), (1, 2));
    assert_eq!(data.len, 8);
    // Those of 4, 16 and 32 bytes, and none at all.
    for opmod in [8, 10, 11, 0] {
        add[0] = opmod;
        let refused = decode(add.clone(), 0).unwrap_err();
        assert_eq!(refused, Malformed::Operand, "{opmod}");
    }
}

#[test]
fn what_does_not_fit_is_malformed() {
    let remote = REMOTE.encode();
    let cases: [(&str, Opcode, Vec<&[u8]>, Malformed); 4] = [
        (
            "no remote address",
            Opcode::RDMA_WRITE,
            vec![],
            Malformed::Segments,
        ),
        (
            "no operands",
            Opcode::ATOMIC_FA,
            vec![&remote],
            Malformed::Segments,
        ),
        (
            "operand of 4 bytes",
            Opcode::ATOMIC_FA,
            vec![
                &remote,
                &[0; 16],
                &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ],
            Malformed::Operand,
        ),
        (
            "read into the WQE",
            Opcode::RDMA_READ,
            vec![
                &remote,
                &[0x80, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ],
            Malformed::Segments,
        ),
    ];
    for (name, opcode, segments, want) in cases {
        assert_eq!(
            decode(wqe(opcode, &segments), 0).unwrap_err(),
            want,
            "{name}"
        );
    }
    let bytes = wqe(Opcode::NOP, &[]);
    let other = Work::decode(bytes.clone(), 6, QPN, &attributes(0));
    assert_eq!(other.unwrap_err(), Malformed::Control);
    let other = Work::decode(bytes, 5, QPN + 1, &attributes(0));
    assert_eq!(other.unwrap_err(), Malformed::Control);
}

#[test]
fn any_bytes_have_an_answer() {
    let mut rng = SmallRng::seed_from_u64(2);
    for _ in 0..50_000 {
        let mut bytes = vec![0; rng.random_range(0..=1008)];
        rng.fill_bytes(&mut bytes);
        if let Some(head) = bytes.first_chunk_mut::<8>() {
            let ds = head[7];
            let known = Opcode::KNOWN[rng.random_range(0..Opcode::KNOWN.len())];
            *head = Head {
                opmod: 0,
                index: 5,
                opcode: known,
                qpn: QPN,
                ds,
            }
            .encode();
        }
        let service = [0, 1, 2, 3, 8, 0xc][rng.random_range(0..6)];
        if let Ok(work) = decode(bytes, service) {
            for piece in work.task.data().iter().flat_map(|d| &d.pieces) {
                if let Piece::Inline { at, len } = piece {
                    assert!(at + len <= work.bytes.len());
                }
            }
        }
    }
}
