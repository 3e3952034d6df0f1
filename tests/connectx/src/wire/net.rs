// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Ethernet, IPv4, IPv6 and UDP headers around a RoCE packet.

use super::headers::take_array;
use super::icrc::Network;

/// Ethernet address.
pub type Mac = [u8; 6];

/// Global identifier: an IPv6 address, or an IPv4 address mapped into one (`::ffff:a.b.c.d`).
pub type Gid = [u8; 16];

/// UDP destination port of RoCE v2.
pub const ROCE_UDP_PORT: u16 = 4791;

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
pub const ETHERTYPE_VLAN: u16 = 0x8100;
pub const ETHERTYPE_ROCE_V1: u16 = 0x8915;

/// IP protocol number of UDP.
pub const PROTO_UDP: u8 = 17;
/// "Next header" of a global route header in front of a BTH.
const NEXT_HEADER_IBA: u8 = 0x1b;

const ETH_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// How RoCE is put on Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoceVersion {
    /// Own Ethertype and a global route header.
    V1,
    /// UDP over IPv4 or IPv6.
    V2,
}

/// Addresses and the other fields of the headers below the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    pub version: RoceVersion,
    pub dst_mac: Mac,
    pub src_mac: Mac,
    /// 802.1Q tag: priority, DEI and VLAN id.
    pub vlan: Option<u16>,
    pub src: Gid,
    pub dst: Gid,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits; IPv6 and GRH only.
    pub flow_label: u32,
    pub hop_limit: u8,
    /// UDP source port; version 2 only.
    pub udp_src: u16,
}

/// The IPv4 address in a mapped GID.
pub fn mapped_ipv4(gid: &Gid) -> Option<[u8; 4]> {
    let (head, tail) = gid.split_at(12);
    if head == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] {
        tail.try_into().ok()
    } else {
        None
    }
}

/// Is this the address of a group?
pub fn is_multicast(gid: &Gid) -> bool {
    match mapped_ipv4(gid) {
        Some([first, ..]) => (224..240).contains(&first),
        None => gid.first() == Some(&0xff),
    }
}

/// Is this an Ethernet address of a group, or of everybody?
pub fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// The GID form of an IPv4 address.
pub fn map_ipv4(ip: [u8; 4]) -> Gid {
    let mut gid = [0; 16];
    let (head, tail) = gid.split_at_mut(12);
    head.copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    tail.copy_from_slice(&ip);
    gid
}

/// The network header as a UD receiver finds it in the 40 bytes before its payload: a whole IPv6 header or GRH,
/// or 20 bytes of nothing and an IPv4 header.
pub fn receive_header(network: Network, header: &[u8]) -> [u8; 40] {
    let mut out = [0; 40];
    let (at, len) = match network {
        Network::Ipv4 => (20, IPV4_LEN),
        Network::Grh | Network::Ipv6 => (0, IPV6_LEN),
    };
    if let (Some(to), Some(from)) = (out.get_mut(at..at + len), header.get(..len)) {
        to.copy_from_slice(from);
    }
    out
}

impl Path {
    /// The network header that this path puts in front of a packet.
    pub fn network(&self) -> Network {
        match self.version {
            RoceVersion::V1 => Network::Grh,
            RoceVersion::V2 => match (mapped_ipv4(&self.src), mapped_ipv4(&self.dst)) {
                (Some(_), Some(_)) => Network::Ipv4,
                _ => Network::Ipv6,
            },
        }
    }

    /// Appends the headers for `len` bytes of transport headers, payload, padding and ICRC.
    ///
    /// Returns where in `out` the network header starts. `len` must be below 64 KiB less the headers: it is the
    /// caller's packet, at most an MTU and some headers long; a longer one would get a wrong length field.
    pub fn put(&self, len: usize, out: &mut Vec<u8>) -> usize {
        out.extend(self.dst_mac);
        out.extend(self.src_mac);
        if let Some(tag) = self.vlan {
            out.extend(ETHERTYPE_VLAN.to_be_bytes());
            out.extend(tag.to_be_bytes());
        }
        let network = self.network();
        let ethertype = match network {
            Network::Grh => ETHERTYPE_ROCE_V1,
            Network::Ipv4 => ETHERTYPE_IPV4,
            Network::Ipv6 => ETHERTYPE_IPV6,
        };
        out.extend(ethertype.to_be_bytes());
        let start = out.len();
        match network {
            Network::Ipv4 => {
                self.put_ipv4(UDP_LEN + len, out);
                self.put_udp(len, out);
            }
            Network::Ipv6 => {
                self.put_ipv6(PROTO_UDP, UDP_LEN + len, out);
                self.put_udp(len, out);
            }
            Network::Grh => self.put_ipv6(NEXT_HEADER_IBA, len, out),
        }
        start
    }

