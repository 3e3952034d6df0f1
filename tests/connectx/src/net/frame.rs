// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Ethernet frames: headers, checksums, segmentation.

use crate::wire::Mac;

const VLAN: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// IP protocol numbers.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// IP addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4 source and destination.
    V4([u8; 4], [u8; 4]),
    /// IPv6 source and destination.
    V6([u8; 16], [u8; 16]),
}

/// The IP part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source and destination.
    pub addresses: Addresses,
    /// Protocol of what follows the header.
    pub protocol: u8,
    /// Whether the packet is a fragment of a larger one.
    pub fragment: bool,
    /// Where the IP header starts in the frame.
    pub start: usize,
    /// Where the payload of the IP packet starts.
    pub payload: usize,
    /// Where the IP packet ends by its header: padding may follow, or the frame be too short.
    pub end: usize,
}

/// What the device reads in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Destination.
    pub dmac: Mac,
    /// Source.
    pub smac: Mac,
    /// VLAN id of the tag, if there is one.
    pub vlan: Option<u16>,
    /// Type of what follows the Ethernet header and the tag.
    pub ethertype: u16,
    /// The IP part, if there is one and its header is not cut. Frames are told apart by headers alone: that a length
    /// in one goes beyond the frame does not matter for that. (rdma-core's `test_flow` sends such IPv6 packets.)
    pub ip: Option<Ip>,
    /// Source and destination port, of unfragmented TCP and UDP.
    pub ports: Option<(u16, u16)>,
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at.checked_add(2)?)?;
    Some(bytes.iter().fold(0, |v, b| (v << 8) | u16::from(*b)))
}

fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at.checked_add(N)?)?.try_into().ok()
}

impl Headers {
    /// Reads the headers of a frame; `None` if not even the Ethernet header is there.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        let mut ethertype = be16(frame, at)?;
        let mut vlan = None;
        if ethertype == VLAN {
            vlan = Some(be16(frame, at + 2)? & 0xfff);
            at += 4;
            ethertype = be16(frame, at)?;
        }
        let ip = match ethertype {
            IPV4 => parse_ipv4(frame, at + 2),
            IPV6 => parse_ipv6(frame, at + 2),
            _ => None,
        };
        let ports = ip
            .filter(|ip| !ip.fragment && matches!(ip.protocol, TCP | UDP))
            .and_then(|ip| Some((be16(frame, ip.payload)?, be16(frame, ip.payload + 2)?)));
        Some(Self {
            dmac: array(frame, 0)?,
            smac: array(frame, 6)?,
            vlan,
            ethertype,
            ip,
            ports,
        })
    }
}

fn parse_ipv4(frame: &[u8], start: usize) -> Option<Ip> {
    let head = frame.get(start..start + 20)?;
    let len = usize::from(head[0] & 0xf) * 4;
    let end = start + usize::from(be16(frame, start + 2)?);
    if head[0] >> 4 != 4 || len < 20 || start + len > end.min(frame.len()) {
        return None;
    }
    Some(Ip {
        addresses: Addresses::V4(array(frame, start + 12)?, array(frame, start + 16)?),
        protocol: head[9],
        fragment: be16(frame, start + 6)? & 0x3fff != 0,
        start,
        payload: start + len,
        end,
    })
}

/// Extension headers are not followed: the protocol is that of the first header.
fn parse_ipv6(frame: &[u8], start: usize) -> Option<Ip> {
    let head = frame.get(start..start + 40)?;
    let end = start + 40 + usize::from(be16(frame, start + 4)?);
    if head[0] >> 4 != 6 {
        return None;
    }
    Some(Ip {
        addresses: Addresses::V6(array(frame, start + 8)?, array(frame, start + 24)?),
        protocol: head[6],
        fragment: head[6] == 44,
        start,
        payload: start + 40,
        end,
    })
}

