// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The command queue in guest memory (`drivers/net/ethernet/mellanox/mlx5/core/cmd.c`).
//!
//! An entry of 64 bytes holds the first 16 bytes of input and output; what is longer stands in
//! chains of mailbox blocks with 512 bytes of data each. The driver hands an entry over by its
//! ownership bit and rings the command doorbell with a bit per slot. The device writes the
//! output, then clears the ownership bit, then raises a command event.

use super::execute;
use crate::dma::{DmaError, Kind};
use crate::eq::AsyncEvent;
use crate::hca::Hca;
use crate::iseg::{LOG_CMDQ_SIZE, LOG_CMDQ_STRIDE};

/// Bytes of input and output inside an entry.
const INLINE: usize = 16;
/// Bytes of data in a mailbox block.
const BLOCK_DATA: usize = 512;
/// Bytes of a mailbox block (`struct mlx5_cmd_prot_block`).
const BLOCK: usize = 576;
/// Longest input or output that is accepted.
const MAX_LEN: usize = 16 << 20;
/// Type of an entry that is a command (`MLX5_PCI_CMD_XPORT`).
const PCI_CMD_XPORT: u8 = 7;

/// Why a command could not be delivered at all (`deliv_status_to_err`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    TokenErr = 0x2,
    BadBlockNumber = 0x3,
    OutPtrAlignErr = 0x4,
    InPtrAlignErr = 0x5,
    InLengthErr = 0x7,
    OutLengthErr = 0x8,
    BadDescriptor = 0x10,
}

/// Fields of a command queue entry.
struct Entry {
    kind: u8,
    in_len: usize,
    in_ptr: u64,
    input: [u8; INLINE],
    out_ptr: u64,
    out_len: usize,
    token: u8,
    hardware_owned: bool,
}

impl Entry {
    fn parse(raw: &[u8; 64]) -> Self {
        let word = |at: usize| {
            raw.iter()
                .skip(at)
                .take(4)
                .fold(0, |v, b| (v << 8) | u32::from(*b))
        };
        let long = |at: usize| (u64::from(word(at)) << 32) | u64::from(word(at + 4));
        let mut input = [0; INLINE];
        input.copy_from_slice(&raw[16..32]);
        Self {
            kind: raw[0],
            in_len: word(4) as usize,
            in_ptr: long(8),
            input,
            out_ptr: long(48),
            out_len: word(56) as usize,
            token: raw[60],
            hardware_owned: raw[63] & 1 != 0,
        }
    }
}

/// Fields of a mailbox block that follow the data.
struct Block {
    next: u64,
    number: u32,
    token: u8,
}

fn read_block(hca: &mut Hca, addr: u64) -> Result<([u8; BLOCK_DATA], Block), DmaError> {
    let mut raw = [0; BLOCK];
    hca.io.memory.read(Kind::Command, addr, &mut raw)?;
    let mut data = [0; BLOCK_DATA];
    data.copy_from_slice(&raw[..BLOCK_DATA]);
    let word = |at: usize| {
        raw.iter()
            .skip(at)
            .take(4)
            .fold(0, |v, b| (v << 8) | u32::from(*b))
    };
    let block = Block {
        next: (u64::from(word(0x230)) << 32) | u64::from(word(0x234)),
        number: word(0x238),
        token: raw[0x23d],
    };
    Ok((data, block))
}

/// Walks the mailbox chain at `addr` over `len` bytes and calls `f(hca, block address, data)`
/// with the part of each block's data that belongs to the message. A chain may be longer than
/// the message.
fn walk(
    hca: &mut Hca,
    mut addr: u64,
    len: usize,
    token: u8,
    misaligned: Delivery,
    mut f: impl FnMut(&mut Hca, u64, &[u8]) -> Result<(), DmaError>,
) -> Result<(), Delivery> {
    let mut done = 0;
    let mut number = 0;
    while done < len {
        if addr % 1024 != 0 {
            return Err(misaligned);
        }
        let (data, block) = read_block(hca, addr).map_err(|_| Delivery::BadDescriptor)?;
        if block.token != token {
            return Err(Delivery::TokenErr);
        }
        if block.number != number {
            return Err(Delivery::BadBlockNumber);
        }
        let n = BLOCK_DATA.min(len - done);
        let part = data.get(..n).unwrap_or(&data);
        f(hca, addr, part).map_err(|_| Delivery::BadDescriptor)?;
        done += n;
        number += 1;
        addr = block.next;
    }
    Ok(())
}