    fn put_ipv4(&self, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0x45, self.traffic_class]);
        out.extend(((IPV4_LEN + len) as u16).to_be_bytes());
        // Identification, "do not fragment".
        out.extend([0, 0, 0x40, 0]);
        out.extend([self.hop_limit, PROTO_UDP, 0, 0]);
        out.extend(mapped_ipv4(&self.src).unwrap_or_default());
        out.extend(mapped_ipv4(&self.dst).unwrap_or_default());
        let sum = ipv4_checksum(out.get(start..).unwrap_or_default());
        if let Some(field) = out.get_mut(start + 10..start + 12) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn put_ipv6(&self, next_header: u8, len: usize, out: &mut Vec<u8>) {
        let first =
            (6 << 28) | (u32::from(self.traffic_class) << 20) | (self.flow_label & 0xf_ffff);
        out.extend(first.to_be_bytes());
        out.extend((len as u16).to_be_bytes());
        out.extend([next_header, self.hop_limit]);
        out.extend(self.src);
        out.extend(self.dst);
    }

    fn put_udp(&self, len: usize, out: &mut Vec<u8>) {
        out.extend(self.udp_src.to_be_bytes());
        out.extend(ROCE_UDP_PORT.to_be_bytes());
        out.extend(((UDP_LEN + len) as u16).to_be_bytes());
        // No checksum: the ICRC covers what it would.
        out.extend([0, 0]);
    }
}

/// The Internet checksum of a header whose checksum field is zero, or zero for a header with a right one.
fn ipv4_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// A frame taken apart down to the transport headers.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    pub path: Path,
    pub network: Network,
    /// From the network header up to the end of the packet with its ICRC, without any link-level padding.
    pub from_network: &'a [u8],
    /// Transport headers, payload, padding and ICRC.
    pub transport: &'a [u8],
}

/// Takes the headers below the transport off a frame.
///
/// `None` for everything that is not RoCE: other Ethertypes, fragments, other protocols, wrong lengths or checksums.
pub fn parse(frame: &[u8]) -> Option<Parsed<'_>> {
    let mut rest = frame;
    let dst_mac = take_array(&mut rest)?;
    let src_mac = take_array(&mut rest)?;
    let mut ethertype = u16::from_be_bytes(take_array(&mut rest)?);
    let mut vlan = None;
    if ethertype == ETHERTYPE_VLAN {
        vlan = Some(u16::from_be_bytes(take_array(&mut rest)?));
        ethertype = u16::from_be_bytes(take_array(&mut rest)?);
    }
    let mut path = Path {
        version: RoceVersion::V2,
        dst_mac,
        src_mac,
        vlan,
        src: [0; 16],
        dst: [0; 16],
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 0,
        udp_src: 0,
    };
    match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(path, rest),
        ETHERTYPE_IPV6 => {
            let (next, from_network, payload) = parse_ipv6(&mut path, rest)?;
            if next != PROTO_UDP {
                return None;
            }
            Some(Parsed {
                transport: parse_udp(&mut path, payload)?,
                path,
                network: Network::Ipv6,
                from_network,
            })
        }
        ETHERTYPE_ROCE_V1 => {
            path.version = RoceVersion::V1;
            let (next, from_network, transport) = parse_ipv6(&mut path, rest)?;
            (next == NEXT_HEADER_IBA).then_some(Parsed {
                path,
                network: Network::Grh,
                from_network,
                transport,
            })
        }
        _ => None,
    }
}

