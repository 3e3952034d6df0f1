// SPDX-License-Identifier: GPL-2.0 OR MIT

//! UAR pages: where doorbells are rung.
//!
//! A page of 4 KiB holds the CQ doorbell, the EQ doorbells and four doorbell registers
//! (bfregs) of two halves each. A write of 8 bytes to a half is a send doorbell: the first bytes
//! of a WQE's control segment. A card tells by the size of the bus transaction whether the rest of
//! the WQE comes along (BlueFlame). A VMM cuts a 64-byte write into accesses of 8 bytes, so a
//! doorbell may turn out to be the start of such a write: it is held for a moment, unless the half
//! has shown that it is never used so. A queue pair's doorbell that was held for nothing does what it
//! would have done at once: what the doorbell record has become meanwhile does not count.

use crate::hca::Hca;
use crate::timers::Timers;
use crate::{cq, net, qp};

/// Number of the first UAR page; those below would overlap the other registers of BAR0.
pub const FIRST: u32 = 16;
/// Number of UAR pages: up to the end of BAR0.
pub const COUNT: u32 = (1 << (crate::caps::LOG_UAR_MIB + 20 - 12)) - FIRST;

const CQ_DOORBELL: u64 = 0x20;
const EQ_ARM: u64 = 0x40;
const EQ_UPDATE: u64 = 0x48;
/// Where the doorbell registers start.
const BFREGS: u64 = 0x800;
/// Bytes of half a doorbell register: one BlueFlame buffer.
const HALF: u64 = 1 << (crate::caps::LOG_BF_REG_SIZE - 1);
/// Halves in a page.
pub const HALVES: usize = ((0x1000 - BFREGS) / HALF) as usize;
/// Bytes of the doorbell itself.
const DOORBELL: usize = 8;

/// How long a doorbell is held for the next bytes of a WQE, in nanoseconds: several round trips of
/// a trapped access on a busy machine.
pub const HOLD: u64 = 20_000_000;
/// So many held doorbells in a row without a rest, and a half is not held any more.
const PATIENCE: u8 = 4;

/// A send queue doorbell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// Queue number.
    pub qpn: u32,
    /// WQE index of the WQE whose control segment was written: basic blocks, modulo 65536.
    pub wqe_index: u16,
    /// The WQE as written through the BlueFlame register, if it was written as a whole. It takes
    /// the place of the WQE at `wqe_index` in memory.
    pub blueflame: Option<Vec<u8>>,
    /// It came without any more of the WQE, and the queue pair was told when it arrived
    /// ([`qp::doorbell_arrives`]).
    pub alone: bool,
}

impl Doorbell {
    /// Reads the first two words of a control segment: opmod, index, opcode; QPN, size.
    fn decode(head: [u8; DOORBELL]) -> Self {
        let [_, hi, lo, _, q2, q1, q0, _] = head;
        Self {
            qpn: u32::from_be_bytes([0, q2, q1, q0]),
            wqe_index: u16::from_be_bytes([hi, lo]),
            blueflame: None,
            alone: false,
        }
    }
}

/// Bytes that a WQE takes in a BlueFlame buffer: its segments of 16 bytes, in blocks of 64.
fn blueflame_len(head: &[u8; DOORBELL]) -> usize {
    usize::from(head[7] & 0x3f).div_ceil(4) * 64
}

/// What is known about half a doorbell register.
#[derive(Clone, Debug, Default)]
struct Half {
    /// Bytes written so far of what may be a WQE; empty if no doorbell is held.
    held: Vec<u8>,
    /// Held doorbells without a rest since the last BlueFlame write.
    disappointments: u8,
    /// Where the rest of a WQE would go on whose doorbell was rung already.
    follows: usize,
}

impl Half {
    fn is_held(&self) -> bool {
        !self.held.is_empty()
    }
}

/// A UAR page.
#[derive(Debug, Default)]
pub struct Uar {
    halves: [Half; HALVES],
}

/// The halves that hold a doorbell.
#[derive(Debug, Default)]
pub struct HeldDoorbells(Timers);

impl HeldDoorbells {
    fn id(page: u32, half: usize) -> u32 {
        page * HALVES as u32 + half as u32
    }

    fn hold(&mut self, page: u32, half: usize, now: u64) {
        self.0
            .set(Self::id(page, half), Some(now.saturating_add(HOLD)));
    }

    fn release(&mut self, page: u32, half: usize) {
        self.0.set(Self::id(page, half), None);
    }

    fn pop_due(&mut self, now: u64) -> Option<(u32, usize)> {
        let id = self.0.pop_due(now)?;
        Some((id / HALVES as u32, id as usize % HALVES))
    }

    /// When the first doorbell must be rung, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.next()
    }
}

