// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory keys that WQEs register, bind and invalidate.

use connectx::cqfmt::cqe::Opcode as Kind;
use connectx::cqfmt::syndrome::Syndrome;
use connectx::wqe::opcode::Opcode;
use connectx::wqe::umr::{access, flags, mask, Mkey, UmrCtrl};
use connectx::{field, ifc};

use crate::bench::*;

/// Segments of a UMR WQE that registers `pages` at `start` under a key with variant 0x77.
fn register(start: u64, pages: &[u64]) -> Vec<u8> {
    let mut list: Vec<u8> = pages.iter().flat_map(|p| (p | 3).to_be_bytes()).collect();
    list.resize(64, 0);
    let ctrl = UmrCtrl {
        flags: flags::INLINE | flags::CHECK_NOT_FREE,
        xlt_octowords: (list.len() / 16) as u16,
        xlt_offset: 0,
        mkey_mask: mask::LEN
            | mask::START_ADDR
            | mask::KEY
            | mask::FREE
            | mask::RW
            | mask::EN_RINVAL
            | mask::PAGE_SIZE,
        xlt_offset_47_16: 0,
    };
    let key = Mkey {
        free: false,
        access: access::REMOTE_WRITE,
        mode: 1,
        qpn: 0xff_ffff,
        variant: 0x77,
        flags_pd: 1 << 24,
        start,
        len: pages.len() as u64 * 4096,
        xlt_oct_size: 0,
        log_page_size: 12,
    };
    [ctrl.encode().as_slice(), &key.encode(), &list].concat()
}

/// Segments of a UMR WQE that invalidates a key.
fn invalidate() -> Vec<u8> {
    let ctrl = UmrCtrl {
        flags: flags::INLINE,
        xlt_octowords: 0,
        xlt_offset: 0,
        mkey_mask: mask::FREE,
        xlt_offset_47_16: 0,
    };
    let mut key = [0; 64];
    ifc::set(&mut key, field!(mlx5_ifc_mkc_bits, free), 1);
    [ctrl.encode().as_slice(), &key].concat()
}

/// A free key with room for 8 pages on a side.
fn free_key(side: &mut Side) -> u32 {
    let pd = side.pd;
    side.create_mkey_with(0, 0, 8 * 4096, |c| {
        ifc::set(c, field!(mlx5_ifc_mkc_bits, pd), pd);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, free), 1);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, rw), 0);
    })
    .unwrap()
}

#[test]
fn a_queue_pair_of_user_space_binds_windows_but_registers_no_pages() {
    let spec = QpSpec {
        registers: false,
        ..QpSpec::default()
    };
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(spec, Link::default());
    let dst = b.sides[1].alloc(4096);
    let region = b.sides[1].create_mkey(dst, 0x8_0000, 4096, &[]);
    let pd = b.sides[1].pd;
    let window = b.sides[1].create_mkey_with(0, 0, 4096, |c| {
        ifc::set(c, field!(mlx5_ifc_mkc_bits, pd), pd);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, free), 1);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, access_mode_1_0), 2);
    });
    let key = (window.expect("CREATE_MKEY") & !0xff) | 0x77;
    let mut bind = register(0x4_0000, &[0]);
    // One entry: length, key, address.
    let entry = [64u32.to_be_bytes(), region.to_be_bytes()].concat();
    let entry = [entry.as_slice(), &0x8_0100u64.to_be_bytes()].concat();
    let list = bind.len() - 64;
    bind[list..list + 16].copy_from_slice(&entry);
    b.sides[1].post(&mut c.qp, Opcode::UMR, key, &bind);
    b.settle();
    success(b.sides[1].poll(&mut c.send));
    let write = [remote(0x4_0000, key).to_vec(), inline(b"window")].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &write);
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    assert_eq!(b.sides[1].read(dst + 0x100, 6), b"window");

    let pages = (free_key(&mut b.sides[1]) & !0xff) | 0x77;
    let wqe = register(0x4_0000, &[dst]);
    b.sides[1].post(&mut c.qp, Opcode::UMR, pages, &wqe);
    b.settle();
    assert_eq!(
        syndrome(b.sides[1].poll(&mut c.send)),
        Syndrome::LOCAL_QP_OPERATION
    );
}