fn parse_ipv4(mut path: Path, packet: &[u8]) -> Option<Parsed<'_>> {
    let header: &[u8; IPV4_LEN] = packet.first_chunk()?;
    let [version, tos, l0, l1, _, _, f0, f1, ttl, proto, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
        *header;
    // RoCE allows no IP options; the upper bits of the fragment word say "more fragments" and the offset.
    let fragment = u16::from_be_bytes([f0, f1]) & 0x3fff;
    if version != 0x45 || fragment != 0 || proto != PROTO_UDP || ipv4_checksum(header) != 0 {
        return None;
    }
    let from_network = packet.get(..usize::from(u16::from_be_bytes([l0, l1])))?;
    path.traffic_class = tos;
    path.hop_limit = ttl;
    path.src = map_ipv4([s0, s1, s2, s3]);
    path.dst = map_ipv4([d0, d1, d2, d3]);
    let transport = parse_udp(&mut path, from_network.get(IPV4_LEN..)?)?;
    Some(Parsed {
        path,
        network: Network::Ipv4,
        from_network,
        transport,
    })
}

/// Fills `path`; returns the next header, the packet from this header on, and what follows the header.
fn parse_ipv6<'a>(path: &mut Path, packet: &'a [u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
    let mut rest = packet;
    let first = u32::from_be_bytes(take_array(&mut rest)?);
    let len = usize::from(u16::from_be_bytes(take_array(&mut rest)?));
    let [next, hops] = take_array(&mut rest)?;
    path.src = take_array(&mut rest)?;
    path.dst = take_array(&mut rest)?;
    if first >> 28 != 6 {
        return None;
    }
    path.traffic_class = (first >> 20) as u8;
    path.flow_label = first & 0xf_ffff;
    path.hop_limit = hops;
    Some((next, packet.get(..IPV6_LEN + len)?, rest.get(..len)?))
}

fn parse_udp<'a>(path: &mut Path, datagram: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = datagram;
    path.udp_src = u16::from_be_bytes(take_array(&mut rest)?);
    let dst = u16::from_be_bytes(take_array(&mut rest)?);
    let len = usize::from(u16::from_be_bytes(take_array(&mut rest)?));
    let _checksum: [u8; 2] = take_array(&mut rest)?;
    // The ICRC ends the packet by both lengths: that of the IP packet, and this one.
    (dst == ROCE_UDP_PORT && len == datagram.len()).then_some(rest)
}

/// Replaces the destination address of a frame, as a router does for its last hop.
pub fn set_dst_mac(frame: &mut [u8], mac: Mac) {
    if let Some(field) = frame.get_mut(..mac.len()) {
        field.copy_from_slice(&mac);
    }
}

/// Destination and source address of a frame; `None` if it is too short to be one.
pub fn macs(frame: &[u8]) -> Option<(Mac, Mac)> {
    let mut rest = frame.get(..ETH_LEN)?;
    Some((take_array(&mut rest)?, take_array(&mut rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_a_known_header() {
        // The header of RFC 1071 discussions: 192.168.0.1 to 192.168.0.199, checksum 0xb861.
        let mut header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(ipv4_checksum(&header), 0xb861);
        header[10] = 0xb8;
        header[11] = 0x61;
        assert_eq!(ipv4_checksum(&header), 0);
    }

    #[test]
    fn ipv4_gids_map_both_ways() {
        let gid = map_ipv4([10, 1, 2, 3]);
        assert_eq!(mapped_ipv4(&gid), Some([10, 1, 2, 3]));
        assert_eq!(mapped_ipv4(&[0xfe; 16]), None);
    }

    #[test]
    fn groups_are_told_from_others() {
        for group in [
            map_ipv4([224, 0, 0, 1]),
            map_ipv4([239, 255, 0, 0]),
            [0xff; 16],
        ] {
            assert!(is_multicast(&group), "{group:x?}");
        }
        for other in [
            map_ipv4([223, 0, 0, 1]),
            map_ipv4([240, 0, 0, 1]),
            [0xfe; 16],
        ] {
            assert!(!is_multicast(&other), "{other:x?}");
        }
    }
}
