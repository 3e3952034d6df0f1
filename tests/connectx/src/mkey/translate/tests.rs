// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks and translation of accesses.

use super::super::context::{ANY_QP, CONTEXT_LEN};
use super::*;
use crate::field;
use crate::ifc;

const PD: u32 = 7;
const QPN: u32 = 0x123;

fn context(mode: u32, start: u64, len: u64, shift: u32) -> [u8; CONTEXT_LEN] {
    let mut c = [0; CONTEXT_LEN];
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, access_mode_1_0), mode);
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, mkey_7_0), 0x42);
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, qpn), ANY_QP);
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, pd), PD);
    ifc::set64(&mut c, field!(mlx5_ifc_mkc_bits, start_addr), start);
    ifc::set64(&mut c, field!(mlx5_ifc_mkc_bits, len), len);
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, log_page_size), shift);
    ifc::set(
        &mut c,
        field!(mlx5_ifc_mkc_bits, translations_octword_size),
        8,
    );
    for field in [
        field!(mlx5_ifc_mkc_bits, lr),
        field!(mlx5_ifc_mkc_bits, lw),
        field!(mlx5_ifc_mkc_bits, rr),
        field!(mlx5_ifc_mkc_bits, rw),
        field!(mlx5_ifc_mkc_bits, a),
    ] {
        ifc::set(&mut c, field, 1);
    }
    c
}

fn insert(keys: &mut Mkeys, context: [u8; CONTEXT_LEN], entries: &[u8]) -> u32 {
    let mkey = Mkey::new(context, entries).expect("valid context");
    (keys.table.insert(mkey).expect("room") << 8) | 0x42
}

fn access(key: u32, va: u64, len: u64) -> Access {
    Access {
        key,
        va,
        len,
        right: Right::LocalRead,
        pd: PD,
        qpn: QPN,
        reserved_lkey: false,
    }
}

fn spans(keys: &Mkeys, access: Access) -> Result<Vec<Span>, Fault> {
    let mut out = Vec::new();
    keys.translate(&access, &mut out).map(|()| out)
}

fn memory(addr: u64, len: usize) -> Span {
    Span::Memory { addr, len }
}

fn pages(entries: &[u64]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.to_be_bytes()).collect()
}

#[test]
fn pages_are_joined_and_start_within_the_first() {
    let mut keys = Mkeys::default();
    // Starts 0x10 into its first page; the second and third page adjoin.
    let list = pages(&[0x5000 | 3, 0x8000 | 3, 0x9000 | 3]);
    let key = insert(&mut keys, context(1, 0xa_0010, 0x2ff0, 12), &list);
    assert_eq!(
        spans(&keys, access(key, 0xa_0010, 0x2ff0)),
        Ok(vec![memory(0x5010, 0xff0), memory(0x8000, 0x2000)])
    );
    assert_eq!(
        spans(&keys, access(key, 0xa_2fff, 1)),
        Ok(vec![memory(0x9fff, 1)])
    );
}

#[test]
fn bounds_are_checked_without_overflow() {
    let mut keys = Mkeys::default();
    let key = insert(&mut keys, context(0, 0x1000, 0x1000, 12), &[]);
    for (va, len) in [
        (0xfff, 1),
        (0x2000, 1),
        (0x1fff, 2),
        (0x1000, u64::MAX),
        (u64::MAX, 2),
        (0, u64::MAX),
    ] {
        assert_eq!(
            spans(&keys, access(key, va, len)),
            Err(Fault::Bounds),
            "{va:#x} {len:#x}"
        );
    }
    assert!(spans(&keys, access(key, 0x1000, 0x1000)).is_ok());
    assert_eq!(spans(&keys, access(key, 0, 0)), Ok(vec![]));
}

#[test]
fn all_memory_does_not_wrap() {
    let mut keys = Mkeys::default();
    let mut c = context(0, 0, 0, 0);
    ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, length64), 1);
    let key = insert(&mut keys, c, &[]);
    assert_eq!(
        spans(&keys, access(key, 0xffff_0000, 9)),
        Ok(vec![memory(0xffff_0000, 9)])
    );
    assert_eq!(spans(&keys, access(key, u64::MAX, 2)), Err(Fault::Bounds));
    assert!(spans(&keys, access(key, u64::MAX, 1)).is_ok());
}

#[test]
fn each_check_has_its_own_fault() {
    let mut keys = Mkeys::default();
    let plain = context(0, 0, 0x1000, 12);
    let key = insert(&mut keys, plain, &[]);
    assert_eq!(spans(&keys, access(key ^ 1, 0, 1)), Err(Fault::UnknownKey));
    assert_eq!(
        spans(&keys, access(key + 0x100, 0, 1)),
        Err(Fault::UnknownKey)
    );
    let other = Access {
        pd: PD + 1,
        ..access(key, 0, 1)
    };
    assert_eq!(spans(&keys, other), Err(Fault::Pd));

    let mut bound = plain;
    ifc::set(&mut bound, field!(mlx5_ifc_mkc_bits, qpn), QPN + 1);
    let bound = insert(&mut keys, bound, &[]);
    assert_eq!(spans(&keys, access(bound, 0, 1)), Err(Fault::Pd));

    let mut free = plain;
    ifc::set(&mut free, field!(mlx5_ifc_mkc_bits, free), 1);
    let free = insert(&mut keys, free, &[]);
    assert_eq!(spans(&keys, access(free, 0, 1)), Err(Fault::Free));

    for (right, field) in [
        (Right::LocalRead, field!(mlx5_ifc_mkc_bits, lr)),
        (Right::LocalWrite, field!(mlx5_ifc_mkc_bits, lw)),
        (Right::RemoteRead, field!(mlx5_ifc_mkc_bits, rr)),
        (Right::RemoteWrite, field!(mlx5_ifc_mkc_bits, rw)),
        (Right::Atomic, field!(mlx5_ifc_mkc_bits, a)),
    ] {
        let mut c = plain;
        ifc::set(&mut c, field, 0);
        let key = insert(&mut keys, c, &[]);
        for wanted in [
            Right::LocalRead,
            Right::LocalWrite,
            Right::RemoteRead,
            Right::RemoteWrite,
            Right::Atomic,
        ] {
            let a = Access {
                right: wanted,
                ..access(key, 0, 1)
            };
            let want = if wanted == right {
                Err(Fault::Right)
            } else {
                Ok(vec![memory(0, 1)])
            };
            assert_eq!(spans(&keys, a), want);
        }
    }
}