#[test]
fn keys_are_registered_used_and_invalidated_by_wqes() {
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(3 * 4096);
    let fresh = free_key(&mut b.sides[1]);
    let key = (fresh & !0xff) | 0x77;
    // The pages in another order than in memory.
    let wqe = register(0x4_0000, &[dst + 4096, dst]);
    b.sides[1].post(&mut c.qp, Opcode::UMR, key, &wqe);
    b.settle();
    let done = success(b.sides[1].poll(&mut c.send));
    assert_eq!(done.tail.wqe_opcode, Opcode::UMR.0);

    let write = [remote(0x4_0ffe, key).to_vec(), inline(b"abcd")].concat();
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &write);
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    assert_eq!(b.sides[1].read(dst + 0x1ffe, 2), b"ab");
    assert_eq!(b.sides[1].read(dst, 2), b"cd");

    b.sides[1].post(&mut c.qp, Opcode::UMR, key, &invalidate());
    b.settle();
    success(b.sides[1].poll(&mut c.send));
    b.sides[0].post(&mut a.qp, Opcode::RDMA_WRITE, 0, &write);
    b.settle();
    assert_eq!(
        syndrome(b.sides[0].poll(&mut a.send)),
        Syndrome::REMOTE_ACCESS
    );
}

#[test]
fn registering_a_key_twice_fails() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    let page = b.sides[0].alloc(4096);
    let key = (free_key(&mut b.sides[0]) & !0xff) | 0x77;
    for _ in 0..2 {
        b.sides[0].post(&mut a.qp, Opcode::UMR, key, &register(0, &[page]));
    }
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    assert_eq!(
        syndrome(b.sides[0].poll(&mut a.send)),
        Syndrome::LOCAL_QP_OPERATION
    );
}

#[test]
fn a_send_can_invalidate_a_key_of_the_receiver() {
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let victim = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    for _ in 0..2 {
        b.sides[1].post_receive(&mut c.qp, &[data(64, key, dst)]);
    }
    b.sides[0].post(&mut a.qp, Opcode::SEND_INVAL, victim, &inline(b"x"));
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    let received = success(b.sides[1].poll(&mut c.receive));
    assert_eq!(received.tail.opcode(), Kind::RESP_SEND_INV);
    assert_eq!(received.imm, victim);
    // Invalid already: refused.
    b.sides[0].post(&mut a.qp, Opcode::SEND_INVAL, victim, &inline(b"x"));
    b.settle();
    assert_eq!(
        syndrome(b.sides[0].poll(&mut a.send)),
        Syndrome::REMOTE_ACCESS
    );
}

#[test]
fn a_key_of_one_queue_pair_is_not_invalidated_through_another() {
    let mut b = Bench::new();
    let [mut a, mut c] = b.connect(QpSpec::default(), Link::default());
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let pd = b.sides[1].pd;
    for (owner, good) in [(c.qp.qpn, true), (c.qp.qpn + 1, false)] {
        let bound = b.sides[1].create_mkey_with(dst, dst, 4096, |context| {
            ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
            ifc::set(context, field!(mlx5_ifc_mkc_bits, qpn), owner);
        });
        b.sides[1].post_receive(&mut c.qp, &[data(64, key, dst)]);
        let bound = bound.expect("CREATE_MKEY");
        b.sides[0].post(&mut a.qp, Opcode::SEND_INVAL, bound, &inline(b"x"));
        b.settle();
        let entry = b.sides[0].poll(&mut a.send);
        if good {
            success(entry);
        } else {
            assert_eq!(syndrome(entry), Syndrome::REMOTE_ACCESS);
        }
    }
}
