// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Event queues.

use crate::io::Io;

/// An event for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// An event of a QP, SQ or RQ: one of the types 0x01 to 0x03, 0x05, 0x07, 0x10, 0x11, 0x13
    /// (`MLX5_EVENT_TYPE_*`), the resource type (0 QP, 1 RQ, 2 SQ) and the number.
    Queue(u8, u8, u32),
    /// An event of an SRQ: type 0x12 (catastrophic error) or 0x14 (limit), and the number.
    Srq(u8, u32),
    /// Type 0x04, a CQ error: CQN and syndrome (1 overrun, 2 access violation).
    CqError(u32, u8),
}

/// Event queues of a function.
#[derive(Debug, Default)]
pub struct EventQueues {}

impl EventQueues {
    /// Raises a completion event for a CQ on the EQ it names.
    pub fn completion(&mut self, _io: &mut Io, _eqn: u8, _cqn: u32) {}

    /// Raises an asynchronous event on the EQ that subscribed to its type, if any.
    pub fn asynchronous(&mut self, _io: &mut Io, _event: AsyncEvent) {}
}