/// A write to the UAR pages of BAR0.
pub fn write(hca: &mut Hca, offset: u64, data: &[u8]) {
    let (page, at) = ((offset >> 12) as u32, offset & 0xfff);
    if hca.uars.get(page).is_none() {
        hca.io.counters.mmio.ignored += 1;
        return;
    }
    match (at, data) {
        (CQ_DOORBELL, &[a, b, c, d, e, f, g, h]) => {
            hca.io.counters.mmio.cq_arms += 1;
            let words = [
                u32::from_be_bytes([a, b, c, d]),
                u32::from_be_bytes([e, f, g, h]),
            ];
            cq::arm(hca, page, words);
        }
        (EQ_ARM | EQ_UPDATE, &[a, b, c, d]) => {
            hca.io.counters.mmio.eq_doorbells += 1;
            let word = u32::from_be_bytes([a, b, c, d]);
            hca.eqs.doorbell(&mut hca.io, page, word, at == EQ_ARM);
        }
        (BFREGS.., _) => {
            let half = ((at - BFREGS) / HALF) as usize;
            write_half(hca, page, half, (at % HALF) as usize, data);
        }
        _ => hca.io.counters.mmio.ignored += 1,
    }
}

/// A write of `data` at byte `at` of half a doorbell register.
fn write_half(hca: &mut Hca, page: u32, index: usize, at: usize, data: &[u8]) {
    if at == 0 {
        // Whatever was held before, in this half or the one that alternates with it, is not going
        // to be completed.
        flush(hca, page, index ^ 1);
        flush(hca, page, index);
    }
    let Some(half) = hca
        .uars
        .get_mut(page)
        .and_then(|uar| uar.halves.get_mut(index))
    else {
        return;
    };
    if at == 0 && data.len() >= DOORBELL {
        hca.io.counters.mmio.sq_doorbells += 1;
        half.held = data.to_vec();
        if let Ok(head) = <[u8; DOORBELL]>::try_from(data) {
            let impatient = half.disappointments >= PATIENCE;
            qp::doorbell_arrives(hca, Doorbell::decode(head).qpn, page);
            if impatient {
                flush(hca, page, index);
            } else {
                hca.held.hold(page, index, hca.io.now);
            }
            return;
        }
        hca.io.counters.mmio.blueflame_bytes += (data.len() - DOORBELL) as u64;
    } else if half.is_held() && at == half.held.len() {
        hca.io.counters.mmio.blueflame_bytes += data.len() as u64;
        half.held.extend_from_slice(data);
        hca.held.hold(page, index, hca.io.now);
    } else if at != 0 && at == half.follows {
        // The rest of a WQE after all: from now on, this half is held.
        hca.io.counters.mmio.blueflame_bytes += data.len() as u64;
        half.follows += data.len();
        half.disappointments = 0;
        return;
    } else {
        hca.io.counters.mmio.ignored += 1;
        return;
    }
    let whole = half.held.first_chunk().map(blueflame_len);
    if whole.is_some_and(|whole| (64..=HALF as usize).contains(&whole) && half.held.len() >= whole)
    {
        flush(hca, page, index);
    }
}

/// Rings the doorbell that a half holds, if any.
fn flush(hca: &mut Hca, page: u32, index: usize) {
    let Some(half) = hca
        .uars
        .get_mut(page)
        .and_then(|uar| uar.halves.get_mut(index))
    else {
        return;
    };
    let written = std::mem::take(&mut half.held);
    let Some(head) = written.first_chunk::<DOORBELL>() else {
        return;
    };
    half.follows = written.len();
    let mut doorbell = Doorbell::decode(*head);
    let whole = blueflame_len(head);
    if written.len() > DOORBELL {
        half.disappointments = 0;
        if (64..=written.len()).contains(&whole) {
            hca.io.counters.mmio.blueflame_wqes += 1;
            doorbell.blueflame = Some(written);
        }
    } else {
        doorbell.alone = true;
        half.disappointments = half.disappointments.saturating_add(1);
    }
    hca.held.release(page, index);
    ring(hca, page, index, doorbell);
}

/// Hands a doorbell to the queue it names, if that queue is to be rung through this page: a page
/// is mapped to one process, whose doorbells must not reach the queues of others.
fn ring(hca: &mut Hca, page: u32, half: usize, doorbell: Doorbell) {
    let qp = hca.qps.table.get_mut(doorbell.qpn).map(|qp| {
        match qp.stats.halves.get_mut(half) {
            Some(count) if qp.uar == page => *count += 1,
            _ => {}
        }
        qp.uar
    });
    let own = qp.or_else(|| hca.net.sqs.get(doorbell.qpn).map(|sq| sq.uar));
    match own {
        None => hca.io.counters.mmio.ignored += 1,
        Some(own) if own != page => {
            hca.io.counters.mmio.foreign_uar += 1;
            log::debug!(
                "queue {:#x} of page {own:#x} rung through {page:#x}",
                doorbell.qpn
            );
        }
        Some(_) if hca.io.faults.loses_doorbell(doorbell.qpn) => {
            let index = doorbell.wqe_index.into();
            hca.io.event(doorbell.qpn, "Doorbell Lost", index);
        }
        Some(_) if qp.is_some() => qp::doorbell(hca, doorbell),
        Some(_) => net::doorbell(hca, doorbell),
    }
}

