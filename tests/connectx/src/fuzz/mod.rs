// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fuzz target: a hostile guest.
//!
//! [`guest`] takes bytes for a program of register accesses, commands, memory contents and frames,
//! and runs it on a function. It must not panic, and each step must end soon. So that programs get
//! somewhere, they start from some objects, many commands are well-behaved ones with a few changes,
//! and numbers of objects that commands returned are used again. The port is connected to itself.

mod template;

use crate::cmd;
use crate::config::Kind;
use crate::driver::{command, Driver, FREE, MEMORY};
use crate::hca::State;
use crate::wqe::opcode::Opcode;
use template::Base;

/// Bytes of input, zero when they run out.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        let (now, later) = self.0.split_at(n);
        out[..n].copy_from_slice(now);
        self.0 = later;
        out
    }

    fn u8(&mut self) -> u8 {
        let [value] = self.bytes();
        value
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.u8()).collect()
    }

    /// One of the values, by a byte.
    fn choose<T: Copy>(&mut self, values: &[T]) -> Option<T> {
        let at = usize::from(self.u8());
        values.get(at % values.len().max(1)).copied()
    }
}

/// Objects that commands returned, the latest ones.
#[derive(Default)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn learn(&mut self, number: u32) {
        if number != 0 && !self.0.contains(&number) {
            self.0.push(number);
            if self.0.len() > 64 {
                // The first four are those that everything else refers to.
                self.0.remove(4);
            }
        }
    }
}

/// A value for a dword of a command: mostly a number that means something.
fn dword(input: &mut Input<'_>, numbers: &Numbers) -> u32 {
    match input.u8() % 8 {
        0..=3 => input.choose(&numbers.0).unwrap_or(0),
        4 => u32::from(input.u8()),
        5 => u32::from(input.u8()) << 24,
        // An address in guest memory that is aligned to a page.
        6 => (input.u32() % MEMORY as u32) & !0xfff,
        _ => input.u32(),
    }
}

/// A command with some of its dwords filled.
fn random_command(input: &mut Input<'_>, numbers: &Numbers) -> (Vec<u8>, usize) {
    let commands: Vec<_> = cmd::all().collect();
    let index = usize::from(input.u16()) % commands.len();
    let Some(known) = commands.get(index) else {
        return (Vec::new(), 0);
    };
    let extra = match input.u8() % 4 {
        0 => usize::from(input.u16() % 0x1000),
        1 => usize::from(input.u8()),
        _ => 0,
    };
    let cut = if input.u8() == 0 {
        usize::from(input.u8())
    } else {
        0
    };
    let opcode = if input.u8() == 0 {
        input.u16()
    } else {
        known.opcode
    };
    let op_mod = u16::from(input.u8() % 8);
    let len = (known.min_in + extra).saturating_sub(cut);
    let mut body = command(opcode, op_mod, len);
    for _ in 0..input.u8() % 8 {
        let at = (usize::from(input.u16()) % len.max(12)) & !3;
        let value = dword(input, numbers).to_be_bytes();
        if let Some(place) = body.get_mut(at.max(8)..at.max(8) + 4) {
            place.copy_from_slice(&value);
        }
    }
    (body, known.min_out.max(16) + extra)
}

/// A well-behaved command, or one with a change or two.
fn changed_command(input: &mut Input<'_>, numbers: &Numbers, base: &mut Base) -> Vec<u8> {
    let object = input.choose(&numbers.0).unwrap_or(0);
    let mut body = base.command(input.u8(), object);
    for _ in 0..(input.u8() % 8).saturating_sub(5) {
        let at = (usize::from(input.u16()) % body.len()) & !3;
        let value = dword(input, numbers).to_be_bytes();
        if let Some(place) = body.get_mut(at.max(8)..at.max(8) + 4) {
            place.copy_from_slice(&value);
        }
    }
    body
}

