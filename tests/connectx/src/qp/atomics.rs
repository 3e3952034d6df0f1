// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomics, on the side that has the memory.

use super::access::{self, Owner};
use super::env::Env;
use super::replies;
use super::requests::{check_depth, Refusal};
use super::responder::Executed;
use super::Qp;
use crate::mkey::Right;
use crate::wire::{psn_add, AtomicEth, NakCode, Op, Packet};

/// Carries out an atomic; returns how many sequence numbers it takes.
pub fn take(
    qp: &mut Qp,
    env: &mut Env<'_>,
    packet: &Packet<'_>,
    owner: &Owner,
) -> Result<u32, Refusal> {
    let invalid = Refusal::Nak(NakCode::InvalidRequest);
    let Some(atomic) = packet.ext.atomic else {
        return Err(invalid);
    };
    env.count(qp.attributes.counter_set, |c| &mut c.rx_atomic_requests);
    check_depth(qp)?;
    if atomic.va % 8 != 0 {
        return Err(invalid);
    }
    if !qp.attributes.remote_atomic {
        return Err(Refusal::Nak(NakCode::RemoteAccess));
    }
    let access = owner.access(atomic.rkey, atomic.va, 8, Right::Atomic);
    let op = packet.bth.opcode.op;
    let host_order = env.host_order_atomics;
    let raw = access::update(env.mkeys, env.io, access, |raw| {
        operand(host_order, execute(op, &atomic, operand(host_order, raw)))
    })?;
    let old = operand(host_order, raw);
    env.io.event(qp.number, "Atomic", atomic.va);
    qp.responder.msn = psn_add(qp.responder.msn, 1);
    let psn = packet.bth.psn;
    qp.responder.executed.push_back(Executed { psn, old });
    if qp.responder.executed.len() > qp.attributes.max_reads_in as usize {
        qp.responder.executed.pop_front();
    }
    replies::atomic(qp, psn, old);
    Ok(1)
}

/// Between a word as the host's CPU loads it and the number that it stands for.
fn operand(host_order: bool, word: u64) -> u64 {
    if host_order {
        word
    } else {
        word.swap_bytes()
    }
}

/// The new value of an atomic's operand.
fn execute(op: Op, atomic: &AtomicEth, old: u64) -> u64 {
    match op {
        Op::CompareSwap | Op::MaskedCompareSwap => {
            if (old ^ atomic.compare) & atomic.compare_mask == 0 {
                (old & !atomic.swap_add_mask) | (atomic.swap_add & atomic.swap_add_mask)
            } else {
                old
            }
        }
        _ => add_in_fields(old, atomic.swap_add, atomic.swap_add_mask),
    }
}

/// Adds without a carry out of the bits set in `tops`, each the top bit of a field.
fn add_in_fields(a: u64, b: u64, tops: u64) -> u64 {
    (a & !tops).wrapping_add(b & !tops) ^ ((a ^ b) & tops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_keeps_to_its_fields() {
        assert_eq!(add_in_fields(u64::MAX, 1, 0), 0);
        // Two fields of 32 bits: the carry of the lower one is lost.
        let tops = 1 << 31;
        assert_eq!(add_in_fields(0xffff_ffff, 1, tops), 0);
        assert_eq!(
            add_in_fields(0x1_0000_0000, 0xffff_ffff, tops),
            0x1_ffff_ffff
        );
        assert_eq!(add_in_fields(0x8000_0000, 0x8000_0000, tops), 0);
        // A field per bit is an exclusive or.
        assert_eq!(add_in_fields(0b1100, 0b1010, u64::MAX), 0b0110);
    }

    #[test]
    fn compare_and_swap_looks_through_its_masks() {
        let a = AtomicEth {
            va: 0,
            rkey: 0,
            swap_add: 0xaaaa,
            compare: 0x12,
            swap_add_mask: 0xff00,
            compare_mask: 0x00ff,
        };
        assert_eq!(execute(Op::MaskedCompareSwap, &a, 0x5512), 0xaa12);
        assert_eq!(execute(Op::MaskedCompareSwap, &a, 0x5513), 0x5513);
    }
}
