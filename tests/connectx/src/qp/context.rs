// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The context of a queue pair (`qpc` of the PRM): as the firmware keeps it, and what the data path takes from it.

use crate::caps::{LOG_MAX_MSG, LOG_MAX_RA};
use crate::field;
use crate::ifc::{self, Field};
use crate::wire::{Gid, Mac, Transport};

/// Bytes of a context.
pub const CONTEXT_LEN: usize = crate::size!(mlx5_ifc_qpc_bits);

/// A context in the layout of the commands.
pub type Context = [u8; CONTEXT_LEN];

/// Transport service (`qpc.st`, `MLX5_QP_ST_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection: as RC, and each request names a shared receive queue of the responder. One queue
    /// pair is either requester or responder.
    Xrc,
    /// Unreliable datagram that owns QP number 1 on the wire: communication management.
    Gsi,
    /// Executes UMR WQEs on behalf of the driver; sends nothing.
    RegUmr,
}

impl Service {
    /// The service of a `qpc.st`, if the device has it.
    pub fn from_bits(st: u32) -> Option<Self> {
        match st {
            0x0 => Some(Service::Rc),
            0x1 => Some(Service::Uc),
            0x2 => Some(Service::Ud),
            0x3 => Some(Service::Xrc),
            0x8 => Some(Service::Gsi),
            0xc => Some(Service::RegUmr),
            _ => None,
        }
    }

    /// Do its packets go to whom each WQE says?
    pub fn is_datagram(self) -> bool {
        matches!(self, Service::Ud | Service::Gsi)
    }

    /// Do its packets go to the one peer that the context names?
    pub fn is_connected(self) -> bool {
        matches!(self, Service::Rc | Service::Uc | Service::Xrc)
    }

    /// Are its packets acknowledged?
    pub fn is_reliable(self) -> bool {
        matches!(self, Service::Rc | Service::Xrc)
    }

    /// How its packets are marked on the wire.
    pub fn transport(self) -> Transport {
        match self {
            Service::Rc | Service::RegUmr => Transport::Rc,
            Service::Uc => Transport::Uc,
            Service::Ud | Service::Gsi => Transport::Ud,
            Service::Xrc => Transport::Xrc,
        }
    }
}

/// Where received messages go (`qpc.rq_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveKind {
    /// A receive queue of its own.
    Own,
    /// A shared receive queue.
    Shared(u32),
    /// Nowhere.
    None,
}

/// Path to the peer of a connected queue pair (`ads` of the PRM).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathAttributes {
    pub dst_mac: Mac,
    pub dst_gid: Gid,
    /// Index of the source GID.
    pub src_index: u16,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub udp_src: u16,
    /// Ethernet priority, 3 bits.
    pub priority: u8,
}

/// What the data path takes from a context, once after each change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub service: Service,
    pub pd: u32,
    /// Bytes of payload per packet.
    pub mtu: u32,
    /// Longest message in bytes.
    pub max_message: u64,
    pub reserved_lkey: bool,
    /// May execute UMR WQEs.
    pub fast_register: bool,
    /// Number that stands in completions instead of the SRQ number; `None` for the old layout of completions.
    pub user_index: Option<u32>,
    pub remote_qpn: u32,
    pub path: PathAttributes,
    /// Time without an acknowledgment after which to send again, in nanoseconds; `None`: never.
    pub ack_timeout: Option<u64>,
    /// Retries after such a time, and after a sequence error.
    pub retry_count: u32,
    /// Retries when the peer has no receive posted; 7: for ever.
    pub rnr_retry: u32,
    /// READs and atomics that may be on their way, as requester and as responder.
    pub max_reads_out: u32,
    pub max_reads_in: u32,
    pub next_send_psn: u32,
    pub next_receive_psn: u32,
    pub remote_read: bool,
    pub remote_write: bool,
    pub remote_atomic: bool,
    /// Code of the time that a peer should wait when no receive is posted.
    pub min_rnr_timer: u8,
    pub qkey: u32,
    /// Source QP number in datagrams, if not the queue pair's own.
    pub datagram_source: Option<u32>,
    pub send_cq: u32,
    pub receive_cq: u32,
    pub receive: ReceiveKind,
    /// Datagrams to a group do not come back to the queue pair that sent them.
    pub block_group_loopback: bool,
    /// XRC domain: the responder serves shared receive queues of this domain.
    pub xrcd: u32,
    /// Set of Q counters.
    pub counter_set: u32,
    /// Address of the doorbell record: receive counter, send counter.
    pub record: u64,
}

