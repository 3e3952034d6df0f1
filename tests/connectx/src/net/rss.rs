// SPDX-License-Identifier: GPL-2.0 OR MIT

//! TIRs and RQTs: which receive queue a frame goes to.

use super::frame::{Addresses, Headers, TCP};
use crate::field;
use crate::ifc;
use crate::table::Table;

/// `disp_type` of a TIR that goes through an RQT.
const INDIRECT: u32 = 1;
/// `rx_hash_fn` Toeplitz; the others spread as well, and only this one is used by the driver.
const TOEPLITZ: u32 = 2;
/// `selected_fields` of the hash: source and destination address, source and destination port.
const SRC_IP: u32 = 1;
const DST_IP: u32 = 2;
const SRC_PORT: u32 = 4;
const DST_PORT: u32 = 8;

/// `self_lb_block` (`MLX5_TIRC_SELF_LB_BLOCK_BLOCK_UNICAST` and `..._MULTICAST`).
const SELF_UNICAST: u32 = 1;
const SELF_MULTICAST: u32 = 2;

/// A transport interface receive.
#[derive(Debug)]
pub struct Tir {
    /// The context as given or modified.
    pub context: [u8; 0xf0],
}

impl Tir {
    fn get(&self, field: ifc::Field) -> u32 {
        ifc::get(&self.context, field)
    }

    /// The RQT that the TIR spreads over, or else its one RQ.
    pub fn target(&self) -> Target {
        if self.get(field!(mlx5_ifc_tirc_bits, disp_type)) == INDIRECT {
            Target::Rqt(self.get(field!(mlx5_ifc_tirc_bits, indirect_table)))
        } else {
            Target::Rq(self.get(field!(mlx5_ifc_tirc_bits, inline_rqn)))
        }
    }

    /// The transport domain.
    pub fn transport_domain(&self) -> u32 {
        self.get(field!(mlx5_ifc_tirc_bits, transport_domain))
    }

    /// Whether the TIR takes frames of its own transport domain, to a group or to one address (`self_lb_block`, see
    /// `loopback.rs`).
    pub(super) fn takes_own(&self, group: bool) -> bool {
        let bits = self.get(field!(mlx5_ifc_tirc_bits, self_lb_block));
        bits & if group { SELF_MULTICAST } else { SELF_UNICAST } != 0
    }

    /// Hash of a frame over the selected fields.
    fn hash(&self, headers: &Headers) -> Hash {
        if self.get(field!(mlx5_ifc_tirc_bits, rx_hash_fn)) != TOEPLITZ {
            return Hash::default();
        }
        let Some(ip) = headers.ip else {
            return Hash::default();
        };
        let selected = field!(
            mlx5_ifc_tirc_bits,
            rx_hash_field_selector_outer.selected_fields
        );
        let selected = self.get(selected);
        let (source, destination, l3) = match &ip.addresses {
            Addresses::V4(s, d) => (s.as_slice(), d.as_slice(), 1),
            Addresses::V6(s, d) => (s.as_slice(), d.as_slice(), 2),
        };
        let mut input = Vec::new();
        if selected & SRC_IP != 0 {
            input.extend_from_slice(source);
        }
        if selected & DST_IP != 0 {
            input.extend_from_slice(destination);
        }
        let mut l4 = 0;
        if let Some((sport, dport)) = headers.ports {
            if selected & SRC_PORT != 0 {
                input.extend_from_slice(&sport.to_be_bytes());
            }
            if selected & DST_PORT != 0 {
                input.extend_from_slice(&dport.to_be_bytes());
            }
            if selected & (SRC_PORT | DST_PORT) != 0 {
                l4 = if ip.protocol == TCP { 1 } else { 2 };
            }
        }
        let key = ifc::bytes(
            &self.context,
            field!(mlx5_ifc_tirc_bits, rx_hash_toeplitz_key),
        );
        Hash {
            value: toeplitz(key, &input),
            // CQE_RSS_HTYPE_IP and CQE_RSS_HTYPE_L4.
            kind: (l3 << 2) | (l4 << 6),
        }
    }
}

/// Where a TIR leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One receive queue.
    Rq(u32),
    /// A table of receive queues.
    Rqt(u32),
}

/// A receive queue table.
#[derive(Debug, Default)]
pub struct Rqt {
    /// RQs in the order of the entries.
    pub rqs: Vec<u32>,
    /// Largest number of entries.
    pub max_size: usize,
}

/// Hash of a frame and what it was made of, as a CQE tells it; zero if none was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// The hash.
    pub value: u32,
    /// `rss_hash_type` of a CQE.
    pub kind: u8,
}

/// The hash function of RSS.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], i: usize| {
        bytes
            .get(i / 8)
            .is_some_and(|b| (b >> (7 - i % 8)) & 1 != 0)
    };
    let mut window: u32 = (0..32).fold(0, |w, i| (w << 1) | u32::from(bit(key, i)));
    let mut hash = 0;
    for i in 0..input.len() * 8 {
        if bit(input, i) {
            hash ^= window;
        }
        window = (window << 1) | u32::from(bit(key, i + 32));
    }
    hash
}

/// The RQ for a frame that reached a TIR, and the hash that chose it.
pub(super) fn select(tir: &Tir, rqts: &Table<Rqt>, headers: &Headers) -> Option<(u32, Hash)> {
    let hash = tir.hash(headers);
    let rqn = match tir.target() {
        Target::Rq(rqn) => rqn,
        Target::Rqt(rqt) => {
            let rqs = &rqts.get(rqt)?.rqs;
            *rqs.get(hash.value as usize % rqs.len().max(1))?
        }
    };
    Some((rqn, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and vectors of the RSS specification ("Verifying the RSS hash calculation").
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn toeplitz_agrees_with_the_published_vectors() {
        let mut input = vec![66, 9, 149, 187, 161, 142, 100, 80];
        assert_eq!(toeplitz(&KEY, &input), 0x323e_8fc2);
        input.extend(2794u16.to_be_bytes());
        input.extend(1766u16.to_be_bytes());
        assert_eq!(toeplitz(&KEY, &input), 0x51cc_c178);
    }
}
