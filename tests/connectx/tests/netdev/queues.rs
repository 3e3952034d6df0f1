// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Send and receive queues.

use connectx::driver::MEMORY;
use connectx::field;

use crate::stage::*;

/// Status bytes of refusals.
const BAD_RES_STATE: u8 = 0x9;
const BAD_PARAM: u8 = 0x3;

/// `op_own` of failures, first pass.
const REQ_ERR: u8 = 13 << 4;
const RESP_ERR: u8 = 14 << 4;
const OPERATION: u8 = 2;
const PROTECTION: u8 = 4;
const FLUSHED: u8 = 5;

#[test]
fn a_posted_frame_goes_out_and_completes() {
    let mut n = Netdev::new();
    let sent = frame([0xff; 6], 500);
    n.post_frame(0, &sent, n.key);
    assert_eq!(n.driver.hca.take_output().frames, [sent]);
    let cqe = n.cqe(SEND_CQ, 0);
    assert_eq!(cqe[63], 0, "requester completion, first pass");
    assert_eq!(cqe[0x38..0x3c], (0x0a00_0000 | n.sqn).to_be_bytes());
    assert_eq!(cqe[0x3c..0x3e], [0, 0]);
}

#[test]
fn a_wqe_in_the_blueflame_register_is_executed_from_there() {
    let mut n = Netdev::new();
    // Memory holds a NOP without completion; the copy asks for one.
    let mut wqe = [0; 64];
    wqe[..16].copy_from_slice(&n.ctrl(0, 0, 1));
    let copy = wqe;
    wqe[11] = 0;
    n.driver.write(SQ, &wqe);
    n.driver.write(RECORDS + 132, &1u32.to_be_bytes());
    let base = u64::from(n.uar) * 4096 + 0x800;
    for (i, part) in copy.chunks(8).enumerate() {
        n.driver.hca.mmio_write(0, base + 8 * i as u64, part);
    }
    n.driver.hca.run(0, 64);
    assert_eq!(n.cqe(SEND_CQ, 0)[63], 0);
    assert_eq!(n.driver.hca.io.counters.wqes_from_blueflame, 1);
    let fetched = n.driver.hca.io.memory.reads(connectx::dma::Kind::WqeFetch);
    assert_eq!(fetched.accesses, 0, "a WQE that was there is not fetched");
}

#[test]
fn a_wqe_says_where_it_stands_and_whose_it_is() {
    // The first block of the ring, the second, and the first again after a round of indices.
    for (at, said, queue, good) in [
        (0, 0, 0, true),
        (0, 1, 0, false),
        (0, 16, 0, false),
        (0, 0, 1, false),
        (1, 0, 0, false),
        (1, 0x101, 0, false),
        (1, 1, 0, true),
    ] {
        let mut n = Netdev::new();
        let sent = frame([0xff; 6], 100);
        for before in 0..at {
            n.post_frame(before, &sent, n.key);
        }
        n.driver.hca.take_output();
        let mut wqe = n.frame_wqe(said, &sent, n.key);
        let qpn = ((n.sqn + queue) << 8) | 4;
        wqe[4..8].copy_from_slice(&qpn.to_be_bytes());
        n.post(at, &wqe);
        let case = format!("at {at} said {said} queue {queue}");
        let left = !n.driver.hca.take_output().frames.is_empty();
        assert_eq!(left, good, "{case}");
        let cqe = n.cqe(SEND_CQ, at.into());
        // Else a requester error, local QP operation.
        let want = if good { (0, 0) } else { (13 << 4, 2) };
        assert_eq!((cqe[63], if good { 0 } else { cqe[0x37] }), want, "{case}");
    }
}

#[test]
fn a_bad_key_stops_the_queue() {
    let mut n = Netdev::new();
    n.post_frame(0, &frame([0xff; 6], 100), n.key ^ 0x100);
    assert!(n.driver.hca.take_output().frames.is_empty());
    let cqe = n.cqe(SEND_CQ, 0);
    // Requester error, local protection.
    assert_eq!((cqe[63], cqe[0x37]), (13 << 4, 4));
    n.post_frame(1, &frame([0xff; 6], 100), n.key);
    assert!(n.driver.hca.take_output().frames.is_empty());
    assert_eq!(n.modify_sq(1, 1), BAD_RES_STATE);
    assert_eq!(n.modify_sq(3, 0), 0);
    assert_eq!(n.modify_sq(0, 1), 0);
    n.post_frame(0, &frame([0xff; 6], 100), n.key);
    assert_eq!(n.driver.hca.take_output().frames.len(), 1);
}

