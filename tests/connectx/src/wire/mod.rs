// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Packets between functions.

use std::fmt;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether the address names a group (multicast or broadcast).
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What the wire carries; delivered by destination address.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Destination: one function, or all for a group address.
    pub dmac: Mac,
    /// Source.
    pub smac: Mac,
    /// What is inside.
    pub body: Body,
}

/// Contents of a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// A frame of the netdev: everything from the destination address on, without FCS.
    Ethernet(Vec<u8>),
}