/// Rings the doorbells that have been held long enough.
pub fn run(hca: &mut Hca) {
    while let Some((page, index)) = hca.held.pop_due(hca.io.now) {
        flush(hca, page, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FunctionConfig, Kind};

    /// Control segment of a WQE of one basic block on QP 0x77, index 3.
    const HEAD: [u8; 8] = [0, 0, 3, 0, 0, 0, 0x77, 4];

    fn hca() -> Hca {
        let mut hca = Hca::new(FunctionConfig::new(0, Kind::Pf));
        assert_eq!(hca.uars.insert(Uar::default()).unwrap(), FIRST);
        hca
    }

    fn half(hca: &Hca, index: usize) -> &Half {
        &hca.uars.get(FIRST).unwrap().halves[index]
    }

    fn at(offset: u64) -> u64 {
        u64::from(FIRST) * 4096 + offset
    }

    #[test]
    fn a_copy_of_64_bytes_is_one_wqe() {
        let mut hca = hca();
        hca.mmio_write(0, at(0x800), &HEAD);
        for offset in (8..64).step_by(8) {
            assert!(half(&hca, 0).is_held());
            // Slowly, but each part within the time.
            hca.run(offset * HOLD / 16, 1);
            hca.mmio_write(offset * HOLD / 16, at(0x800 + offset), &[0; 8]);
        }
        assert!(!half(&hca, 0).is_held());
        let mmio = hca.io.counters.mmio;
        assert_eq!(
            (mmio.sq_doorbells, mmio.blueflame_wqes, mmio.blueflame_bytes),
            (1, 1, 56)
        );
        assert_eq!(hca.next_deadline(), None);
    }

    #[test]
    fn a_doorbell_alone_is_rung_when_its_time_is_over() {
        let mut hca = hca();
        hca.mmio_write(0, at(0xa00), &HEAD);
        assert_eq!(hca.next_deadline(), Some(HOLD));
        hca.run(HOLD - 1, 1);
        assert!(half(&hca, 2).is_held());
        hca.run(HOLD, 1);
        assert!(!half(&hca, 2).is_held());
        // The rest of the WQE comes late: it does no harm, and the half is known for it.
        hca.mmio_write(HOLD, at(0xa08), &[0; 8]);
        assert_eq!(hca.io.counters.mmio.blueflame_bytes, 8);
        assert_eq!(half(&hca, 2).disappointments, 0);
    }

    #[test]
    fn the_other_half_and_the_next_doorbell_end_the_wait() {
        let mut hca = hca();
        hca.mmio_write(0, at(0x800), &HEAD);
        hca.mmio_write(1, at(0x900), &HEAD);
        assert!(!half(&hca, 0).is_held() && half(&hca, 1).is_held());
        hca.mmio_write(2, at(0x900), &HEAD);
        assert_eq!(
            (half(&hca, 1).held.len(), half(&hca, 1).disappointments),
            (8, 1)
        );
    }

    #[test]
    fn a_half_that_never_sees_a_copy_is_not_held() {
        let mut hca = hca();
        for i in 0..u64::from(PATIENCE) {
            hca.mmio_write(i * HOLD, at(0x800), &HEAD);
            hca.run((i + 1) * HOLD, 1);
        }
        hca.mmio_write(100 * HOLD, at(0x800), &HEAD);
        assert!(!half(&hca, 0).is_held());
        assert_eq!(hca.io.counters.mmio.sq_doorbells, u64::from(PATIENCE) + 1);
    }

    #[test]
    fn writes_to_nowhere_are_counted() {
        let mut hca = hca();
        for (offset, len) in [
            (at(0x20), 4),
            (at(0x40), 8),
            (at(0x100), 8),
            (at(0x1800), 8),
        ] {
            hca.mmio_write(0, offset, &vec![0; len]);
        }
        hca.mmio_write(0, u64::MAX, &[0; 8]);
        // At half an offset, and with the first word alone.
        hca.mmio_write(0, at(0x810), &[0; 8]);
        hca.mmio_write(0, at(0x800), &[0; 4]);
        assert_eq!(hca.io.counters.mmio.ignored, 7);
    }
}
