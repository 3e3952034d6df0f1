// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Address vector of datagram sends (`struct mlx5_av`, 48 bytes).

use super::be;

/// Bytes of the segment.
pub const SIZE: usize = 48;

/// Bit of the destination word that says that the vector has its full length (`MLX5_EXTENDED_UD_AV`).
pub const EXTENDED: u32 = 1 << 31;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// Queue key.
    pub qkey: u32,
    /// Destination QP, 24 bits.
    pub dqpn: u32,
    /// Static rate in bits 7:4, service level in bits 3:0 (InfiniBand) or 3:1 (RoCE).
    pub stat_rate_sl: u8,
    /// Force-loopback bit 7, source path bits 6:0.
    pub fl_mlid: u8,
    /// Destination LID (InfiniBand) or UDP source port (RoCE).
    pub rlid_or_sport: u16,
    /// Destination MAC (RoCE).
    pub rmac: [u8; 6],
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Whether a global route header is sent.
    pub grh: bool,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Destination GID.
    pub rgid: [u8; 16],
}

impl AddressVector {
    /// The bytes as they stand in the ring.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        be::put32(&mut b, 0, self.qkey);
        be::put32(&mut b, 8, EXTENDED | (self.dqpn & 0xff_ffff));
        b[12] = self.stat_rate_sl;
        b[13] = self.fl_mlid;
        be::put16(&mut b, 14, self.rlid_or_sport);
        b[20..26].copy_from_slice(&self.rmac);
        b[26] = self.tclass;
        b[27] = self.hop_limit;
        let route = (u32::from(self.grh) << 30)
            | (u32::from(self.sgid_index) << 20)
            | (self.flow_label & 0xf_ffff);
        be::put32(&mut b, 28, route);
        b[32..].copy_from_slice(&self.rgid);
        b
    }

    /// Reads any 48 bytes. Reserved bytes are ignored.
    pub const fn decode(b: &[u8; SIZE]) -> AddressVector {
        let route = be::get32(b, 28);
        AddressVector {
            qkey: be::get32(b, 0),
            dqpn: be::get32(b, 8) & 0xff_ffff,
            stat_rate_sl: b[12],
            fl_mlid: b[13],
            rlid_or_sport: be::get16(b, 14),
            rmac: [b[20], b[21], b[22], b[23], b[24], b[25]],
            tclass: b[26],
            hop_limit: b[27],
            grh: route & (1 << 30) != 0,
            sgid_index: (route >> 20) as u8,
            flow_label: route & 0xf_ffff,
            rgid: ((be::get64(b, 32) as u128) << 64 | be::get64(b, 40) as u128).to_be_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_places() {
        let av = AddressVector {
            qkey: 0x1122_3344,
            dqpn: 0x55_6677,
            stat_rate_sl: 0x88,
            fl_mlid: 0x99,
            rlid_or_sport: 0xaabb,
            rmac: [1, 2, 3, 4, 5, 6],
            tclass: 7,
            hop_limit: 8,
            grh: true,
            sgid_index: 0xcd,
            flow_label: 0xf_0001,
            rgid: [9; 16],
        };
        let b = av.encode();
        assert_eq!(b[8..12], [0x80, 0x55, 0x66, 0x77]);
        assert_eq!(b[28..32], [0x4c, 0xdf, 0x00, 0x01]);
        assert_eq!(AddressVector::decode(&b), av);
    }
}
