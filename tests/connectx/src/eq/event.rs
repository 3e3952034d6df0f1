// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events, and what an entry says of them.

use super::{DATA, EQE_SIZE};

/// Event types (`MLX5_EVENT_TYPE_*`) that the device raises by itself.
pub(super) mod event_type {
    pub const COMPLETION: u8 = 0x00;
    pub const CQ_ERROR: u8 = 0x04;
    pub const PORT_CHANGE: u8 = 0x09;
    pub const COMMAND: u8 = 0x0a;
    pub const PAGE_REQUEST: u8 = 0x0b;
}

/// An event that is not a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// An event of a QP, SQ or RQ: one of the types 0x01 to 0x03, 0x05, 0x07, 0x10, 0x11, 0x13
    /// (`MLX5_EVENT_TYPE_*`), the resource type (0 QP, 1 RQ, 2 SQ) and the number.
    Queue(u8, u8, u32),
    /// An event of an SRQ: type 0x12 (catastrophic error) or 0x14 (limit), and the number.
    Srq(u8, u32),
    /// Type 0x04, a CQ error: CQN and syndrome (1 overrun, 2 access violation).
    CqError(u32, u8),
    /// Type 0x09, the port went up or down.
    Port {
        /// Whether it is up now.
        up: bool,
    },
    /// Type 0x0a, commands completed: one bit per slot.
    Command(u32),
    /// Type 0x0b, the firmware wants pages (positive) or gives pages back (negative).
    PageRequest(i32),
}

impl AsyncEvent {
    /// The event type, which an EQ subscribes to.
    pub fn event_type(self) -> u8 {
        match self {
            AsyncEvent::Queue(kind, ..) | AsyncEvent::Srq(kind, _) => kind,
            AsyncEvent::CqError(..) => event_type::CQ_ERROR,
            AsyncEvent::Port { .. } => event_type::PORT_CHANGE,
            AsyncEvent::Command(_) => event_type::COMMAND,
            AsyncEvent::PageRequest(_) => event_type::PAGE_REQUEST,
        }
    }

    pub(super) fn encode(self, eqe: &mut [u8; EQE_SIZE]) {
        let mut put = |offset: usize, bytes: &[u8]| {
            for (to, from) in eqe.iter_mut().skip(offset).zip(bytes) {
                *to = *from;
            }
        };
        // Sub type: only port events have one.
        put(3, &[0]);
        match self {
            AsyncEvent::Queue(_, resource, number) => {
                put(DATA + 20, &[resource]);
                put(DATA + 24, &number.to_be_bytes());
            }
            AsyncEvent::Srq(_, number) => {
                put(DATA + 20, &[0]);
                put(DATA + 24, &number.to_be_bytes());
            }
            AsyncEvent::CqError(cqn, syndrome) => {
                put(DATA, &cqn.to_be_bytes());
                put(DATA + 11, &[syndrome]);
            }
            AsyncEvent::Port { up } => {
                put(3, &[if up { 4 } else { 1 }]);
                // Port 1, in the high nibble.
                put(DATA + 8, &[0x10]);
            }
            AsyncEvent::Command(slots) => put(DATA, &slots.to_be_bytes()),
            AsyncEvent::PageRequest(pages) => {
                put(DATA, &[0; 4]);
                put(DATA + 4, &pages.to_be_bytes());
            }
        }
    }
}
