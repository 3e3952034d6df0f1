// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames that a function sends to itself, and those that its port does not let out.

use connectx::config::Kind;
use connectx::driver::command;
use connectx::faults::{inject, Injection};
use connectx::{field, size};

use crate::stage::*;

/// A group that the driver has not asked for.
const GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0, 7];

impl Netdev {
    /// Switches the virtual port's loopback on or off, as `mlx5_nic_vport_update_local_lb` does.
    fn set_local_loopback(&mut self, on: bool) {
        let mut input = command(0x755, 0, size!(mlx5_ifc_modify_nic_vport_context_in_bits));
        macro_rules! vport {
            ($($name:ident).+, $value:expr) => {
                set(
                    &mut input,
                    field!(mlx5_ifc_modify_nic_vport_context_in_bits, $($name).+),
                    $value,
                )
            };
        }
        vport!(field_select.disable_uc_local_lb, 1);
        vport!(field_select.disable_mc_local_lb, 1);
        vport!(nic_vport_context.disable_uc_local_lb, (!on).into());
        vport!(nic_vport_context.disable_mc_local_lb, (!on).into());
        assert_eq!(self.driver.execute(&input, 16)[0], 0);
    }

    /// Has the TIR take frames of its own domain: to one address (1), to groups (2).
    fn let_in(&mut self, bits: u64) {
        let mut input = command(0x901, 0, size!(mlx5_ifc_modify_tir_in_bits));
        macro_rules! tir {
            ($($name:ident).+, $value:expr) => {
                set(
                    &mut input,
                    field!(mlx5_ifc_modify_tir_in_bits, $($name).+),
                    $value,
                )
            };
        }
        tir!(tirn, self.tir.into());
        tir!(bitmask.self_lb_en, 1);
        tir!(ctx.self_lb_block, bits);
        assert_eq!(self.driver.execute(&input, 16)[0], 0);
    }

    /// Sends a frame; whether it left, and whether it came back.
    fn send(&mut self, index: u16, dmac: [u8; 6]) -> (bool, bool) {
        let frame = frame(dmac, 300);
        let before = self.driver.hca.io.counters.recv_wqes;
        self.post_frame(index, &frame, self.key);
        let left = !self.driver.hca.take_output().frames.is_empty();
        let back = self.driver.hca.io.counters.recv_wqes - before == 1;
        if back {
            let place = before;
            assert_eq!(
                self.driver.read::<300>(RECEIVED + 0x1000 * place),
                frame[..]
            );
        }
        (left, back)
    }
}

#[test]
fn what_comes_back_is_chosen_by_port_and_receiver() {
    let own = Netdev::new().driver.hca.config.mac;
    let (left, back, both) = ((true, false), (false, true), (true, true));
    let (nowhere, foreign) = ((false, false), [2; 6]);
    for (on, bits, unicast, group) in [
        (false, 3, left, left),
        (true, 0, nowhere, left),
        (true, 1, back, left),
        (true, 2, nowhere, both),
        (true, 3, back, both),
    ] {
        for (dmac, want) in [(own, unicast), (GROUP, group), (foreign, left)] {
            let mut n = Netdev::new();
            n.set_local_loopback(on);
            n.let_in(bits);
            n.post_receive(0, 1024);
            assert_eq!(n.send(0, dmac), want, "{on} {bits} {dmac:x?}");
        }
    }
}

#[test]
fn other_domains_hear_each_other() {
    let mut n = Netdev::new();
    let own = n.driver.hca.config.mac;
    n.set_local_loopback(true);
    // Another transport domain's TIS, and nothing let in from the own one.
    let td = n.driver.create(&command(0x816, 0, 16));
    let mut input = command(0x912, 0, size!(mlx5_ifc_create_tis_in_bits));
    let domain = field!(mlx5_ifc_create_tis_in_bits, ctx.transport_domain);
    set(&mut input, domain, td.into());
    let tis = n.driver.create(&input);
    let sqn = n.sqn;
    n.driver.hca.net.sqs.get_mut(sqn).unwrap().tis = Some(tis);
    n.post_receive(0, 1024);
    assert_eq!(n.send(0, own), (false, true));
}

#[test]
fn the_eswitch_brings_a_virtual_function_what_its_driver_asked_for() {
    let mut n = Netdev::of(Kind::Vf);
    n.set_local_loopback(true);
    n.let_in(3);
    n.post_receive(0, 1024);
    assert_eq!(n.send(0, GROUP), (true, false));
    n.driver.hca.receive(1, &frame(GROUP, 64));
    assert_eq!(n.driver.hca.io.counters.frames_dropped, 1);
    n.driver.hca.vport.multicast.push(GROUP);
    assert_eq!(n.send(1, GROUP), (true, true));
}

#[test]
fn a_port_that_is_down_sends_nothing_and_says_so() {
    let mut n = Netdev::new();
    inject(&mut n.driver.hca, Injection::Port { up: false }).unwrap();
    assert_eq!(n.send(0, [0xff; 6]), (false, false));
    let counters = n.driver.hca.io.counters;
    assert_eq!((counters.frames_sent, counters.frames_dropped), (0, 1));
    // For the driver, it was sent.
    assert_eq!(n.cqe(SEND_CQ, 0)[63], 0);
    inject(&mut n.driver.hca, Injection::Port { up: true }).unwrap();
    assert_eq!(n.send(1, [0xff; 6]), (true, false));
    assert_eq!(n.driver.hca.io.counters.frames_sent, 1);
}