#[test]
fn page_entries_need_their_permission_bits() {
    let mut keys = Mkeys::default();
    let list = pages(&[0x5000 | MTT_READ, 0x6000]);
    let key = insert(&mut keys, context(1, 0, 0x4000, 12), &list);
    assert!(spans(&keys, access(key, 0, 0x1000)).is_ok());
    let write = Access {
        right: Right::LocalWrite,
        ..access(key, 0, 1)
    };
    assert_eq!(spans(&keys, write), Err(Fault::NotPresent));
    assert_eq!(spans(&keys, access(key, 0xfff, 2)), Err(Fault::NotPresent));
    assert_eq!(spans(&keys, access(key, 0x3000, 1)), Err(Fault::NotPresent));
}

fn klm(count: u32, key: u32, va: u64) -> Vec<u8> {
    let mut bytes = count.to_be_bytes().to_vec();
    bytes.extend(key.to_be_bytes());
    bytes.extend(va.to_be_bytes());
    bytes
}

#[test]
fn indirect_keys_gather_from_others() {
    let mut keys = Mkeys::default();
    let base = insert(&mut keys, context(0, 0, 0x10_0000, 12), &[]);
    let list = [klm(0x10, base, 0x100), klm(0x20, base, 0x4000)].concat();
    let key = insert(&mut keys, context(2, 0x77, 0x30, 0), &list);
    assert_eq!(
        spans(&keys, access(key, 0x7f, 0x18)),
        Ok(vec![memory(0x108, 8), memory(0x4000, 0x10)])
    );

    let list = [klm(0, base, 0x5000), klm(0, base, 0x9000)].concat();
    let key = insert(&mut keys, context(3, 0x1000, 0x2000, 12), &list);
    assert_eq!(
        spans(&keys, access(key, 0x1ff0, 0x20)),
        Ok(vec![memory(0x5ff0, 0x10), memory(0x9000, 0x10)])
    );
}

#[test]
fn a_key_that_refers_to_itself_ends() {
    let mut keys = Mkeys::default();
    // The next index is known: the table is empty.
    let own = keys
        .table
        .insert(Mkey::new(context(0, 0, 1, 0), &[]).unwrap());
    let own = own.unwrap();
    keys.table.remove(own).unwrap();
    let key = ((own + 1) << 8) | 0x42;
    let list = klm(0x1000, key, 0);
    assert_eq!(insert(&mut keys, context(2, 0, 0x1000, 0), &list), key);
    assert_eq!(spans(&keys, access(key, 0, 1)), Err(Fault::TooDeep));
}

#[test]
fn lists_of_lists_end() {
    let mut keys = Mkeys::default();
    // Three levels of 1024 entries, none of which holds more than the next level's last byte.
    let mut key = insert(&mut keys, context(0, 0, 0x1000, 12), &[]);
    for _ in 0..3 {
        let mut c = context(2, 0, 1024, 0);
        let room = field!(mlx5_ifc_mkc_bits, translations_octword_size);
        ifc::set(&mut c, room, 1024);
        key = insert(&mut keys, c, &klm(1, key, 1023).repeat(1024));
    }
    assert_eq!(spans(&keys, access(key, 0, 1024)), Err(Fault::TooLong));
    assert!(spans(&keys, access(key, 1023, 1)).is_ok());
}

#[test]
fn the_reserved_key_is_for_queues_that_may() {
    let keys = Mkeys::default();
    let a = Access {
        reserved_lkey: true,
        ..access(RESERVED_LKEY, 0x1234, 4)
    };
    assert_eq!(spans(&keys, a), Ok(vec![memory(0x1234, 4)]));
    let denied = access(RESERVED_LKEY, 0x1234, 4);
    assert_eq!(spans(&keys, denied), Err(Fault::UnknownKey));
    let remote = Access {
        right: Right::RemoteWrite,
        ..a
    };
    assert_eq!(spans(&keys, remote), Err(Fault::UnknownKey));
    assert_eq!(
        spans(&keys, access(NULL_MKEY, 0, 9)),
        Ok(vec![Span::Null { len: 9 }])
    );
    for right in [Right::RemoteRead, Right::RemoteWrite, Right::Atomic] {
        let remote = Access {
            right,
            ..access(NULL_MKEY, 0, 8)
        };
        assert_eq!(spans(&keys, remote), Err(Fault::UnknownKey));
    }
}
