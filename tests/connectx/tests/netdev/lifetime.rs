// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Who uses what, and which command comes when.

use connectx::config::{Kind, PageRequest};
use connectx::driver::{command, Driver};
use connectx::pages::Pages;

use crate::stage::*;

/// Status bytes of refusals.
const BAD_OP: u8 = 0x2;
const BAD_SYS_STATE: u8 = 0x4;
const BAD_RES: u8 = 0x5;
const RES_BUSY: u8 = 0x6;
const NO_RESOURCES: u8 = 0xf;
const BAD_INPUT_LEN: u8 = 0x50;

#[test]
fn objects_in_use_stay_and_all_can_go() {
    let mut n = Netdev::new();
    let busy = [
        (0x801, n.pd),
        (0x803, n.uar),
        (0x817, n.td),
        (0x302, n.eqn),
        (0x401, n.send_cq),
        (0x401, n.recv_cq),
        (0x90a, n.rqn),
        (0x902, n.tir),
        (0x914, n.tis),
    ];
    for (opcode, number) in busy {
        assert_eq!(n.destroy(opcode, number), RES_BUSY, "{opcode:#x}");
    }
    assert_eq!(n.destroy_flow(0x934, 0x18, n.group), RES_BUSY);
    assert_eq!(n.destroy_flow(0x931, 0x14, n.table), RES_BUSY);

    assert_eq!(n.destroy_flow(0x938, 0x20, 0), 0);
    assert_eq!(n.destroy_flow(0x934, 0x18, n.group), 0);
    assert_eq!(n.destroy_flow(0x931, 0x14, n.table), 0);
    let free = [
        (0x902, n.tir),
        (0x90a, n.rqn),
        (0x906, n.sqn),
        (0x914, n.tis),
        (0x401, n.send_cq),
        (0x401, n.recv_cq),
        (0x302, n.eqn),
        (0x202, n.key >> 8),
        (0x801, n.pd),
        (0x803, n.uar),
        (0x817, n.td),
    ];
    for (opcode, number) in free {
        assert_eq!(n.destroy(opcode, number), 0, "{opcode:#x}");
        assert_eq!(n.destroy(opcode, number), BAD_RES, "{opcode:#x} twice");
    }
    let left: Vec<_> = n.driver.hca.objects();
    assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
    assert_eq!(n.driver.execute(&command(0x103, 0, 16), 16)[0], 0);
    assert_eq!(n.driver.hca.leaked().count(), 0);
}

#[test]
fn what_is_alive_at_teardown_is_reported() {
    let mut n = Netdev::new();
    assert_eq!(n.driver.execute(&command(0x103, 0, 16), 16)[0], 0);
    let leaked: Vec<_> = n.driver.hca.leaked().collect();
    assert!(
        leaked.contains(&("sq", 1)) && leaked.contains(&("cq", 2)),
        "{leaked:?}"
    );
    assert!(n.driver.hca.objects().iter().all(|(_, count)| *count == 0));
}

#[test]
fn commands_are_refused_out_of_turn() {
    let mut driver = Driver::new(Kind::Vf);
    let status = |driver: &mut Driver, input: &[u8]| driver.execute(input, 16)[0];
    assert_eq!(status(&mut driver, &command(0x102, 0, 32)), BAD_SYS_STATE);
    assert_eq!(status(&mut driver, &command(0x800, 0, 16)), BAD_SYS_STATE);
    assert_eq!(status(&mut driver, &command(0x104, 0, 12)), 0);
    assert_eq!(status(&mut driver, &command(0x104, 0, 12)), BAD_SYS_STATE);
    assert_eq!(status(&mut driver, &command(0x102, 0, 32)), 0);
    assert_eq!(status(&mut driver, &command(0x105, 0, 12)), BAD_SYS_STATE);
    assert_eq!(status(&mut driver, &command(0x7ff, 0, 16)), BAD_OP);
    let short = command(0x301, 0, 16);
    assert_eq!(status(&mut driver, &short), BAD_INPUT_LEN);
    let counters = driver.hca.io.counters;
    assert_eq!((counters.commands, counters.commands_failed), (8, 6));
}

#[test]
fn the_firmware_gets_its_pages_before_it_starts() {
    let mut driver = Driver::new(Kind::Pf);
    driver.hca.pages = Pages::new(PageRequest {
        boot: 1,
        init: 1,
        canary: false,
    });
    let status = |driver: &mut Driver, input: &[u8]| driver.execute(input, 16)[0];
    assert_eq!(status(&mut driver, &command(0x104, 0, 12)), 0);
    for page in [0x70_0000u64, 0x70_1000] {
        assert_eq!(status(&mut driver, &command(0x102, 0, 32)), NO_RESOURCES);
        let mut give = command(0x108, 1, 16);
        give[15] = 1;
        give.extend(page.to_be_bytes());
        assert_eq!(status(&mut driver, &give), 0);
    }
    assert_eq!(status(&mut driver, &command(0x102, 0, 32)), 0);
}