/// `rnr_retry` value that means "for ever" (IBTA 9.7.5.2.8).
pub const RNR_RETRY_INFINITE: u32 = 7;

/// `user_index` value that selects completions of version 0.
pub const NO_USER_INDEX: u32 = 0x00ff_ffff;

impl Attributes {
    /// Takes the attributes out of a context; `None` if the service is not one of this device's.
    pub fn decode(context: &Context) -> Option<Self> {
        let get = |field| ifc::get(context, field);
        let flag = |field| ifc::flag(context, field);
        let user_index = get(field!(mlx5_ifc_qpc_bits, user_index));
        let timeout = get(field!(mlx5_ifc_qpc_bits, primary_address_path.ack_timeout));
        let source = get(field!(mlx5_ifc_qpc_bits, deth_sqpn));
        Some(Attributes {
            service: Service::from_bits(get(field!(mlx5_ifc_qpc_bits, st)))?,
            pd: get(field!(mlx5_ifc_qpc_bits, pd)),
            mtu: mtu_bytes(get(field!(mlx5_ifc_qpc_bits, mtu))).unwrap_or(256),
            max_message: 1 << get(field!(mlx5_ifc_qpc_bits, log_msg_max)),
            reserved_lkey: flag(field!(mlx5_ifc_qpc_bits, rlky)),
            fast_register: flag(field!(mlx5_ifc_qpc_bits, fre)),
            user_index: (user_index != NO_USER_INDEX).then_some(user_index),
            remote_qpn: get(field!(mlx5_ifc_qpc_bits, remote_qpn)),
            path: path(context),
            // IBTA 9.7.6.1.3: 4.096 us times two to the power of the code.
            ack_timeout: (timeout != 0).then_some(4096 << timeout),
            retry_count: get(field!(mlx5_ifc_qpc_bits, retry_count)),
            rnr_retry: get(field!(mlx5_ifc_qpc_bits, rnr_retry)),
            max_reads_out: 1 << get(field!(mlx5_ifc_qpc_bits, log_sra_max)),
            max_reads_in: 1 << get(field!(mlx5_ifc_qpc_bits, log_rra_max)),
            next_send_psn: get(field!(mlx5_ifc_qpc_bits, next_send_psn)),
            next_receive_psn: get(field!(mlx5_ifc_qpc_bits, next_rcv_psn)),
            remote_read: flag(field!(mlx5_ifc_qpc_bits, rre)),
            remote_write: flag(field!(mlx5_ifc_qpc_bits, rwe)),
            remote_atomic: flag(field!(mlx5_ifc_qpc_bits, rae))
                && get(field!(mlx5_ifc_qpc_bits, atomic_mode)) != 0,
            min_rnr_timer: get(field!(mlx5_ifc_qpc_bits, min_rnr_nak)) as u8,
            qkey: get(field!(mlx5_ifc_qpc_bits, q_key)),
            datagram_source: (source != 0).then_some(source),
            send_cq: get(field!(mlx5_ifc_qpc_bits, cqn_snd)),
            receive_cq: get(field!(mlx5_ifc_qpc_bits, cqn_rcv)),
            receive: match get(field!(mlx5_ifc_qpc_bits, rq_type)) {
                0 => ReceiveKind::Own,
                1 => ReceiveKind::Shared(get(field!(mlx5_ifc_qpc_bits, srqn_rmpn_xrqn))),
                _ => ReceiveKind::None,
            },
            block_group_loopback: flag(field!(mlx5_ifc_qpc_bits, block_lb_mc)),
            xrcd: get(field!(mlx5_ifc_qpc_bits, xrcd)),
            counter_set: get(field!(mlx5_ifc_qpc_bits, counter_set_id)),
            record: ifc::get64(context, field!(mlx5_ifc_qpc_bits, dbr_addr)),
        })
    }
}

