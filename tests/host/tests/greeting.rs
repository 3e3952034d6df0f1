// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a disk and its target tell each other: it comes out as it went in, and bytes that are something else, or nonsense,
//! are refused. The file is that of `mlx5_ulp_blk`.

use proptest::prelude::*;

#[allow(dead_code, missing_docs)]
#[path = "../../../rust/mlx5_ulp_blk/greeting.rs"]
mod greeting;

use greeting::{Guest, Peer};

/// Bytes of private data that an answer has room for.
const ROOM: usize = 196;

/// As rdma_cm delivers it: with zeroes behind.
fn padded(data: &[u8]) -> Vec<u8> {
    let mut all = data.to_vec();
    all.resize(ROOM, 0);
    all
}

fn peer(address: u64, bytes: u64) -> Peer {
    Peer {
        address,
        bytes,
        rkey: 0x1234_5678,
        incarnation: 7,
    }
}

proptest! {
    #[test]
    fn a_guest_is_known_again(disk: u64, index: u32) {
        let said = Guest { disk, index }.encode();
        let heard = Guest::decode(&padded(&said));
        prop_assert!(heard.is_some_and(|g| g.disk == disk && g.index == index));
        prop_assert!(Guest::decode(&said[..said.len() - 1]).is_none());
    }

    #[test]
    fn memory_that_can_be_is_taken(address in 0..=u64::MAX / 2, bytes in 512..=u64::MAX / 2, rkey: u32, incarnation: u64) {
        let peer = Peer { address, bytes, rkey, incarnation };
        let said = peer.encode();
        prop_assert!(Peer::decode(&padded(&said)) == Some(peer));
        prop_assert!(Peer::decode(&said[..said.len() - 1]).is_none());
    }

    #[test]
    fn anything_may_come(data in proptest::collection::vec(any::<u8>(), 0..ROOM)) {
        let magic = data.starts_with(b"ulp1");
        prop_assert!(magic || Guest::decode(&data).is_none());
        prop_assert!(magic || Peer::decode(&data).is_none());
    }

    #[test]
    fn no_answer_of_a_target_goes_beyond_the_addresses(mut data in proptest::collection::vec(any::<u8>(), 32..ROOM)) {
        data[..4].copy_from_slice(b"ulp1");
        if let Some(peer) = Peer::decode(&data) {
            prop_assert!(peer.address.checked_add(peer.bytes).is_some());
        }
    }
}

#[test]
fn memory_that_cannot_be_is_refused() {
    for (address, bytes) in [(4096, 0), (4096, 511), (u64::MAX - 511, 512), (1, u64::MAX)] {
        assert!(Peer::decode(&peer(address, bytes).encode()).is_none());
    }
    assert!(Peer::decode(&peer(u64::MAX - 512, 512).encode()).is_some());
}

#[test]
fn an_answer_that_says_nothing_is_refused() {
    assert!(Peer::decode(&padded(&[])).is_none());
    assert!(Guest::decode(&padded(&[])).is_none());
}