#[test]
fn a_frame_from_the_wire_is_received() {
    let mut n = Netdev::new();
    let own = n.driver.hca.config.mac;
    let (first, second) = (frame(own, 600), frame([0xff; 6], 64));
    // Nothing posted: dropped.
    n.driver.hca.receive(1, &first);
    assert_eq!(n.driver.hca.io.counters.frames_dropped, 1);
    for i in 0..3 {
        n.post_receive(i, 1024);
    }
    n.driver.hca.receive(2, &first);
    n.driver.hca.receive(3, &frame([2, 0, 0, 0, 0, 0x77], 64));
    n.driver.hca.receive(4, &second);
    // Too long for the WQE: dropped, the WQE stays.
    n.driver.hca.receive(5, &frame(own, 1100));
    assert_eq!(n.driver.hca.io.counters.frames_dropped, 3);
    for (i, frame) in [first, second].iter().enumerate() {
        let cqe = n.cqe(RECV_CQ, i as u64);
        assert_eq!(cqe[63], 2 << 4);
        assert_eq!(cqe[0x2c..0x30], (frame.len() as u32).to_be_bytes());
        assert_eq!(cqe[0x3c..0x3e], (i as u16).to_be_bytes());
        let got = n.driver.read::<600>(RECEIVED + 0x1000 * i as u64);
        assert_eq!(got[..frame.len()], frame[..]);
    }
    assert_eq!(n.cqe(RECV_CQ, 2)[63], 0xf1);
}

/// What a completion says: kind, syndrome, index of the WQE.
fn verdict(n: &mut Netdev, cq: u64, index: u64) -> (u8, u8, u16) {
    let cqe = n.cqe(cq, index);
    (
        cqe[63],
        cqe[0x37],
        u16::from_be_bytes([cqe[0x3c], cqe[0x3d]]),
    )
}

#[test]
fn a_send_queue_in_error_flushes() {
    let mut n = Netdev::new();
    let sent = frame([0xff; 6], 100);
    n.post_frame(0, &sent, n.key ^ 0x100);
    n.post_frame(1, &sent, n.key);
    assert_eq!(verdict(&mut n, SEND_CQ, 0), (REQ_ERR, PROTECTION, 0));
    assert_eq!(verdict(&mut n, SEND_CQ, 1), (REQ_ERR, FLUSHED, 1));
    // A WQE of two blocks is one, and asks for no completion.
    let mut long = n.ctrl(2, 0, 8);
    long[11] = 0;
    n.driver.write(SQ + 2 * 64, &long);
    n.driver.write(RECORDS + 132, &4u32.to_be_bytes());
    n.ring(&long[..8]);
    assert_eq!(verdict(&mut n, SEND_CQ, 2), (REQ_ERR, FLUSHED, 2));
    assert_eq!(n.cqe(SEND_CQ, 3)[63], 0xf1);
    assert!(n.driver.hca.take_output().frames.is_empty());

    // Into error by command, and with what is rung later.
    let mut n = Netdev::new();
    assert_eq!(n.modify_sq(1, 3), 0);
    n.post_frame(0, &sent, n.key);
    assert_eq!(verdict(&mut n, SEND_CQ, 0), (REQ_ERR, FLUSHED, 0));
}

#[test]
fn a_receive_queue_in_error_flushes() {
    let mut n = Netdev::new();
    let own = n.driver.hca.config.mac;
    n.post_receive_by(0, 1024, n.key ^ 0x100);
    n.post_receive(1, 1024);
    n.post_receive(2, 1024);
    n.driver.hca.receive(1, &frame(own, 100));
    assert_eq!(verdict(&mut n, RECV_CQ, 0), (RESP_ERR, PROTECTION, 0));
    for index in 1..3 {
        let flushed = (RESP_ERR, FLUSHED, index as u16);
        assert_eq!(verdict(&mut n, RECV_CQ, index), flushed);
    }
    n.driver.hca.receive(1, &frame(own, 100));
    assert_eq!(n.cqe(RECV_CQ, 3)[63], 0xf1);
    assert_eq!((n.modify_rq(3, 0), n.modify_rq(0, 1)), (0, 0));

    let mut n = Netdev::new();
    n.post_receive(0, 1024);
    assert_eq!(n.modify_rq(1, 3), 0);
    assert_eq!(verdict(&mut n, RECV_CQ, 0), (RESP_ERR, FLUSHED, 0));
}