/// Takes input from an entry, executes the command, and writes the output.
fn deliver(hca: &mut Hca, entry_addr: u64, entry: &Entry) -> Result<(), Delivery> {
    if entry.kind != PCI_CMD_XPORT {
        return Err(Delivery::BadDescriptor);
    }
    if !(8..=MAX_LEN).contains(&entry.in_len) {
        return Err(Delivery::InLengthErr);
    }
    if !(8..=MAX_LEN).contains(&entry.out_len) {
        return Err(Delivery::OutLengthErr);
    }
    let mut input = entry.input[..entry.in_len.min(INLINE)].to_vec();
    let rest = entry.in_len.saturating_sub(INLINE);
    walk(
        hca,
        entry.in_ptr,
        rest,
        entry.token,
        Delivery::InPtrAlignErr,
        |_, _, data| {
            input.extend_from_slice(data);
            Ok(())
        },
    )?;
    // Nothing is executed unless the output chain is in order.
    let rest = entry.out_len.saturating_sub(INLINE);
    let out_ptr_err = Delivery::OutPtrAlignErr;
    walk(
        hca,
        entry.out_ptr,
        rest,
        entry.token,
        out_ptr_err,
        |_, _, _| Ok(()),
    )?;

    let output = execute(hca, &input, entry.out_len);
    let (inline, chained) = output.split_at(output.len().min(INLINE));
    let mut blocks = chained.chunks(BLOCK_DATA);
    walk(
        hca,
        entry.out_ptr,
        rest,
        entry.token,
        out_ptr_err,
        |hca, addr, _| {
            let data = blocks.next().unwrap_or(&[]);
            hca.io.memory.write(Kind::Command, addr, data)
        },
    )?;
    let written = hca.io.memory.write(Kind::Command, entry_addr + 32, inline);
    written.map_err(|_| Delivery::BadDescriptor)
}

/// Executes the command in one slot, if there is one. Returns whether there was.
fn run_slot(hca: &mut Hca, slot: u32) -> bool {
    let base = hca.iseg.command_queue();
    let Some(addr) = base.checked_add(u64::from(slot) << LOG_CMDQ_STRIDE) else {
        return false;
    };
    let mut raw = [0; 64];
    if let Err(error) = hca.io.memory.read(Kind::Command, addr, &mut raw) {
        log::error!("{}: command queue: {error}", hca.name());
        return false;
    }
    let entry = Entry::parse(&raw);
    if !entry.hardware_owned {
        log::warn!(
            "{}: doorbell for slot {slot}, which the driver owns",
            hca.name()
        );
        return false;
    }
    let [hi, lo, ..] = entry.input;
    let opcode = u16::from_be_bytes([hi, lo]);
    if hca.io.faults.command_times_out(opcode) {
        log::warn!("{}: command {opcode:#x} in slot {slot} is lost", hca.name());
        return false;
    }
    let status = match deliver(hca, addr, &entry) {
        Ok(()) => 0,
        Err(delivery) => {
            log::error!(
                "{}: command in slot {slot} not delivered: {delivery:?}",
                hca.name()
            );
            (delivery as u8) << 1
        }
    };
    // Delivery status and, last of all, the ownership bit back to software.
    if let Err(error) = hca
        .io
        .memory
        .write_entry(Kind::Command, addr + 63, &[status])
    {
        log::error!("{}: command queue: {error}", hca.name());
    }
    true
}

