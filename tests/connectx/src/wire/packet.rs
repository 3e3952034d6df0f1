// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A whole RoCE packet.

use super::headers::{Bth, Extensions};
use super::icrc::{icrc, Network};
use super::net::{self, Path};
use super::opcode::{Opcode, Transport};

const ICRC_LEN: usize = 4;

/// Why a frame is not a RoCE packet for this device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Another protocol: not an error of the sender.
    NotRoce,
    /// Cut short, an opcode or syndrome outside the standard, more padding than payload, or less than whole words.
    Malformed,
    /// The ICRC does not match.
    BadCrc,
}

/// A packet as taken from a frame.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub path: Path,
    pub network: Network,
    /// The network header, for the 40 bytes in front of a received datagram.
    pub network_header: &'a [u8],
    pub bth: Bth,
    pub ext: Extensions,
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes a frame apart and checks its ICRC.
    ///
    /// # Errors
    ///
    /// See [`ParseError`]; any byte sequence gets an answer.
    pub fn parse(frame: &'a [u8]) -> Result<Self, ParseError> {
        let parsed = net::parse(frame).ok_or(ParseError::NotRoce)?;
        let body_len = parsed
            .transport
            .len()
            .checked_sub(ICRC_LEN)
            .ok_or(ParseError::Malformed)?;
        let (mut body, _) = parsed.transport.split_at(body_len);
        let (covered, crc) = parsed
            .from_network
            .split_last_chunk::<ICRC_LEN>()
            .ok_or(ParseError::Malformed)?;
        if icrc(parsed.network, covered).ok_or(ParseError::Malformed)? != *crc {
            return Err(ParseError::BadCrc);
        }
        let bth = Bth::take(&mut body).ok_or(ParseError::Malformed)?;
        let ext = Extensions::take(bth.opcode, &mut body).ok_or(ParseError::Malformed)?;
        // The padding makes whole words of the payload.
        let payload_len = body
            .len()
            .checked_sub(usize::from(bth.pad))
            .filter(|_| body.len() % 4 == 0)
            .ok_or(ParseError::Malformed)?;
        Ok(Packet {
            path: parsed.path,
            network: parsed.network,
            network_header: parsed.from_network,
            bth,
            ext,
            payload: body.get(..payload_len).ok_or(ParseError::Malformed)?,
        })
    }
}

/// The queue pair that a RoCE frame is for; `None` for other frames.
pub fn destination(frame: &[u8]) -> Option<u32> {
    let mut transport = net::parse(frame)?.transport;
    Bth::take(&mut transport).map(|bth| bth.dest_qp)
}

/// Does a frame carry a packet of a reliable connection? Looks at no more than the opcode.
pub fn is_reliable(frame: &[u8]) -> bool {
    net::parse(frame)
        .and_then(|parsed| parsed.transport.first().copied())
        .and_then(Opcode::from_byte)
        .is_some_and(|opcode| matches!(opcode.transport, Transport::Rc | Transport::Xrc))
}

/// A frame in the making: headers are in place, the payload is filled where it lies, the ICRC comes last.
#[derive(Debug)]
pub struct PacketBuilder {
    frame: Vec<u8>,
    network: Network,
    network_start: usize,
    payload_start: usize,
    payload_len: usize,
}

impl PacketBuilder {
    /// Lays out a packet with `payload_len` bytes of payload, zero so far. `bth.pad` is set from that length.
    pub fn new(path: &Path, mut bth: Bth, ext: &Extensions, payload_len: usize) -> Self {
        let pad = payload_len.wrapping_neg() & 3;
        bth.pad = pad as u8;
        let mut transport = Vec::with_capacity(64);
        bth.put(&mut transport);
        ext.put(bth.opcode, &mut transport);
        let len = transport.len() + payload_len + pad + ICRC_LEN;
        let mut frame = Vec::with_capacity(len + 64);
        let network_start = path.put(len, &mut frame);
        frame.extend_from_slice(&transport);
        let payload_start = frame.len();
        frame.resize(payload_start + payload_len + pad, 0);
        PacketBuilder {
            frame,
            network: path.network(),
            network_start,
            payload_start,
            payload_len,
        }
    }

