// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Datagrams, to one queue pair and to groups.

use connectx::cqfmt::syndrome::Syndrome;
use connectx::wire::net::map_ipv4;
use connectx::wqe::opcode::Opcode;
use connectx::{field, ifc, size};

use crate::bench::*;

/// Unreliable datagrams.
const DATAGRAMS: QpSpec = QpSpec {
    service: 2,
    log_sq: 6,
    log_rq: 4,
    srqn: None,
    xrcd: 0,
    registers: true,
    blocks_group_loopback: false,
};

/// A few bytes to a queue pair of the other side.
fn datagram(qpn: u32, qkey: u32) -> Vec<u8> {
    let to = address(1, qpn, qkey).encode();
    [to.as_slice(), &inline(b"datagram")].concat()
}

#[test]
fn datagrams_come_with_their_header_and_are_lost_silently() {
    let mut b = Bench::new();
    let link = Link {
        mtu: 5,
        ..Link::default()
    };
    let [mut a, mut c] = b.connect(DATAGRAMS, link);
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let to = |qkey| datagram(c.qp.qpn, qkey);
    // No receive, wrong key, no such queue pair: all succeed for the sender.
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to(0x1111));
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to(0x2222));
    let nowhere = datagram(0x999, 0x1111);
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &nowhere);
    b.settle();
    for _ in 0..3 {
        success(b.sides[0].poll(&mut a.send));
    }
    assert!(b.sides[1].poll(&mut c.receive).is_none());

    b.sides[1].post_receive(&mut c.qp, &[data(100, key, dst)]);
    let wqe = datagram(c.qp.qpn, 0x1111);
    b.sides[0].post(&mut a.qp, Opcode::SEND_IMM, 5, &wqe);
    b.settle();
    let received = success(b.sides[1].poll(&mut c.receive));
    assert_eq!((received.byte_cnt, received.imm), (48, 5));
    // A header is in the buffer, IPv4, and the sender's number.
    assert_eq!(received.flags_rqpn, (1 << 28) | (2 << 24) | a.qp.qpn);
    let header = b.sides[1].read(dst, 40);
    assert_eq!(header[..20], [0; 20]);
    assert_eq!((header[20], header[29]), (0x45, 17));
    assert_eq!(header[32..36], [10, 0, 0, 1]);
    assert_eq!(b.sides[1].read(dst + 40, 8), b"datagram");
}

#[test]
fn a_datagram_fits_one_packet() {
    let mut b = Bench::new();
    let [mut a, c] = b.connect(DATAGRAMS, Link::default());
    let src = b.sides[0].alloc(4096);
    let lkey = b.sides[0].create_mkey(src, src, 4096, &[]);
    let wqe = [
        address(1, c.qp.qpn, 0x1111).encode().to_vec(),
        data(1025, lkey, src).to_vec(),
    ]
    .concat();
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &wqe);
    b.settle();
    assert_eq!(
        syndrome(b.sides[0].poll(&mut a.send)),
        Syndrome::LOCAL_LENGTH
    );
}

/// A group, and the Ethernet address that stands for it.
const GROUP: ([u8; 4], [u8; 6]) = ([239, 1, 2, 3], [1, 0, 0x5e, 1, 2, 3]);

/// Status bytes of refusals.
const BAD_PARAM: u8 = 0x3;
const RES_BUSY: u8 = 0x6;

/// ATTACH_TO_MCG (0x806) or DETACH_FROM_MCG (0x807).
fn member(side: &mut Side, opcode: u16, gid: [u8; 16], qpn: u32) -> Result<(), Refused> {
    let mut input = command(opcode, size!(mlx5_ifc_attach_to_mcg_in_bits));
    ifc::set(&mut input, field!(mlx5_ifc_attach_to_mcg_in_bits, qpn), qpn);
    let at = field!(mlx5_ifc_attach_to_mcg_in_bits, multicast_gid).byte_offset();
    input[at..at + 16].copy_from_slice(&gid);
    side.cmd(&input, 0x10).map(|_| ())
}

/// A few bytes to the group.
fn to_group() -> Vec<u8> {
    let mut to = address(1, 0xff_ffff, 0x1111);
    (to.rgid, to.rmac) = (map_ipv4(GROUP.0), GROUP.1);
    [to.encode().as_slice(), &inline(b"to all")].concat()
}

