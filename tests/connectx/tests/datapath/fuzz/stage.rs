// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two functions with everything that WQEs and packets may refer to.

use connectx::{field, ifc};
use rand::{rngs::SmallRng, Rng};

use crate::bench::*;

/// `qpc.st` of the services: RC, UC, UD, XRC, and the one for registration.
pub const SERVICES: [u32; 5] = [0, 1, 2, XRC, 0xc];
pub const XRC: u32 = 3;

/// Bytes of memory of a side.
pub const BYTES: u64 = 0x1_0000;

pub struct Stage {
    pub b: Bench,
    pub service: u32,
    /// The queue pairs that send.
    pub ends: [Endpoint; 2],
    /// Number of the queue pair of a side that the peer sends to; of XRC it is another than the one that sends.
    pub targets: [u32; 2],
    /// Number of the shared receive queue of a side, with XRC.
    pub srqs: [u32; 2],
    pub memory: [u64; 2],
    /// Keys of the memory, of either side.
    pub keys: [u32; 2],
    /// Keys that the peer may invalidate, of either side.
    pub spare: [u32; 2],
    /// Keys without pages, of either side.
    pub free: [u32; 2],
}

/// A key that a UMR may fill with pages.
fn free_key(side: &mut Side) -> u32 {
    let pd = side.pd;
    side.create_mkey_with(0, 0, 8 * 4096, |c| {
        ifc::set(c, field!(mlx5_ifc_mkc_bits, pd), pd);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, free), 1);
        ifc::set(c, field!(mlx5_ifc_mkc_bits, rw), 0);
    })
    .expect("CREATE_MKEY")
}

impl Stage {
    /// Some queues compress, some have a moderation.
    pub fn new(rng: &mut SmallRng, service: u32) -> Self {
        let mut b = Bench::new();
        let compresses = u32::from(rng.random_bool(0.3));
        let moderation = rng.random_range(0..4);
        let adjust = |input: &mut [u8]| {
            for (field, value) in [
                (
                    field!(mlx5_ifc_create_cq_in_bits, cq_context.cqe_comp_en),
                    compresses,
                ),
                (
                    field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_period),
                    moderation,
                ),
                (
                    field!(mlx5_ifc_create_cq_in_bits, cq_context.cq_max_count),
                    moderation,
                ),
            ] {
                ifc::set(input, field, value);
            }
        };
        let (ends, targets, srqs) = if service == XRC {
            extended(&mut b, adjust)
        } else {
            let spec = QpSpec {
                service,
                ..QpSpec::default()
            };
            let ends = b.endpoints_with(spec, adjust);
            let ends = b.link(ends, Link::default());
            let targets = [ends[0].qp.qpn, ends[1].qp.qpn];
            (ends, targets, [0; 2])
        };
        let memory = [0, 1].map(|i| b.sides[i].alloc(BYTES));
        let [keys, spare] = [(); 2]
            .map(|()| [0, 1].map(|i| b.sides[i].create_mkey(memory[i], memory[i], BYTES, &[])));
        let free = [0, 1].map(|i| free_key(&mut b.sides[i]));
        Stage {
            b,
            service,
            ends,
            targets,
            srqs,
            memory,
            keys,
            spare,
            free,
        }
    }

    /// A receive on a side, where there is a receive queue.
    pub fn post_receive(&mut self, i: usize, len: u32, key: u32) {
        if self.service != XRC {
            let segment = data(len, key, self.memory[i]);
            self.b.sides[i].post_receive(&mut self.ends[i].qp, &[segment]);
        }
    }
}

/// A requester and a responder on either side.
fn extended(b: &mut Bench, adjust: impl Fn(&mut [u8])) -> ([Endpoint; 2], [u32; 2], [u32; 2]) {
    let made = [0, 1].map(|i| {
        let side = &mut b.sides[i];
        let send = side.create_cq_with(8, 64, &adjust);
        let receive = side.create_cq_with(8, 64, &adjust);
        let xrcd = side.alloc_object(0x80e);
        let srq = shared_queue(side, xrcd).number;
        let spec = QpSpec {
            service: XRC,
            srqn: Some(srq),
            xrcd,
            ..QpSpec::default()
        };
        let qp = side.create_qp(spec, &send, &receive);
        let target = side.create_xrc_target(side.pd, srq, xrcd);
        (Endpoint { qp, send, receive }, target, srq)
    });
    for i in 0..2 {
        let (peer, peer_target) = (made[1 - i].0.qp.qpn, made[1 - i].1.qpn);
        let (end, target, _) = &made[i];
        let side = &mut b.sides[i];
        for (qp, cqs, peer) in [
            (&end.qp, (end.send.cqn, 0), peer_target),
            (target, (0, 0), peer),
        ] {
            let link = Link::default();
            side.move_to_init(qp, cqs, &link).expect("RST2INIT");
            side.move_to_rtr(qp, (1 - i as u16, peer), &link)
                .expect("INIT2RTR");
            side.move_to_rts(qp, &link).expect("RTR2RTS");
        }
    }
    let targets = [made[0].1.qpn, made[1].1.qpn];
    let srqs = [made[0].2, made[1].2];
    (made.map(|(end, _, _)| end), targets, srqs)
}