/// Ones' complement sum of big-endian words, folded to 16 bits.
pub fn sum(bytes: &[u8], initial: u32) -> u16 {
    let mut sum = u64::from(initial);
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u64::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Sum of the pseudo header of TCP and UDP.
fn pseudo_header(ip: &Ip) -> u32 {
    let (source, destination) = match &ip.addresses {
        Addresses::V4(s, d) => (s.as_slice(), d.as_slice()),
        Addresses::V6(s, d) => (s.as_slice(), d.as_slice()),
    };
    let fixed = u32::from(ip.protocol) + (ip.end - ip.payload) as u32;
    u32::from(sum(destination, sum(source, fixed).into()))
}

/// Writes the checksum of the IPv4 header.
pub fn write_ip_checksum(frame: &mut [u8], ip: &Ip) {
    if matches!(ip.addresses, Addresses::V4(..)) {
        put16(frame, ip.start + 10, 0);
        let check = !sum(frame.get(ip.start..ip.payload).unwrap_or(&[]), 0);
        put16(frame, ip.start + 10, check);
    }
}

/// Writes the checksum of the TCP or UDP header.
pub fn write_l4_checksum(frame: &mut [u8], ip: &Ip) {
    let at = match ip.protocol {
        TCP => ip.payload + 16,
        UDP => ip.payload + 6,
        _ => return,
    };
    if at + 2 > ip.end || ip.end > frame.len() {
        return;
    }
    put16(frame, at, 0);
    let check = !sum(
        frame.get(ip.payload..ip.end).unwrap_or(&[]),
        pseudo_header(ip),
    );
    // UDP has no checksum of zero; for TCP both stand for the same.
    put16(frame, at, if check == 0 { 0xffff } else { check });
}

/// Whether the checksums of IP header and TCP or UDP are right: `(l3, l4)`. A packet without
/// such a checksum counts as wrong, and so does one that is longer than the frame.
pub fn verify(frame: &[u8], ip: &Ip) -> (bool, bool) {
    let l3 = match ip.addresses {
        Addresses::V4(..) => sum(frame.get(ip.start..ip.payload).unwrap_or(&[]), 0) == 0xffff,
        Addresses::V6(..) => true,
    };
    let payload = frame.get(ip.payload..ip.end);
    let l4 = !ip.fragment
        && matches!(ip.protocol, TCP | UDP)
        && payload.is_some_and(|payload| sum(payload, pseudo_header(ip)) == 0xffff);
    (l3, l4)
}

/// Cuts a large TCP frame into segments of at most `mss` bytes (LSO). The first `header` bytes
/// are repeated in each; lengths, IPv4 id, sequence number and flags are set, checksums are not.
/// `None` if the frame is not TCP, or the header does not end where TCP's does.
pub fn segment(frame: &[u8], header: usize, mss: usize) -> Option<Vec<Vec<u8>>> {
    let head = frame.get(..header)?;
    let data = frame.get(header..)?;
    let ethertype_at = if be16(head, 12)? == VLAN { 16 } else { 12 };
    let start = ethertype_at + 2;
    let version = *head.get(start)? >> 4;
    let (tcp, protocol) = match version {
        4 => (
            start + usize::from(head.get(start)? & 0xf) * 4,
            *head.get(start + 9)?,
        ),
        6 => (start + 40, *head.get(start + 6)?),
        _ => return None,
    };
    if protocol != TCP || tcp + usize::from(head.get(tcp + 12)? >> 4) * 4 != header || mss == 0 {
        return None;
    }
    let sequence = u32::from_be_bytes(array(head, tcp + 4)?);
    let id = be16(head, start + 4)?;
    let count = data.len().div_ceil(mss);
    let mut segments = Vec::with_capacity(count);
    for (i, part) in data.chunks(mss).enumerate() {
        let mut segment = [head, part].concat();
        let total = segment.len() - start;
        if version == 4 {
            put16(&mut segment, start + 2, total as u16);
            put16(&mut segment, start + 4, id.wrapping_add(i as u16));
        } else {
            put16(&mut segment, start + 4, (total - 40) as u16);
        }
        let sequence = sequence.wrapping_add((i * mss) as u32);
        segment
            .get_mut(tcp + 4..tcp + 8)?
            .copy_from_slice(&sequence.to_be_bytes());
        let flags = segment.get_mut(tcp + 13)?;
        if i + 1 < count {
            // FIN and PSH belong to the last segment.
            *flags &= !0x09;
        }
        if i > 0 {
            // CWR belongs to the first one.
            *flags &= !0x80;
        }
        segments.push(segment);
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet, IPv4 and a TCP header of 20 bytes, and `len` bytes of payload.
    fn tcp(len: usize) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        f.extend([0x45, 0]);
        f.extend(((40 + len) as u16).to_be_bytes());
        f.extend([0, 7, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend([
            0x1f, 0x90, 0, 80, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x89, 1, 0, 0, 0, 0, 0,
        ]);
        f.extend((0..len).map(|i| i as u8));
        f
    }

    #[test]
    fn headers_of_a_tcp_frame() {
        let h = Headers::parse(&tcp(4)).unwrap();
        assert_eq!(
            (h.ethertype, h.vlan, h.ports),
            (IPV4, None, Some((0x1f90, 80)))
        );
        let ip = h.ip.unwrap();
        assert_eq!((ip.start, ip.payload, ip.end), (14, 34, 58));
        assert_eq!(ip.addresses, Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]));
    }

    #[test]
    fn a_cut_packet_has_its_headers_and_no_checksum() {
        let mut frame = tcp(4);
        let ip = Headers::parse(&frame).unwrap().ip.unwrap();
        write_ip_checksum(&mut frame, &ip);
        write_l4_checksum(&mut frame, &ip);
        for len in 0..frame.len() {
            let cut = &mut frame[..len].to_vec();
            let headers = Headers::parse(cut);
            let found = headers.and_then(|headers| headers.ip);
            assert_eq!(found, (len >= 34).then_some(ip), "{len}");
            let ports = headers.and_then(|headers| headers.ports);
            assert_eq!(ports.is_some(), len >= 38, "{len}");
            if found.is_some() {
                assert_eq!(verify(cut, &ip), (true, false), "{len}");
                let before = cut.clone();
                write_l4_checksum(cut, &ip);
                assert_eq!(*cut, before, "{len}");
            }
        }
    }

    #[test]
    fn an_ipv6_packet_may_claim_more_than_there_is() {
        let mut frame = vec![
            1, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0,
        ];
        frame.extend([0, 48, UDP, 64]);
        frame.extend([7; 32]);
        frame.extend([4, 210, 22, 46, 0, 8, 0, 0]);
        let headers = Headers::parse(&frame).unwrap();
        let ip = headers.ip.unwrap();
        assert_eq!(ip.addresses, Addresses::V6([7; 16], [7; 16]));
        assert_eq!(headers.ports, Some((1234, 5678)));
        assert_eq!(verify(&frame, &ip), (true, false));
    }

    #[test]
    fn written_checksums_verify() {
        for len in [0, 1, 100] {
            let mut frame = tcp(len);
            let ip = Headers::parse(&frame).unwrap().ip.unwrap();
            assert_eq!(verify(&frame, &ip), (false, false));
            write_ip_checksum(&mut frame, &ip);
            write_l4_checksum(&mut frame, &ip);
            assert_eq!(verify(&frame, &ip), (true, true));
        }
    }

    #[test]
    fn segments_join_to_the_whole() {
        let frame = tcp(2500);
        let segments = segment(&frame, 54, 1000).unwrap();
        assert_eq!(
            segments.iter().map(Vec::len).collect::<Vec<_>>(),
            [1054, 1054, 554]
        );
        let payload: Vec<u8> = segments.iter().flat_map(|s| s[54..].to_vec()).collect();
        assert_eq!(payload, frame[54..]);
        for (i, s) in segments.iter().enumerate() {
            let ip = Headers::parse(s).unwrap().ip.unwrap();
            assert_eq!(ip.end, s.len());
            assert_eq!(be16(s, 18).unwrap(), 7 + i as u16);
            assert_eq!(
                u32::from_be_bytes(array(s, 38).unwrap()),
                100 + 1000 * i as u32
            );
        }
        assert_eq!(
            [segments[0][47], segments[1][47], segments[2][47]],
            [0x80, 0x00, 0x09]
        );
        assert!(segment(&frame, 50, 1000).is_none());
        assert!(segment(&frame, 54, 0).is_none());
    }
}
