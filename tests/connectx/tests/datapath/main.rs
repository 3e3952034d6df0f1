// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two functions back to back: commands, WQEs and doorbells as a driver makes them, in memory of this process, and a
//! wire that can lose, double and disorder packets.

mod bench;
mod completion;
mod compression;
mod counters;
mod datagrams;
mod doorbells;
mod errors;
mod faults;
mod fuzz;
mod keys;
mod limits;
mod opcodes;
mod registration;
mod states;
mod transfer;
mod wire;
mod xrc;