#[test]
fn what_is_posted_to_a_receive_queue_in_error_is_flushed_as_well() {
    let mut n = Netdev::new();
    assert_eq!(n.modify_rq(1, 3), 0);
    let mut now = n.driver.now;
    for index in 0..2 {
        n.post_receive(index, 1024);
        assert_eq!(n.cqe(RECV_CQ, index.into())[63], 0xf1, "no doorbell");
        now = n.driver.hca.next_deadline().expect("a look later").max(now);
        n.driver.hca.run(now, 64);
        let flushed = (RESP_ERR, FLUSHED, index);
        assert_eq!(verdict(&mut n, RECV_CQ, index.into()), flushed);
    }
    // A queue in reset is none in error.
    assert_eq!(n.modify_rq(3, 0), 0);
    n.post_receive(2, 1024);
    n.driver.hca.run(now + 1_000_000_000, 64);
    assert_eq!(n.cqe(RECV_CQ, 2)[63], 0xf1);
    assert_eq!(n.driver.hca.next_deadline(), None);
}

#[test]
fn a_receive_ring_that_is_no_memory_fails_and_flushes() {
    let mut n = Netdev::with_receive_queue_at(MEMORY as u64, RECEIVE_RECORD);
    let own = n.driver.hca.config.mac;
    n.driver.write(RECEIVE_RECORD, &3u32.to_be_bytes());
    n.driver.hca.receive(1, &frame(own, 100));
    assert_eq!(verdict(&mut n, RECV_CQ, 0), (RESP_ERR, OPERATION, 0));
    for index in 1..3 {
        let flushed = (RESP_ERR, FLUSHED, index as u16);
        assert_eq!(verdict(&mut n, RECV_CQ, index), flushed);
    }
    assert_eq!(n.cqe(RECV_CQ, 3)[63], 0xf1);
    assert_eq!(n.modify_rq(3, 0), 0);
}

#[test]
fn a_receive_record_that_is_no_memory_stops_the_queue() {
    let mut n = Netdev::with_receive_queue_at(RQ, MEMORY as u64);
    let own = n.driver.hca.config.mac;
    n.driver.hca.receive(1, &frame(own, 100));
    // Nobody knows what is posted.
    n.driver.hca.run(1_000_000_000, 64);
    assert_eq!(n.cqe(RECV_CQ, 0)[63], 0xf1);
    assert_eq!(n.modify_rq(1, 1), BAD_RES_STATE);
    assert_eq!(n.modify_rq(3, 0), 0);
}

#[test]
fn more_receives_than_fit_stop_the_queue() {
    let mut n = Netdev::new();
    let own = n.driver.hca.config.mac;
    // The ring has 16 WQEs.
    n.post_receive(16, 1024);
    n.driver.hca.receive(1, &frame(own, 100));
    assert_eq!(n.modify_rq(1, 1), BAD_RES_STATE);
    assert_eq!(n.modify_rq(3, 0), 0);
}

#[test]
fn a_vlan_tag_is_taken_off_unless_that_is_switched_off() {
    let mut n = Netdev::new();
    let own = n.driver.hca.config.mac;
    let plain = frame(own, 100);
    let tagged = [&plain[..12], &[0x81, 0, 0x60, 5], &plain[12..]].concat();
    for index in 0..4 {
        n.post_receive(index, 1024);
    }
    let tell = |n: &mut Netdev, index: u64| {
        let cqe = n.cqe(RECV_CQ, index);
        let len = u32::from_be_bytes([cqe[0x2c], cqe[0x2d], cqe[0x2e], cqe[0x2f]]);
        let got = n.driver.read::<200>(RECEIVED + 0x1000 * index);
        (
            got[..len as usize].to_vec(),
            cqe[0x1d] & 1,
            u16::from_be_bytes([cqe[0x1e], cqe[0x1f]]),
        )
    };
    n.driver.hca.receive(1, &tagged);
    assert_eq!(tell(&mut n, 0), (plain.clone(), 1, 0x6005));
    n.driver.hca.receive(1, &plain);
    assert_eq!(tell(&mut n, 1), (plain.clone(), 0, 0));
    let vsd = |select: u64, value| {
        move |input: &mut [u8]| {
            let bitmask = field!(mlx5_ifc_modify_rq_in_bits, modify_bitmask);
            set(input, bitmask, select);
            set(input, field!(mlx5_ifc_modify_rq_in_bits, ctx.vsd), value);
        }
    };
    assert_eq!(n.modify_rq_with(1, 1, vsd(0, 1)), 0);
    n.driver.hca.receive(1, &tagged);
    assert_eq!(tell(&mut n, 2).1, 1, "not selected");
    assert_eq!(n.modify_rq_with(1, 1, vsd(2, 1)), 0);
    n.driver.hca.receive(1, &tagged);
    assert_eq!(tell(&mut n, 3), (tagged, 0, 0));
    // Scattering of the FCS, and a set of counters.
    for select in [4, 8] {
        assert_eq!(n.modify_rq_with(1, 1, vsd(select, 0)), BAD_PARAM);
    }
}
