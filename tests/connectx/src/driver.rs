// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A driver of a few lines, for tests and fuzz targets: works on a function through its registers
//! and in-process memory, as a guest's driver would.

use crate::config::{FunctionConfig, Kind, PageRequest};
use crate::dma::{GuestMemory, Kind as Access};
use crate::hca::Hca;
use crate::iseg;

/// Bytes of guest memory, from address 0 on.
pub const MEMORY: usize = 8 << 20;
/// Address of the command queue.
const QUEUE: u64 = 0x1000;
/// Address of the input mailboxes: room for 1 MiB of blocks, then that of the output mailboxes.
const INPUT: u64 = 0x10_0000;
const OUTPUT: u64 = 0x20_0000;
/// First byte that this driver does not use.
pub const FREE: u64 = 0x30_0000;
/// Distance of mailbox blocks, and the data in one.
const BLOCK: u64 = 1024;
const BLOCK_DATA: usize = 512;
/// Longest input and output that the mailboxes hold.
pub const MAX_LEN: usize = 0x10_0000 / BLOCK as usize * BLOCK_DATA;

/// A function with a driver.
#[derive(Debug)]
pub struct Driver {
    /// The function.
    pub hca: Hca,
    /// The time, in nanoseconds.
    pub now: u64,
    token: u8,
}

impl Driver {
    /// A function whose driver has told it where the command queue is.
    pub fn new(kind: Kind) -> Self {
        let mut config = FunctionConfig::new(0, kind);
        // This driver has no pages to give.
        config.pages = PageRequest {
            boot: 0,
            init: 0,
            canary: false,
        };
        let mut hca = Hca::new(config);
        hca.io.memory = GuestMemory::anonymous(0, MEMORY);
        hca.mmio_write(0, 0x10, &[0; 4]);
        hca.mmio_write(0, 0x14, &(QUEUE as u32).to_be_bytes());
        Self {
            hca,
            now: 0,
            token: 0,
        }
    }

    /// A function that takes all commands: ENABLE_HCA, SET_ISSI and INIT_HCA have been executed.
    pub fn initialized(kind: Kind) -> Self {
        let mut driver = Self::new(kind);
        for input in [command(0x104, 0, 12), issi(1), command(0x102, 0, 16)] {
            let output = driver.execute(&input, 16);
            assert_eq!(output[0], 0, "{input:x?}");
        }
        driver
    }

    /// Writes guest memory.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) {
        // Out of bounds is no error here: fuzz targets do that.
        let _ = self.hca.io.memory.write(Access::Command, addr, bytes);
    }

    /// Reads guest memory.
    pub fn read<const N: usize>(&mut self, addr: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let _ = self.hca.io.memory.read(Access::Command, addr, &mut bytes);
        bytes
    }

    /// Writes a chain of mailbox blocks for `len` bytes behind the first 16, with `data` in it.
    fn chain(&mut self, base: u64, data: &[u8], len: usize) {
        for (i, at) in (0..len).step_by(BLOCK_DATA).enumerate() {
            let mut block = [0; 576];
            for (to, from) in block.iter_mut().take(BLOCK_DATA).zip(data.iter().skip(at)) {
                *to = *from;
            }
            let addr = base + BLOCK * i as u64;
            block[0x230..0x238].copy_from_slice(&(addr + BLOCK).to_be_bytes());
            block[0x238..0x23c].copy_from_slice(&(i as u32).to_be_bytes());
            block[0x23d] = self.token;
            self.write(addr, &block);
        }
    }

    /// Executes a command through slot 0 of the queue and returns its output of `out_len` bytes.
    /// Input and output are cut at [`MAX_LEN`]; an output that was not delivered is all ones.
    pub fn execute(&mut self, input: &[u8], out_len: usize) -> Vec<u8> {
        let input = &input[..input.len().min(MAX_LEN)];
        let out_len = out_len.min(MAX_LEN);
        self.token = self.token.wrapping_add(1);
        let (inline, rest) = input.split_at(input.len().min(16));
        self.chain(INPUT, rest, rest.len());
        let out_rest = out_len.saturating_sub(16);
        self.chain(OUTPUT, &[], out_rest);
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[8..16].copy_from_slice(&INPUT.to_be_bytes());
        entry[16..16 + inline.len()].copy_from_slice(inline);
        entry[32..48].fill(0xff);
        entry[48..56].copy_from_slice(&OUTPUT.to_be_bytes());
        entry[56..60].copy_from_slice(&(out_len as u32).to_be_bytes());
        entry[60] = self.token;
        entry[63] = 1;
        self.write(QUEUE, &entry);
        self.hca
            .mmio_write(self.now, iseg::CMD_DBELL, &1u32.to_be_bytes());
        let entry = self.read::<64>(QUEUE);
        if entry[63] != 0 {
            return vec![0xff; out_len];
        }
        let mut output = entry[32..48].to_vec();
        for i in 0..out_rest.div_ceil(BLOCK_DATA) {
            output.extend_from_slice(&self.read::<BLOCK_DATA>(OUTPUT + BLOCK * i as u64));
        }
        output.truncate(out_len);
        output
    }

    /// Executes a command that must succeed, and returns the number in its output: the low 24
    /// bits of the third dword.
    ///
    /// # Panics
    ///
    /// When the command fails.
    pub fn create(&mut self, input: &[u8]) -> u32 {
        let output = self.execute(input, 16);
        assert_eq!(
            output[0], 0,
            "command {:02x}{:02x} failed",
            input[0], input[1]
        );
        u32::from_be_bytes([0, output[9], output[10], output[11]])
    }
}

/// A command of `len` bytes with nothing but opcode and modifier.
pub fn command(opcode: u16, op_mod: u16, len: usize) -> Vec<u8> {
    let mut input = vec![0; len.max(8)];
    input[..2].copy_from_slice(&opcode.to_be_bytes());
    input[6..8].copy_from_slice(&op_mod.to_be_bytes());
    input
}

fn issi(issi: u8) -> Vec<u8> {
    let mut input = command(0x10b, 0, 16);
    input[11] = issi;
    input
}