    /// Where the payload goes.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.frame
            .get_mut(self.payload_start..)
            .and_then(|tail| tail.get_mut(..self.payload_len))
            .unwrap_or_default()
    }

    /// Closes the packet with its ICRC.
    pub fn finish(mut self) -> Vec<u8> {
        let covered = self.frame.get(self.network_start..).unwrap_or_default();
        // The builder wrote whole headers, so there is a CRC; were there none, the receiver would drop the packet.
        let crc = icrc(self.network, covered).unwrap_or_default();
        self.frame.extend(crc);
        self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers::*;
    use crate::wire::net::{map_ipv4, RoceVersion};
    use crate::wire::opcode::*;

    fn path(version: RoceVersion, ipv4: bool) -> Path {
        let gid = |last| {
            if ipv4 {
                map_ipv4([10, 0, 0, last])
            } else {
                let mut gid = [0xfe; 16];
                gid[15] = last;
                gid
            }
        };
        Path {
            version,
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            vlan: None,
            src: gid(1),
            dst: gid(2),
            traffic_class: 0x89,
            flow_label: if version == RoceVersion::V2 && ipv4 {
                0
            } else {
                0x1_2345
            },
            hop_limit: 64,
            udp_src: if version == RoceVersion::V2 {
                0xc123
            } else {
                0
            },
        }
    }

    fn paths() -> [Path; 4] {
        let mut tagged = path(RoceVersion::V2, true);
        tagged.vlan = Some(0x6007);
        [
            path(RoceVersion::V1, false),
            path(RoceVersion::V2, false),
            path(RoceVersion::V2, true),
            tagged,
        ]
    }

    fn extensions(opcode: Opcode) -> Extensions {
        let op = opcode.op;
        let (swap_add_mask, compare_mask) = if op.is_masked_atomic() {
            (0xff00, 0x00ff)
        } else {
            AtomicEth::plain_masks(op)
        };
        Extensions {
            xrc_srq: opcode.has_xrceth().then_some(0x0030_4050),
            deth: (opcode.transport == Transport::Ud).then_some(Deth {
                qkey: 0x8001_0000,
                src_qp: 0x123456,
            }),
            reth: op.has_reth().then_some(Reth {
                va: 0x0123_4567_89ab_cdef,
                rkey: 0xdead_beef,
                length: 0x0400_0000,
            }),
            atomic: op.has_atomic_eth().then_some(AtomicEth {
                va: 0x1000,
                rkey: 0x2000,
                swap_add: 1,
                compare: 2,
                swap_add_mask,
                compare_mask,
            }),
            aeth: op.has_aeth().then_some(Aeth {
                syndrome: AckSyndrome::Ack,
                msn: 0xff_ffff,
            }),
            atomic_ack: (op == Op::AtomicAcknowledge).then_some(u64::MAX),
            immediate: op.has_immediate().then_some([1, 2, 3, 4]),
            invalidate: op.has_ieth().then_some(0x0102_0304),
        }
    }

    fn every_packet(mut visit: impl FnMut(Path, Bth, Extensions, &[u8], Vec<u8>)) {
        let data: Vec<u8> = (0..=255).cycle().take(1024).collect();
        for path in paths() {
            for opcode in (0..=u8::MAX).filter_map(Opcode::from_byte) {
                for len in [0usize, 1, 2, 3, 4, 255, 1024] {
                    let bth = Bth {
                        opcode,
                        solicited: len & 1 != 0,
                        pad: 0,
                        pkey: 0xffff,
                        dest_qp: 0x00ab_cdef,
                        ack_req: len & 2 != 0,
                        psn: 0xff_ffff,
                    };
                    let ext = extensions(opcode);
                    let mut builder = PacketBuilder::new(&path, bth, &ext, len);
                    builder.payload_mut().copy_from_slice(&data[..len]);
                    visit(path, bth, ext, &data[..len], builder.finish());
                }
            }
        }
    }

    #[test]
    fn what_is_built_parses_back() {
        every_packet(|path, mut bth, ext, payload, frame| {
            let packet = Packet::parse(&frame).expect("own packet");
            bth.pad = (payload.len().wrapping_neg() & 3) as u8;
            assert_eq!(packet.path, path);
            assert_eq!(packet.bth, bth);
            assert_eq!(packet.ext, ext);
            assert_eq!(packet.payload, payload);
        });
    }

    fn send_only() -> Bth {
        Bth {
            opcode: Opcode::rc(Op::SendOnly),
            solicited: false,
            pad: 0,
            pkey: 0xffff,
            dest_qp: 1,
            ack_req: false,
            psn: 0,
        }
    }

    #[test]
    fn link_level_padding_is_not_payload() {
        let path = path(RoceVersion::V2, true);
        let mut frame = PacketBuilder::new(&path, send_only(), &Extensions::default(), 0).finish();
        frame.extend([0xaa; 10]);
        assert_eq!(Packet::parse(&frame).map(|p| p.payload.len()), Ok(0));
    }

    /// The lengths of the headers, less so many bytes, and the ICRC of that.
    fn shortened(mut frame: Vec<u8>, fields: &[usize], by: u8) -> Vec<u8> {
        for low in fields {
            frame[*low] -= by;
        }
        let end = frame.len() - ICRC_LEN;
        let crc = icrc(Network::Ipv6, &frame[14..end]).unwrap();
        frame[end..].copy_from_slice(&crc);
        frame
    }

    #[test]
    fn lengths_agree_and_make_whole_words() {
        let path = path(RoceVersion::V2, false);
        let whole = PacketBuilder::new(&path, send_only(), &Extensions::default(), 8).finish();
        assert_eq!(Packet::parse(&whole).map(|p| p.payload.len()), Ok(8));
        // The low bytes of the lengths of IPv6 and UDP.
        let (ip, udp) = (14 + 5, 14 + 40 + 5);
        let inner = shortened(whole.clone(), &[udp], 4);
        assert_eq!(Packet::parse(&inner).err(), Some(ParseError::NotRoce));
        let mut cut = whole;
        cut.pop();
        let cut = shortened(cut, &[ip, udp], 1);
        assert_eq!(Packet::parse(&cut).err(), Some(ParseError::Malformed));
    }

    #[test]
    fn any_flipped_bit_is_noticed_or_harmless() {
        every_packet(|_, _, _, payload, frame| {
            if payload.len() > 4 {
                return;
            }
            for at in 0..frame.len() {
                let mut bad = frame.clone();
                bad[at] ^= 0x10;
                if let Ok(packet) = Packet::parse(&bad) {
                    // Only bytes that the ICRC leaves out can change unnoticed; the payload is not among them.
                    assert_eq!(packet.payload, payload, "byte {at}");
                }
            }
        });
    }

    #[test]
    fn no_input_panics_the_parser() {
        use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};
        let mut rng = SmallRng::seed_from_u64(1);
        let mut frames = Vec::new();
        every_packet(|_, _, _, payload, frame| {
            if payload.len() <= 4 {
                frames.push(frame);
            }
        });
        for round in 0..20_000 {
            let mut frame = frames[round % frames.len()].clone();
            frame.truncate(rng.random_range(0..=frame.len()));
            for _ in 0..rng.random_range(0..4) {
                if let Some(len) = frame.len().checked_sub(1) {
                    let at = rng.random_range(0..=len);
                    frame[at] = rng.next_u32() as u8;
                }
            }
            let _ = Packet::parse(&frame);
        }
    }
}
