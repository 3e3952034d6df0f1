// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands: what firmware executes for the driver.
//!
//! `queue` takes commands from the command queue in guest memory; [`execute`] checks the
//! lengths, looks up the opcode and calls the handler. Handlers stand in one file per object, and
//! each file lists its commands in a `COMMANDS` table.

/// A row of a `COMMANDS` table: opcode, name, layout of the input, least bytes of the output (16 unless said
/// otherwise), handler. Before the modules that use it.
macro_rules! command {
    ($opcode:literal, $name:literal, $in:ident, $min_out:expr, $handler:expr) => {
        $crate::cmd::Command {
            opcode: $opcode,
            name: $name,
            min_in: $crate::size!($in),
            min_out: $min_out,
            handler: $handler,
        }
    };
    ($opcode:literal, $name:literal, $in:ident, $handler:expr) => {
        command!($opcode, $name, $in, 0x10, $handler)
    };
}

pub mod cq;
mod eq;
mod flow;
mod function;
pub mod mailbox;
pub mod mkey;
mod multicast;
mod net;
pub mod qp;
pub mod queue;
mod registers;
mod resources;
mod rss;
pub mod srq;
mod status;
mod vport;

pub use mailbox::{Input, OutputBox};
pub use status::{bad_param, CmdError, CmdResult, Status};

use crate::field;
use crate::hca::{Hca, State};

/// Executes one command. The header of the output is written by the caller.
pub type Handler = fn(&mut Hca, Input<'_>, &mut OutputBox) -> CmdResult;

/// One command that the device knows.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Opcode (`MLX5_CMD_OP_*`).
    pub opcode: u16,
    /// Name as in `mlx5_ifc.h`, without the prefix.
    pub name: &'static str,
    /// Shortest input, in bytes.
    pub min_in: usize,
    /// Shortest output, in bytes.
    pub min_out: usize,
    /// What executes it.
    pub handler: Handler,
}

/// All commands, by object.
const COMMANDS: &[&[Command]] = &[
    function::COMMANDS,
    eq::COMMANDS,
    cq::COMMANDS,
    mkey::COMMANDS,
    qp::COMMANDS,
    multicast::COMMANDS,
    srq::COMMANDS,
    resources::COMMANDS,
    registers::COMMANDS,
    vport::COMMANDS,
    net::COMMANDS,
    rss::COMMANDS,
    flow::COMMANDS,
];

/// All commands that the device knows.
pub fn all() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().flat_map(|commands| commands.iter())
}

fn find(opcode: u16) -> CmdResult<&'static Command> {
    all()
        .find(|command| command.opcode == opcode)
        .ok_or(CmdError::new(Status::BadOp, "unknown opcode"))
}

/// State of the function that a command needs at least.
fn needed_state(opcode: u16) -> State {
    match opcode {
        // ENABLE_HCA
        0x104 => State::Disabled,
        // Capabilities, pages, ISSI, INIT_HCA and DISABLE_HCA, registers, QUERY_ADAPTER.
        0x100..=0x102 | 0x105..=0x10b | 0x10d | 0x805 => State::Enabled,
        _ => State::Initialized,
    }
}

/// Modifier of a command's operation.
pub fn op_mod(input: Input<'_>) -> u32 {
    input.get(field!(mlx5_ifc_query_hca_cap_in_bits, op_mod))
}

/// User context that a command belongs to; 0 is the kernel driver.
pub fn uid(input: Input<'_>) -> u32 {
    input.get(field!(mlx5_ifc_create_cq_in_bits, uid))
}

/// Executes a command and returns the output of `out_len` bytes.
pub fn execute(hca: &mut Hca, input: &[u8], out_len: usize) -> Vec<u8> {
    let input = Input(input);
    let opcode = input.get(field!(mlx5_ifc_query_hca_cap_in_bits, opcode)) as u16;
    let mut out = OutputBox::new(out_len);
    let mut name = "?";
    let mut fault = None;
    let result = find(opcode).and_then(|command| {
        name = command.name;
        if input.0.len() < command.min_in {
            return Err(CmdError::new(Status::BadInputLen, "input is too short"));
        }
        if out_len < command.min_out {
            return Err(CmdError::new(Status::BadOutputLen, "output is too short"));
        }
        if hca.state < needed_state(opcode) {
            return Err(CmdError::new(Status::BadSysState, "function is not up"));
        }
        if let Some((error, number)) = hca.io.faults.command_failure(opcode) {
            fault = Some(number);
            return Err(error);
        }
        (command.handler)(hca, input, &mut out)
    });
    hca.io.counters.commands += 1;
    let status = field!(mlx5_ifc_query_hca_cap_out_bits, status);
    let syndrome = field!(mlx5_ifc_query_hca_cap_out_bits, syndrome);
    match result {
        Ok(()) => {
            log::debug!(
                "{}: {name}({opcode:#x}) op_mod {:#x}",
                hca.name(),
                op_mod(input)
            );
            out.set(status, Status::Ok as u32);
            out.set(syndrome, 0);
        }
        Err(error) => {
            hca.io.counters.commands_failed += 1;
            log::warn!(
                "{}: {name}({opcode:#x}) op_mod {:#x}: {error}",
                hca.name(),
                op_mod(input)
            );
            out.clear();
            out.set(status, error.status as u32);
            out.set(syndrome, fault.unwrap_or(error.syndrome()));
        }
    }
    out.finish(hca.io.scramble.as_mut())
}
