// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What travels between functions: RoCE frames, byte for byte as on a cable.
//!
//! * [`net`]: Ethernet, IPv4, IPv6 and UDP in front of the transport headers.
//! * [`opcode`], [`headers`]: the InfiniBand transport headers (IBTA volume 1, chapter 9).
//! * [`icrc`]: the invariant CRC that closes each packet.
//! * [`packet`]: a whole packet, parsed from a frame or built into one.
//! * [`route`]: which function a frame goes to.

pub mod headers;
pub mod icrc;
pub mod net;
pub mod opcode;
pub mod packet;
pub mod route;

pub use headers::{AckSyndrome, Aeth, AtomicEth, Bth, Deth, Extensions, NakCode, Reth};
pub use net::{Gid, Mac, Path, RoceVersion};
pub use opcode::{Op, Opcode, Request, RequestKind, Tail, Transport};
pub use packet::{destination, is_reliable, Packet, PacketBuilder, ParseError};

/// Packet sequence numbers, message sequence numbers and QP numbers are 24 bits wide.
pub const MASK_24: u32 = 0x00ff_ffff;

/// `a - b` in 24-bit sequence space: negative if `a` is before `b`.
///
/// IBTA 9.7.1: half of the space counts as "before", the other half as "after".
pub fn psn_diff(a: u32, b: u32) -> i32 {
    let d = a.wrapping_sub(b) & MASK_24;
    if d & 0x0080_0000 != 0 {
        // `d` is below 2^24, so both conversions keep the value.
        (d | 0xff00_0000) as i32
    } else {
        d as i32
    }
}

/// `psn + n` in 24-bit sequence space.
pub fn psn_add(psn: u32, n: u32) -> u32 {
    psn.wrapping_add(n) & MASK_24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_arithmetic_wraps_at_24_bits() {
        assert_eq!(psn_add(MASK_24, 1), 0);
        assert_eq!(psn_diff(0, MASK_24), 1);
        assert_eq!(psn_diff(MASK_24, 0), -1);
        assert_eq!(psn_diff(5, 5), 0);
        assert_eq!(psn_diff(0x7f_ffff, 0), 0x7f_ffff);
        assert_eq!(psn_diff(0x80_0000, 0), -0x80_0000);
    }
}
