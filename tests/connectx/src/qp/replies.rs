// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the responder has to answer, in order, and the packets made of it.

use super::access::{self, Owner};
use super::env::Env;
use super::requester::{Step, PKEY};
use super::responder;
use super::Qp;
use crate::dma::Kind;
use crate::mkey::Right;
use crate::wire::{
    psn_add, psn_diff, AckSyndrome, Aeth, Bth, Extensions, NakCode, Op, Opcode, PacketBuilder, Reth,
};

/// An answer that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// An acknowledgment or a refusal.
    Acknowledge {
        psn: u32,
        msn: u32,
        syndrome: AckSyndrome,
    },
    /// Data of a READ; `sent` packets of it have left.
    Read {
        psn: u32,
        msn: u32,
        from: Reth,
        /// Who reads: on XRC, the protection domain is that of the request.
        owner: Owner,
        sent: u32,
    },
    /// Old value of an atomic.
    Atomic { psn: u32, msn: u32, old: u64 },
}

impl Reply {
    fn psn(&self) -> u32 {
        match *self {
            Reply::Acknowledge { psn, .. } | Reply::Atomic { psn, .. } => psn,
            Reply::Read { psn, sent, .. } => psn_add(psn, sent),
        }
    }
}

/// Queues an acknowledgment. It takes the place of one that waits at the end of the queue: it covers that.
pub fn acknowledge(qp: &mut Qp, psn: u32, syndrome: AckSyndrome) {
    let reply = Reply::Acknowledge {
        psn,
        msn: qp.responder.msn,
        syndrome,
    };
    let replies = &mut qp.responder.replies;
    match replies.back_mut() {
        Some(
            last @ Reply::Acknowledge {
                syndrome: AckSyndrome::Ack,
                ..
            },
        ) => *last = reply,
        _ => replies.push_back(reply),
    }
}

/// Queues the answer to a READ.
pub fn read(qp: &mut Qp, psn: u32, from: Reth, owner: Owner) {
    let msn = qp.responder.msn;
    qp.responder.replies.push_back(Reply::Read {
        psn,
        msn,
        from,
        owner,
        sent: 0,
    });
}

/// Queues the answer to an atomic.
pub fn atomic(qp: &mut Qp, psn: u32, old: u64) {
    let msn = qp.responder.msn;
    qp.responder
        .replies
        .push_back(Reply::Atomic { psn, msn, old });
}

/// READs and atomics that are not answered in full.
pub fn with_data(qp: &Qp) -> usize {
    qp.responder
        .replies
        .iter()
        .filter(|reply| !matches!(reply, Reply::Acknowledge { .. }))
        .count()
}

/// Drops answers from a sequence number on.
pub fn forget_from(qp: &mut Qp, psn: u32) {
    qp.responder
        .replies
        .retain(|reply| psn_diff(reply.psn(), psn) < 0);
}

/// Sends one packet of the first answer.
pub fn step(qp: &mut Qp, env: &mut Env<'_>) -> Step {
    let Some(reply) = qp.responder.replies.pop_front() else {
        return Step::Idle;
    };
    match reply {
        Reply::Acknowledge { psn, msn, syndrome } => {
            let ext = Extensions {
                aeth: Some(Aeth { syndrome, msn }),
                ..Extensions::default()
            };
            if let Some(builder) = packet(qp, env, Op::Acknowledge, psn, &ext, 0) {
                send(qp, env, builder);
            }
        }
        Reply::Atomic { psn, msn, old } => {
            let ext = Extensions {
                aeth: Some(Aeth {
                    syndrome: AckSyndrome::Ack,
                    msn,
                }),
                atomic_ack: Some(old),
                ..Extensions::default()
            };
            if let Some(builder) = packet(qp, env, Op::AtomicAcknowledge, psn, &ext, 0) {
                send(qp, env, builder);
            }
        }
        Reply::Read {
            psn,
            msn,
            from,
            owner,
            sent,
        } => read_response(qp, env, (psn, msn), from, owner, sent),
    }
    Step::Progress
}

fn read_response(
    qp: &mut Qp,
    env: &mut Env<'_>,
    (psn, msn): (u32, u32),
    from: Reth,
    owner: Owner,
    sent: u32,
) {
    let mtu = qp.attributes.mtu;
    let offset = u64::from(sent) * u64::from(mtu);
    let left = u64::from(from.length).saturating_sub(offset);
    let len = left.min(mtu.into()) as usize;
    let last = left <= mtu.into();
    let at = psn_add(psn, sent);
    let ext = Extensions {
        aeth: Some(Aeth {
            syndrome: AckSyndrome::Ack,
            msn,
        }),
        ..Extensions::default()
    };
    let op = Op::read_response(sent == 0, last);
    let Some(mut builder) = packet(qp, env, op, at, &ext, len) else {
        return;
    };
    let access = owner.access(
        from.rkey,
        from.va.wrapping_add(offset),
        0,
        Right::RemoteRead,
    );
    if len != 0 {
        env.io.event(qp.number, "DMA Read Issued", len as u64);
    }
    let read = access::read(
        env.mkeys,
        env.io,
        Kind::Payload,
        access,
        builder.payload_mut(),
    );
    if read.is_err() {
        // The key was taken away meanwhile, or has no memory here.
        qp.responder.replies.clear();
        responder::refuse(qp, env, at, NakCode::RemoteAccess);
        return;
    }
    send(qp, env, builder);
    if !last {
        qp.responder.replies.push_front(Reply::Read {
            psn,
            msn,
            from,
            owner,
            sent: sent + 1,
        });
    }
}

/// Lays out a response; `None` while the source address is not in the table.
fn packet(
    qp: &Qp,
    env: &Env<'_>,
    op: Op,
    psn: u32,
    ext: &Extensions,
    payload_len: usize,
) -> Option<PacketBuilder> {
    let path = env.path(&qp.attributes)?;
    let bth = Bth {
        opcode: Opcode {
            transport: qp.attributes.service.transport(),
            op,
        },
        solicited: false,
        pad: 0,
        pkey: PKEY,
        dest_qp: qp.attributes.remote_qpn,
        ack_req: false,
        psn,
    };
    Some(PacketBuilder::new(&path, bth, ext, payload_len))
}

fn send(qp: &mut Qp, env: &mut Env<'_>, builder: PacketBuilder) {
    qp.stats.packets_sent += 1;
    env.io.send(builder.finish());
}
