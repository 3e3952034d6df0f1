// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a command ends.

/// Status byte of a command outbox (`MLX5_CMD_STAT_*`, `include/linux/mlx5/device.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The command was executed.
    Ok = 0x0,
    /// The device failed.
    IntErr = 0x1,
    /// The opcode is unknown.
    BadOp = 0x2,
    /// A parameter is out of range or not supported.
    BadParam = 0x3,
    /// The function is not in the state the command needs.
    BadSysState = 0x4,
    /// An object that does not exist.
    BadRes = 0x5,
    /// An object that others still refer to.
    ResBusy = 0x6,
    /// Not ready, try again.
    NotReady = 0x7,
    /// A limit would be exceeded.
    ExceedLim = 0x8,
    /// An object in a state that does not allow the command.
    BadResState = 0x9,
    /// A table index out of range.
    BadIndex = 0xa,
    /// Out of resources.
    NoResources = 0xf,
    /// A QP in a state that does not allow the transition.
    BadQpState = 0x10,
    /// A malformed MAD.
    BadPkt = 0x30,
    /// A size out of range, or completions that still wait.
    BadSize = 0x40,
    /// The input is too short for the command.
    BadInputLen = 0x50,
    /// The output is too short for the command.
    BadOutputLen = 0x51,
}

impl Status {
    /// All of them.
    const ALL: &[Status] = &[
        Status::Ok,
        Status::IntErr,
        Status::BadOp,
        Status::BadParam,
        Status::BadSysState,
        Status::BadRes,
        Status::ResBusy,
        Status::NotReady,
        Status::ExceedLim,
        Status::BadResState,
        Status::BadIndex,
        Status::NoResources,
        Status::BadQpState,
        Status::BadPkt,
        Status::BadSize,
        Status::BadInputLen,
        Status::BadOutputLen,
    ];

    /// The status with a number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        let all = Self::ALL.iter();
        all.copied().find(|status| *status as u8 == number)
    }
}

/// A refused command: what its outbox says, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmdError {
    /// Goes to the driver.
    pub status: Status,
    /// Goes to the log; the syndrome the driver prints is [`syndrome`](Self::syndrome).
    pub reason: &'static str,
}

impl CmdError {
    /// A refusal.
    pub const fn new(status: Status, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// A number made of the reason (FNV-1a), so that a syndrome in a guest's log can be found in
    /// the log of the device.
    pub fn syndrome(&self) -> u32 {
        self.reason.bytes().fold(0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }
}

impl std::fmt::Display for CmdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} ({:#x}): {}",
            self.status,
            self.syndrome(),
            self.reason
        )
    }
}

impl std::error::Error for CmdError {}

/// Result of a command handler.
pub type CmdResult<T = ()> = Result<T, CmdError>;

/// Shorthand for a refusal because of a parameter.
pub fn bad_param<T>(reason: &'static str) -> CmdResult<T> {
    Err(CmdError::new(Status::BadParam, reason))
}
