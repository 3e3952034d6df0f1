// SPDX-License-Identifier: GPL-2.0 OR MIT

//! RoCE frames that come to a virtual port with and without RoCE.

use connectx::driver::command;
use connectx::{field, size};

use crate::stage::*;

/// An IPv6 packet to the UDP port of RoCE.
fn roce_frame(dmac: [u8; 6]) -> Vec<u8> {
    let transport = [0; 32];
    let udp_len = 8 + transport.len() as u16;
    let mut frame = [dmac, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(udp_len.to_be_bytes());
    frame.extend([17, 64]);
    frame.extend([[0xfd; 16], [0xfe; 16]].concat());
    frame.extend([0xc0, 0]);
    frame.extend(4791u16.to_be_bytes());
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(transport);
    frame
}

fn set_roce(n: &mut Netdev, on: u64) {
    macro_rules! modify {
        ($($name:ident).+) => {
            field!(mlx5_ifc_modify_nic_vport_context_in_bits, $($name).+)
        };
    }
    let mut input = command(0x755, 0, size!(mlx5_ifc_modify_nic_vport_context_in_bits));
    set(&mut input, modify!(field_select.roce_en), 1);
    set(&mut input, modify!(nic_vport_context.roce_en), on);
    assert_eq!(n.driver.execute(&input, 16)[0], 0);
}

#[test]
fn roce_frames_are_for_the_netdev_while_roce_is_off() {
    let mut n = Netdev::new();
    let frame = roce_frame(n.driver.hca.config.mac);
    for index in 0..3 {
        n.post_receive(index, 1024);
    }
    // Off after a reset; then on, and off again.
    let mut received = 0;
    for on in [None, Some(1), Some(0)] {
        if let Some(on) = on {
            set_roce(&mut n, on);
        }
        n.driver.hca.receive(1, &frame);
        let dropped = n.driver.hca.io.counters.frames_dropped;
        // No queue pair is there to take it.
        assert_eq!(dropped, u64::from(on.is_some()), "RoCE {on:?}");
        received += u64::from(on != Some(1));
        let next = n.cqe(RECV_CQ, received)[63];
        assert_eq!(next, 0xf1, "RoCE {on:?}");
        assert_eq!(n.cqe(RECV_CQ, received - 1)[63], 2 << 4, "RoCE {on:?}");
    }
}