/// Largest `qpc.atomic_mode` of this device: operands of up to 8 bytes (`MLX5_ATOMIC_MODE_8B`). Zero is no atomics.
const ATOMIC_MODE_8B: u32 = 3;

/// What a context asks for that the capabilities do not offer.
pub fn unsupported(context: &Context) -> Option<&'static str> {
    let get = |field| ifc::get(context, field);
    let reads_out = get(field!(mlx5_ifc_qpc_bits, log_sra_max));
    let reads_in = get(field!(mlx5_ifc_qpc_bits, log_rra_max));
    let scatter = get(field!(mlx5_ifc_qpc_bits, cs_req)) | get(field!(mlx5_ifc_qpc_bits, cs_res));
    [
        (
            !matches!(get(field!(mlx5_ifc_qpc_bits, rq_type)), 0 | 1 | 3),
            "unknown type of receive queue",
        ),
        (
            get(field!(mlx5_ifc_qpc_bits, log_msg_max)) > LOG_MAX_MSG,
            "messages longer than the device can send",
        ),
        (
            reads_out.max(reads_in) > LOG_MAX_RA,
            "more READs at a time than the device can keep",
        ),
        (
            get(field!(mlx5_ifc_qpc_bits, atomic_mode)) > ATOMIC_MODE_8B,
            "atomics of more than 8 bytes",
        ),
        (scatter != 0, "data in completions"),
    ]
    .into_iter()
    .find_map(|(bad, what)| bad.then_some(what))
}

/// Bytes of a path MTU code (`IB_MTU_*`); `None` for a code that means nothing.
pub fn mtu_bytes(code: u32) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

fn path(context: &Context) -> PathAttributes {
    let get = |field| ifc::get(context, field);
    let mut dst_mac = Mac::default();
    let high = get(field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_47_32));
    let low = get(field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_31_0));
    let mac = (u64::from(high) << 32) | u64::from(low);
    for (to, from) in dst_mac.iter_mut().zip(mac.to_be_bytes().iter().skip(2)) {
        *to = *from;
    }
    PathAttributes {
        dst_mac,
        dst_gid: ifc::copy(
            context,
            field!(mlx5_ifc_qpc_bits, primary_address_path.rgid_rip),
        ),
        src_index: get(field!(
            mlx5_ifc_qpc_bits,
            primary_address_path.src_addr_index
        )) as u16,
        traffic_class: get(field!(mlx5_ifc_qpc_bits, primary_address_path.tclass)) as u8,
        flow_label: get(field!(mlx5_ifc_qpc_bits, primary_address_path.flow_label)),
        hop_limit: get(field!(mlx5_ifc_qpc_bits, primary_address_path.hop_limit)) as u8,
        udp_src: get(field!(mlx5_ifc_qpc_bits, primary_address_path.udp_sport)) as u16,
        priority: get(field!(mlx5_ifc_qpc_bits, primary_address_path.eth_prio)) as u8,
    }
}

/// Copies fields from one context into another.
pub fn copy_fields(to: &mut Context, from: &Context, fields: &[Field]) {
    for field in fields {
        if field.width <= 64 {
            ifc::set64(to, *field, ifc::get64(from, *field));
        } else if let (Some(to), Some(from)) = (
            to.get_mut(field.byte_offset()..field.byte_offset() + field.byte_len()),
            from.get(field.byte_offset()..field.byte_offset() + field.byte_len()),
        ) {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_from_their_places() {
        let mut c = [0; CONTEXT_LEN];
        ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, mtu), 5);
        ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, log_msg_max), 30);
        ifc::set(
            &mut c,
            field!(mlx5_ifc_qpc_bits, primary_address_path.ack_timeout),
            14,
        );
        ifc::set(
            &mut c,
            field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_47_32),
            0x0203,
        );
        ifc::set(
            &mut c,
            field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_31_0),
            0x0405_0607,
        );
        let a = Attributes::decode(&c).unwrap();
        assert_eq!(a.mtu, 4096);
        assert_eq!(a.max_message, 1 << 30);
        assert_eq!(a.ack_timeout, Some(67_108_864));
        assert_eq!(a.path.dst_mac, [2, 3, 4, 5, 6, 7]);
        assert_eq!(a.user_index, Some(0));
        ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, st), 5);
        assert_eq!(Attributes::decode(&c), None);
    }
}
