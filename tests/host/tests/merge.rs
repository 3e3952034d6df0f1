// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Merged WRITEs against the WRITEs one by one, both carried out on the same memory.

use mlx5_ulp_host_tests::wqe::data::Data;
use mlx5_ulp_host_tests::wqe::merge::{Groups, Joined, Limits, Open, Write, MAX_SEGMENTS};
use mlx5_ulp_host_tests::wqe::rdma::RemoteAddr;
use proptest::collection::vec;
use proptest::prelude::*;

const MEMORY: usize = 4096;

/// One that mostly goes on where the last one ended, at either side.
#[derive(Clone, Debug)]
struct Step {
    remote_jump: Option<u64>,
    local_jump: Option<u64>,
    len: u32,
    other_rkey: bool,
    other_lkey: bool,
    alone: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let jump = || prop_oneof![3 => Just(None), 1 => (0u64..1024).prop_map(Some)];
    let rarely = || prop::bool::weighted(0.1);
    (jump(), jump(), 0u32..64, rarely(), rarely(), rarely()).prop_map(
        |(remote_jump, local_jump, len, other_rkey, other_lkey, alone)| Step {
            remote_jump,
            local_jump,
            len,
            other_rkey,
            other_lkey,
            alone,
        },
    )
}

fn chain(steps: &[Step]) -> Vec<Write> {
    let (mut remote, mut local) = (0, 0);
    let mut chain = Vec::new();
    for step in steps {
        remote = step.remote_jump.unwrap_or(remote);
        local = step.local_jump.unwrap_or(local);
        chain.push(Write {
            remote: RemoteAddr {
                addr: remote,
                rkey: 1 + u32::from(step.other_rkey),
            },
            data: Data {
                byte_count: step.len,
                lkey: 1 + u32::from(step.other_lkey),
                addr: local,
            },
            alone: step.alone,
        });
        remote += u64::from(step.len);
        local += u64::from(step.len);
    }
    chain
}

/// The memory behind two keys.
type Memory = [Vec<u8>; 2];

fn source() -> Memory {
    let fill = |seed: usize| {
        (0..MEMORY)
            .map(|i| (i * 31 + seed + i / 251) as u8)
            .collect()
    };
    [fill(1), fill(128)]
}

/// What the HCA does with one WQE.
fn carry_out(remote: RemoteAddr, data: impl Iterator<Item = Data>, from: &Memory, to: &mut Memory) {
    let mut at = remote.addr as usize;
    for d in data {
        let (start, len) = (d.addr as usize, d.byte_count as usize);
        let bytes = &from[d.lkey as usize - 1][start..start + len];
        to[remote.rkey as usize - 1][at..at + len].copy_from_slice(bytes);
        at += len;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_same_bytes_arrive(
        steps in vec(step(), 0..40),
        max_segments in 0u8..8,
        max_message in 0u32..512,
        min_send_size in 0u32..48,
    ) {
        let chain = chain(&steps);
        let limits = Limits { max_segments, max_message, min_send_size };
        let from = source();
        let mut one_by_one: Memory = [vec![0; MEMORY], vec![0; MEMORY]];
        for w in &chain {
            carry_out(w.remote, [w.data].into_iter(), &from, &mut one_by_one);
        }
        let mut merged: Memory = [vec![0; MEMORY], vec![0; MEMORY]];
        let mut covered = Vec::new();
        let mut blocks = 0u32;
        for group in Groups::new(&chain, limits) {
            let data: Vec<Data> = group.data().collect();
            let bytes: u32 = data.iter().map(|d| d.byte_count).sum();
            prop_assert_eq!(data.len(), usize::from(group.wqe.segments()));
            prop_assert_eq!(bytes, group.wqe.bytes());
            prop_assert_eq!(data.last().copied(), Some(group.wqe.last()));
            blocks += u32::from(group.wqe.blocks());
            if group.requests.len() > 1 {
                prop_assert!(data.len() <= usize::from(max_segments.max(1)));
                prop_assert!(bytes <= max_message);
                for w in group.requests {
                    prop_assert!(!w.alone && w.data.byte_count >= min_send_size);
                    prop_assert!(w.data.byte_count != 0);
                }
            }
            covered.extend_from_slice(group.requests);
            carry_out(group.requests[0].remote, data.into_iter(), &from, &mut merged);
        }
        prop_assert_eq!(covered, chain.clone(), "each request once and in order");
        prop_assert_eq!(blocks, Groups::new(&chain, limits).blocks());
        prop_assert_eq!(merged, one_by_one);
    }

    /// A WQE that has not been rung yet grows by one request after the other: as by a chain at once.
    #[test]
    fn one_after_the_other_is_as_a_chain(steps in vec(step(), 1..40)) {
        let chain = chain(&steps);
        let limits = Limits { max_segments: MAX_SEGMENTS, max_message: 1 << 30, min_send_size: 1 };
        let mut wqes: Vec<(Open, Vec<Data>)> = Vec::new();
        for write in &chain {
            let joined = wqes.last_mut().and_then(|(open, data)| {
                let joined = open.join(write, &limits)?;
                match joined {
                    Joined::NewSegment => data.push(write.data),
                    Joined::SameSegment => *data.last_mut().unwrap() = open.last(),
                }
                Some(())
            });
            if joined.is_none() {
                wqes.push((Open::start(write, &limits), vec![write.data]));
            }
        }
        let groups: Vec<_> = Groups::new(&chain, limits).map(|g| (g.wqe, g.data().collect())).collect();
        prop_assert_eq!(wqes, groups);
    }
}

proptest! {
    /// Any numbers: no overflow, no endless loop, nothing lost.
    #[test]
    fn any_numbers(raw in vec(any::<(u64, u32, u32, u32, u64)>(), 0..8), limits in any::<(u8, u32, u32)>()) {
        let limits = Limits {
            max_segments: limits.0,
            max_message: limits.1,
            min_send_size: limits.2 >> 16,
        };
        let mut chain: Vec<Write> = Vec::new();
        for (remote, rkey, byte_count, lkey, local) in raw {
            // Every other one right behind its predecessor, also across the end of the address space.
            let before = chain.last().filter(|_| chain.len() % 2 == 1);
            let (remote, rkey) = before.map_or((remote | 1 << 63, rkey), |w| {
                (w.remote.addr.wrapping_add(w.data.byte_count.into()), w.remote.rkey)
            });
            chain.push(Write {
                remote: RemoteAddr { addr: remote, rkey },
                data: Data { byte_count, lkey, addr: local },
                alone: false,
            });
        }
        let total: usize = Groups::new(&chain, limits).map(|g| g.requests.len()).sum();
        prop_assert_eq!(total, chain.len());
        for group in Groups::new(&chain, limits) {
            prop_assert!(group.wqe.ds() <= 63);
            prop_assert!(group.data().count() == usize::from(group.wqe.segments()));
        }
    }
}
