// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The invariant CRC at the end of a RoCE packet (IBTA 7.8.1, annexes A16 and A17).
//!
//! It is the Ethernet CRC-32 over the packet from the network header on, with the fields that a router may
//! change read as ones, and with eight bytes of ones in front in place of the InfiniBand local route header.

/// Which network header precedes the transport headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// RoCE v1: an InfiniBand global route header.
    Grh,
    /// RoCE v2 over IPv4 and UDP.
    Ipv4,
    /// RoCE v2 over IPv6 and UDP.
    Ipv6,
}

/// Longest header that holds variant fields: IPv6, UDP and BTH.
const MAX_VARIANT: usize = 40 + 8 + 12;

/// The ICRC of `packet`, which starts at the network header and ends before the ICRC itself.
///
/// Returns the four bytes in wire order, or `None` if the packet is too short to hold the headers of `network`.
pub fn icrc(network: Network, packet: &[u8]) -> Option<[u8; 4]> {
    let (ip_len, udp_len, variant): (usize, usize, &[usize]) = match network {
        // Traffic class and flow label, hop limit.
        Network::Grh => (40, 0, &[0, 1, 2, 3, 7]),
        Network::Ipv6 => (40, 8, &[0, 1, 2, 3, 7]),
        // Type of service, time to live, header checksum.
        Network::Ipv4 => (20, 8, &[1, 8, 10, 11]),
    };
    let bth = ip_len + udp_len;
    let head_len = bth + 12;
    let mut head = [0u8; MAX_VARIANT];
    let head = head.get_mut(..head_len)?;
    head.copy_from_slice(packet.get(..head_len)?);
    for &at in variant {
        let byte = head.get_mut(at)?;
        // The version nibble of IPv6 and GRH shares its byte with the traffic class and stays.
        *byte |= if at == 0 { 0x0f } else { 0xff };
    }
    if udp_len != 0 {
        // UDP checksum.
        head.get_mut(ip_len + 6..ip_len + 8)?.fill(0xff);
    }
    // FECN, BECN and reserved bits of the BTH.
    *head.get_mut(bth + 4)? = 0xff;

    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(head);
    crc.update(packet.get(head_len..)?);
    Some(crc.finalize().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Congestion notification packet captured from a ConnectX-4 Lx, without its Ethernet header.
    const CNP: [u8; 60] = [
        0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
        0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
        0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
    ];

    #[test]
    fn matches_a_packet_captured_from_a_card() {
        assert_eq!(
            icrc(Network::Ipv4, &CNP[..56]),
            Some([0x82, 0xfd, 0x00, 0x2a])
        );
    }

    #[test]
    fn ignores_what_a_router_changes_and_nothing_else() {
        let good = icrc(Network::Ipv4, &CNP[..56]);
        for (at, ignored) in [(1, true), (8, true), (10, true), (26, true), (32, true)]
            .into_iter()
            .chain([
                (0, false),
                (2, false),
                (12, false),
                (28, false),
                (40, false),
            ])
        {
            let mut p = CNP;
            p[at] ^= 0x55;
            assert_eq!(icrc(Network::Ipv4, &p[..56]) == good, ignored, "byte {at}");
        }
    }

    #[test]
    fn too_short_is_an_answer_not_a_panic() {
        for network in [Network::Grh, Network::Ipv4, Network::Ipv6] {
            for len in 0..40 {
                assert_eq!(icrc(network, &[0; 60][..len]), None);
            }
        }
    }
}