/// Writes a WQE, or what looks like one, into a slot of a queue, and moves a doorbell record on.
fn post(driver: &mut Driver, input: &mut Input<'_>, numbers: &Numbers) {
    let (slot, record) = Base::slot(input.u16());
    let mut wqe = [0; 64];
    wqe[3] = input.choose(Opcode::KNOWN).map_or(0, |opcode| opcode.0);
    let queue = input.choose(&numbers.0).unwrap_or(0);
    wqe[4..8].copy_from_slice(&((queue << 8) | u32::from(input.u8() % 6)).to_be_bytes());
    wqe[11] = input.u8();
    for word in wqe[16..].chunks_mut(4) {
        let value = match input.u8() % 4 {
            // A key, a length, an address.
            0 => input.choose(&numbers.0).unwrap_or(0) << 8,
            1 => input.u16().into(),
            2 => input.u32() % MEMORY as u32,
            _ => 0,
        };
        word.copy_from_slice(&value.to_be_bytes());
    }
    driver.write(slot, &wqe);
    let counters = [input.u8() % 32, input.u8() % 32];
    for (at, counter) in [0, 4].into_iter().zip(counters) {
        driver.write(record + at, &u32::from(counter).to_be_bytes());
    }
    driver.hca.mmio_write(
        driver.now,
        (u64::from(numbers.0[0]) << 12) | 0x800,
        &wqe[..8],
    );
}

fn step(driver: &mut Driver, input: &mut Input<'_>, numbers: &mut Numbers, base: &mut Base) {
    match input.u8() % 12 {
        0 => {
            let (body, out_len) = random_command(input, numbers);
            let output = driver.execute(&body, out_len);
            if let Some([0, .., a, b, c]) = output.first_chunk::<12>() {
                numbers.learn(u32::from_be_bytes([0, *a, *b, *c]));
            }
        }
        8 | 9 => post(driver, input, numbers),
        1 | 2 | 10 | 11 => {
            let body = changed_command(input, numbers, base);
            let output = driver.execute(&body, 16);
            if let Some([0, .., a, b, c]) = output.first_chunk::<12>() {
                numbers.learn(u32::from_be_bytes([0, *a, *b, *c]));
            }
        }
        3 => {
            let len = usize::from(input.u8() % 64);
            let addr = FREE + u64::from(input.u32()) % (MEMORY as u64 - FREE);
            let bytes = input.take(len);
            driver.write(addr, &bytes);
        }
        4 => {
            // A doorbell: of a queue that exists, if there is one.
            let page = dword(input, numbers) & 0x1fff;
            let at = input
                .choose(&[0x20, 0x40, 0x48, 0x800, 0x808, 0x900, 0xa00])
                .unwrap_or(0);
            let mut data = input.bytes::<8>();
            data[4..].copy_from_slice(&((dword(input, numbers) << 8) | 4).to_be_bytes());
            let len = input.choose(&[8, 8, 8, 4, 1]).unwrap_or(8);
            let offset = (u64::from(page) << 12) | at;
            driver.hca.mmio_write(driver.now, offset, &data[..len]);
        }
        5 => {
            let offset = u64::from(input.u32());
            let data = input.bytes::<8>();
            let len = input.choose(&[1, 2, 4, 8]).unwrap_or(4);
            // The address of the command queue stays, or nothing more would be executed.
            if !(0x10..0x18).contains(&(offset & !7)) || offset >= 0x2010 {
                driver.hca.mmio_write(driver.now, offset, &data[..len]);
            }
            let mut buf = vec![0; len];
            driver.hca.mmio_read(driver.now, offset, &mut buf);
        }
        6 => {
            let len = usize::from(input.u16() % 160);
            let frame = input.take(len);
            driver.hca.receive(driver.now, &frame);
        }
        _ => {
            driver.now += u64::from(input.u32());
            driver.hca.run(driver.now, 64);
        }
    }
    driver.hca.run(driver.now, 4);
    // What it sends comes back: a cable from the port to itself.
    let output = driver.hca.take_output();
    for frame in output.frames.iter().take(16) {
        driver.hca.receive(driver.now, frame);
    }
}

/// Runs a program of a hostile guest; returns how many of its commands succeeded.
///
/// # Panics
///
/// When objects survive the reset at the end: a bug, as any other panic.
pub fn guest(data: &[u8]) -> u64 {
    let mut input = Input(data);
    let mut driver = match input.u8() % 8 {
        0 => Driver::new(Kind::Pf),
        1 => Driver::initialized(Kind::Vf),
        _ => Driver::initialized(Kind::Pf),
    };
    let mut numbers = Numbers::default();
    let mut base = Base::default();
    if driver.hca.state == State::Initialized {
        base = Base::create(&mut driver);
    }
    numbers.0.extend(base.numbers());
    while !input.is_empty() {
        step(&mut driver, &mut input, &mut numbers, &mut base);
    }
    let counters = driver.hca.io.counters;
    driver.hca.reset();
    let left: usize = driver.hca.objects().iter().map(|(_, count)| count).sum();
    assert_eq!(left, 0, "objects survived a reset");
    counters.commands - counters.commands_failed
}