#[test]
fn each_member_of_a_group_gets_a_copy() {
    let mut b = Bench::new();
    let group = map_ipv4(GROUP.0);
    let [mut a, c] = b.connect(DATAGRAMS, Link::default());
    let [_, d] = b.connect(DATAGRAMS, Link::default());
    let [_, mut stranger] = b.connect(DATAGRAMS, Link::default());
    let mut members = [c, d];
    let dst = b.sides[1].alloc(4096);
    let key = b.sides[1].create_mkey(dst, dst, 4096, &[]);
    let side = &mut b.sides[1];
    side.post_receive(&mut stranger.qp, &[data(100, key, dst)]);
    for (i, member) in members.iter_mut().enumerate() {
        for _ in 0..2 {
            side.post_receive(&mut member.qp, &[data(100, key, dst + i as u64 * 100)]);
        }
        self::member(side, 0x806, group, member.qp.qpn).expect("ATTACH_TO_MCG");
    }
    // The driver has not asked for the group's Ethernet address.
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to_group());
    b.settle();
    assert!(b.sides[1].poll(&mut members[0].receive).is_none());

    b.sides[1].hca.vport.multicast.push(GROUP.1);
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to_group());
    b.settle();
    for (i, member) in members.iter_mut().enumerate() {
        let received = success(b.sides[1].poll(&mut member.receive));
        assert_eq!(received.byte_cnt, 46);
        assert_eq!(b.sides[1].read(dst + i as u64 * 100 + 40, 6), b"to all");
    }
    let leaver = members[0].qp.qpn;
    member(&mut b.sides[1], 0x807, group, leaver).expect("DETACH_FROM_MCG");
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to_group());
    b.settle();
    assert!(b.sides[1].poll(&mut members[0].receive).is_none());
    success(b.sides[1].poll(&mut members[1].receive));
    assert!(b.sides[1].poll(&mut stranger.receive).is_none());
}

#[test]
fn a_sender_hears_itself_unless_it_does_not_want_to() {
    for blocked in [false, true] {
        let mut b = Bench::new();
        b.loopback = true;
        let spec = QpSpec {
            blocks_group_loopback: blocked,
            ..DATAGRAMS
        };
        let [mut a, _] = b.connect(spec, Link::default());
        let [mut c, _] = b.connect(DATAGRAMS, Link::default());
        let dst = b.sides[0].alloc(4096);
        let key = b.sides[0].create_mkey(dst, dst, 4096, &[]);
        for end in [&mut a, &mut c] {
            let side = &mut b.sides[0];
            side.post_receive(&mut end.qp, &[data(100, key, dst)]);
            member(side, 0x806, map_ipv4(GROUP.0), end.qp.qpn).expect("ATTACH_TO_MCG");
        }
        b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &to_group());
        b.settle();
        success(b.sides[0].poll(&mut c.receive));
        assert_eq!(b.sides[0].poll(&mut a.receive).is_none(), blocked);
    }
}

#[test]
fn only_datagrams_have_groups_and_members_stay() {
    let mut b = Bench::new();
    let [a, _] = b.connect(DATAGRAMS, Link::default());
    let [rc, _] = b.connect(QpSpec::default(), Link::default());
    let side = &mut b.sides[0];
    let group = map_ipv4(GROUP.0);
    let refused = member(side, 0x806, group, rc.qp.qpn);
    assert_eq!(refused, Err(BAD_PARAM), "reliable");
    let refused = member(side, 0x806, map_ipv4([10, 0, 0, 1]), a.qp.qpn);
    assert_eq!(refused, Err(BAD_PARAM), "no group");
    for _ in 0..2 {
        member(side, 0x806, group, a.qp.qpn).expect("ATTACH_TO_MCG");
    }
    assert_eq!(side.simple(0x501, a.qp.qpn), Err(RES_BUSY));
    member(side, 0x807, group, a.qp.qpn).expect("DETACH_FROM_MCG");
    assert_eq!(member(side, 0x807, group, a.qp.qpn), Err(BAD_PARAM));
    side.simple(0x501, a.qp.qpn).expect("DESTROY_QP");
}

#[test]
fn an_address_is_whole() {
    let mut b = Bench::new();
    let [mut a, c] = b.connect(DATAGRAMS, Link::default());
    let mut to = address(1, c.qp.qpn, 0x1111);
    // On Ethernet there is a route, whether the address says so or not.
    to.grh = false;
    let whole = [to.encode().as_slice(), &inline(b"datagram")].concat();
    let mut short = whole.clone();
    // The bit for the full length stands in front of the number.
    short[8] &= 0x7f;
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &whole);
    b.settle();
    success(b.sides[0].poll(&mut a.send));
    b.sides[0].post(&mut a.qp, Opcode::SEND, 0, &short);
    b.settle();
    let refused = syndrome(b.sides[0].poll(&mut a.send));
    assert_eq!(refused, Syndrome::LOCAL_QP_OPERATION);
}