/// A write of the command doorbell: one bit per slot.
pub fn doorbell(hca: &mut Hca, vector: u32) {
    if hca.iseg.is_dead() {
        log::warn!("{}: commands {vector:#x} for a dead firmware", hca.name());
        return;
    }
    for slot in (0..1 << LOG_CMDQ_SIZE).filter(|slot| (vector >> slot) & 1 != 0) {
        // The EQ that a command creates does not hear of that command.
        let announce = hca.eqs.takes_commands();
        if run_slot(hca, slot) && announce {
            hca.eqs
                .asynchronous(&mut hca.io, AsyncEvent::Command(1 << slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps;
    use crate::config::Kind as FunctionKind;
    use crate::driver::{command, Driver, FREE};
    use crate::faults::{inject, Fault, Injection, Rule};

    /// Where the driver keeps its queue.
    const QUEUE: u64 = 0x1000;

    fn ring(driver: &mut Driver, entry: &[u8; 64]) -> u8 {
        driver.write(QUEUE, entry);
        driver
            .hca
            .mmio_write(0, crate::iseg::CMD_DBELL, &1u32.to_be_bytes());
        driver.read::<64>(QUEUE)[63]
    }

    fn entry(in_len: u32, in_ptr: u64, out_len: u32, out_ptr: u64) -> [u8; 64] {
        let mut entry = [0; 64];
        entry[0] = PCI_CMD_XPORT;
        entry[4..8].copy_from_slice(&in_len.to_be_bytes());
        entry[8..16].copy_from_slice(&in_ptr.to_be_bytes());
        entry[16..18].copy_from_slice(&0x10au16.to_be_bytes());
        entry[48..56].copy_from_slice(&out_ptr.to_be_bytes());
        entry[56..60].copy_from_slice(&out_len.to_be_bytes());
        entry[60] = 9;
        entry[63] = 1;
        entry
    }

    #[test]
    fn long_input_and_output_go_through_mailboxes() {
        let mut driver = Driver::new(FunctionKind::Pf);
        driver.execute(&command(0x104, 0, 12), 12);
        let caps = driver.execute(&command(0x100, 1, 16), 16 + caps::CAP_SIZE);
        assert_eq!(caps[0], 0);
        let mut set = command(0x109, 0, 16);
        set.extend_from_slice(&caps[16..]);
        assert_eq!(driver.execute(&set, 16)[0], 0);
        // The last byte counts, too.
        *set.last_mut().unwrap() ^= 1;
        assert_eq!(
            driver.execute(&set, 16)[0],
            super::super::Status::BadParam as u8
        );
    }

    #[test]
    fn what_cannot_be_delivered_says_why() {
        let mut driver = Driver::new(FunctionKind::Pf);
        let mut block = [0; BLOCK];
        block[0x23d] = 9;
        driver.write(FREE, &block);
        block[0x23b] = 1;
        driver.write(FREE + 0x400, &block);
        for (entry, delivery) in [
            (entry(7, 0, 16, 0), Delivery::InLengthErr),
            (entry(u32::MAX, 0, 16, 0), Delivery::InLengthErr),
            (entry(16, 0, 0, 0), Delivery::OutLengthErr),
            (entry(17, FREE + 8, 16, 0), Delivery::InPtrAlignErr),
            (entry(16, 0, 17, FREE + 512), Delivery::OutPtrAlignErr),
            (entry(17, 0, 16, 0), Delivery::TokenErr),
            (entry(17, FREE + 0x400, 16, 0), Delivery::BadBlockNumber),
            // The chain ends before the message does.
            (entry(16 + 513, FREE, 16, 0), Delivery::TokenErr),
            (entry(17, 1 << 40, 16, 0), Delivery::BadDescriptor),
        ] {
            assert_eq!(
                ring(&mut driver, &entry),
                (delivery as u8) << 1,
                "{delivery:?}"
            );
        }
        let mut alien = entry(16, 0, 16, 0);
        alien[0] = 6;
        assert_eq!(
            ring(&mut driver, &alien),
            (Delivery::BadDescriptor as u8) << 1
        );
        assert_eq!(driver.hca.io.counters.commands, 0);
    }

    #[test]
    fn a_lost_command_is_never_answered() {
        let mut driver = Driver::initialized(FunctionKind::Pf);
        let fault = Fault::CommandTimeout {
            opcode: Some(0x800),
        };
        driver.hca.io.faults.add(Rule::once(fault)).unwrap();
        let alloc = command(0x800, 0, 16);
        assert_eq!(driver.execute(&alloc, 16)[0], 0xff);
        assert_eq!(driver.hca.pds.len(), 0);
        assert_eq!(driver.execute(&alloc, 16)[0], 0);
    }

    #[test]
    fn a_dead_firmware_answers_nothing_until_the_reset() {
        let mut driver = Driver::initialized(FunctionKind::Pf);
        inject(&mut driver.hca, Injection::Fatal { syndrome: 1 }).unwrap();
        assert_eq!(driver.execute(&command(0x800, 0, 16), 16)[0], 0xff);
        driver.hca.reset();
        assert!(!driver.hca.iseg.is_dead());
    }

    #[test]
    fn an_entry_of_the_drivers_is_left_alone() {
        let mut driver = Driver::new(FunctionKind::Pf);
        let mut mine = entry(16, 0, 16, 0);
        mine[63] = 0xa0;
        assert_eq!(ring(&mut driver, &mine), 0xa0);
        assert_eq!(driver.hca.io.counters.commands, 0);
    }
}
