// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arming: the driver wants to hear of the next completion.

use super::{Arm, INDEX_MASK, SYNDROME_ACCESS};
use crate::hca::Hca;

/// An arm doorbell: the two big-endian words written to offset 0x20 of UAR page `page`.
///
/// The doorbell names the queue, and makes the device read the doorbell record. What is wanted stands there: the
/// consumer index, and in the second word the sequence number, command and index of the arming. A driver that does
/// not write them before it rings gets no event, and in the end an overrun.
///
/// An arming whose sequence number is not that of the next event is stale: the event it asks for was raised, and the
/// driver has not seen it yet.
///
/// The event comes at once when an entry waits that the driver has not taken and that no event has told of: one at or
/// behind the index of the arming, and at or behind `cqc.last_notified_index`. A driver that arms with entries left
/// over that it was told of hears of them with the next entry. The kernel's drivers look again by themselves then
/// (`ib_cq_poll_work`, `mlx5e_napi_poll`); perftest's latency tests arm before they take the entry that they were
/// told of, and count on one event for it (`ctx_notify_events`); its bandwidth tests, which left entries over, hung
/// on a ConnectX-5 (github.com/linux-rdma/perftest/pull/138).
pub fn arm(hca: &mut Hca, page: u32, words: [u32; 2]) {
    let Hca { cqs, eqs, io, .. } = hca;
    let [rung, number] = words;
    let cqn = number & INDEX_MASK;
    let Some(cq) = cqs.table.get_mut(cqn) else {
        io.counters.mmio.ignored += 1;
        return;
    };
    if cq.config.uar != page {
        io.counters.mmio.foreign_uar += 1;
        return;
    }
    let Some([consumer, command]) = cq.read_record(io) else {
        cq.fail(cqn, SYNDROME_ACCESS, eqs, io);
        cqs.timers.set(cqn, None);
        return;
    };
    if command != rung {
        io.counters.mmio.arm_mismatches += 1;
        log::warn!("CQ {cqn:#x}: armed with {rung:#x}, but the doorbell record says {command:#x}");
    }
    cq.consumer = consumer;
    let sn = ((command >> 28) & 3) as u8;
    if cq.failed() || sn != cq.event_sn {
        log::debug!(
            "CQ {cqn:#x}: arm with sequence number {sn}, expected {}",
            cq.event_sn
        );
        return;
    }
    let seen = command & INDEX_MASK;
    let solicited_only = (command >> 24) & 1 != 0;
    if solicited_only {
        // An arming for any completion is not taken back by one for solicited ones.
        if cq.arm == Arm::Disarmed {
            cq.arm = Arm::Solicited;
        }
        let waiting = cq
            .last_solicited
            .is_some_and(|index| crate::wire::psn_diff(index, seen) > 0);
        if waiting {
            cq.fire(cqn, eqs, io);
        }
        return;
    }
    cq.arm = Arm::Next;
    // What the driver has taken needs no event any more.
    cq.unreported = cq.unreported.min(cq.used(seen));
    cqs.settle(cqn, eqs, io);
}
