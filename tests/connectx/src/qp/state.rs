// SPDX-License-Identifier: GPL-2.0 OR MIT

//! States of a queue pair and the commands that move between them.
//!
//! Each transition takes some fields of the context that comes with it always, and others only where
//! `opt_param_mask` says so (`opt_mask` of the kernel's `drivers/infiniband/hw/mlx5/qp.c`, PRM).

use super::context::{copy_fields, mtu_bytes, Context};
use crate::cmd::{bad_param, CmdError, CmdResult, Status};
use crate::field;
use crate::ifc::{self, Field};

/// `qpc.state` (`MLX5_QP_STATE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    /// A send of an unreliable service failed; receives go on.
    SendError = 4,
    /// No new sends are started.
    SendDrained = 5,
    Error = 6,
}

impl State {
    /// Are packets taken from the wire?
    pub fn receives(self) -> bool {
        matches!(
            self,
            State::ReadyToReceive | State::ReadyToSend | State::SendError | State::SendDrained
        )
    }

    /// Are send WQEs executed?
    pub fn sends(self) -> bool {
        self == State::ReadyToSend
    }
}

/// Bits of `opt_param_mask` (`MLX5_QP_OPTPAR_*`) and the fields they stand for.
const OPTIONAL: &[(u32, &[Field])] = &[
    (1 << 1, &[field!(mlx5_ifc_qpc_bits, rre)]),
    (
        1 << 2,
        &[
            field!(mlx5_ifc_qpc_bits, rae),
            field!(mlx5_ifc_qpc_bits, atomic_mode),
        ],
    ),
    (1 << 3, &[field!(mlx5_ifc_qpc_bits, rwe)]),
    (
        1 << 4,
        &[field!(mlx5_ifc_qpc_bits, primary_address_path.pkey_index)],
    ),
    (1 << 5, &[field!(mlx5_ifc_qpc_bits, q_key)]),
    (1 << 6, &[field!(mlx5_ifc_qpc_bits, min_rnr_nak)]),
    (1 << 7, &[field!(mlx5_ifc_qpc_bits, primary_address_path)]),
    (1 << 8, &[field!(mlx5_ifc_qpc_bits, log_sra_max)]),
    (1 << 9, &[field!(mlx5_ifc_qpc_bits, log_rra_max)]),
    (1 << 10, &[field!(mlx5_ifc_qpc_bits, pm_state)]),
    (1 << 12, &[field!(mlx5_ifc_qpc_bits, retry_count)]),
    (1 << 13, &[field!(mlx5_ifc_qpc_bits, rnr_retry)]),
    (
        1 << 14,
        &[field!(mlx5_ifc_qpc_bits, primary_address_path.ack_timeout)],
    ),
    (1 << 15, &[field!(mlx5_ifc_qpc_bits, lag_tx_port_affinity)]),
    (
        1 << 16,
        &[field!(
            mlx5_ifc_qpc_bits,
            primary_address_path.vhca_port_num
        )],
    ),
    (1 << 25, &[field!(mlx5_ifc_qpc_bits, counter_set_id)]),
];

// Bit 0, the alternate path, is not among them: the capabilities do not offer path migration (`apm`).
const ACCESS: u32 = (1 << 1) | (1 << 2) | (1 << 3);
const PKEY_INDEX: u32 = 1 << 4;
const Q_KEY: u32 = 1 << 5;
const RNR_TIMEOUT: u32 = 1 << 6;
const PM_STATE: u32 = 1 << 10;
const LAG_TX_AFF: u32 = 1 << 15;
const PRI_PORT: u32 = 1 << 16;
const COUNTER_SET_ID: u32 = 1 << 25;

/// Fields that leaving reset takes.
const FROM_RESET: &[Field] = &[
    field!(mlx5_ifc_qpc_bits, pm_state),
    field!(mlx5_ifc_qpc_bits, pd),
    field!(mlx5_ifc_qpc_bits, counter_set_id),
    field!(mlx5_ifc_qpc_bits, lag_tx_port_affinity),
    field!(mlx5_ifc_qpc_bits, primary_address_path.pkey_index),
    field!(mlx5_ifc_qpc_bits, primary_address_path.vhca_port_num),
    field!(mlx5_ifc_qpc_bits, rre),
    field!(mlx5_ifc_qpc_bits, rwe),
    field!(mlx5_ifc_qpc_bits, rae),
    field!(mlx5_ifc_qpc_bits, atomic_mode),
    field!(mlx5_ifc_qpc_bits, q_key),
    field!(mlx5_ifc_qpc_bits, cqn_snd),
    field!(mlx5_ifc_qpc_bits, cqn_rcv),
    field!(mlx5_ifc_qpc_bits, rlky),
];

/// Fields that the step to ready-to-receive takes. The path comes without its acknowledge time-out.
const TO_RTR: &[Field] = &[
    field!(mlx5_ifc_qpc_bits, mtu),
    field!(mlx5_ifc_qpc_bits, log_msg_max),
    field!(mlx5_ifc_qpc_bits, remote_qpn),
    field!(mlx5_ifc_qpc_bits, next_rcv_psn),
    field!(mlx5_ifc_qpc_bits, log_rra_max),
    field!(mlx5_ifc_qpc_bits, min_rnr_nak),
    field!(mlx5_ifc_qpc_bits, primary_address_path.grh),
    field!(mlx5_ifc_qpc_bits, primary_address_path.rlid),
    field!(mlx5_ifc_qpc_bits, primary_address_path.src_addr_index),
    field!(mlx5_ifc_qpc_bits, primary_address_path.stat_rate),
    field!(mlx5_ifc_qpc_bits, primary_address_path.hop_limit),
    field!(mlx5_ifc_qpc_bits, primary_address_path.tclass),
    field!(mlx5_ifc_qpc_bits, primary_address_path.flow_label),
    field!(mlx5_ifc_qpc_bits, primary_address_path.rgid_rip),
    field!(mlx5_ifc_qpc_bits, primary_address_path.dscp),
    field!(mlx5_ifc_qpc_bits, primary_address_path.ecn),
    field!(mlx5_ifc_qpc_bits, primary_address_path.udp_sport),
    field!(mlx5_ifc_qpc_bits, primary_address_path.eth_prio),
    field!(mlx5_ifc_qpc_bits, primary_address_path.sl),
    field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_47_32),
    field!(mlx5_ifc_qpc_bits, primary_address_path.rmac_31_0),
];

/// Fields that the step to ready-to-send takes.
const TO_RTS: &[Field] = &[
    field!(mlx5_ifc_qpc_bits, next_send_psn),
    field!(mlx5_ifc_qpc_bits, log_sra_max),
    field!(mlx5_ifc_qpc_bits, retry_count),
    field!(mlx5_ifc_qpc_bits, rnr_retry),
    field!(mlx5_ifc_qpc_bits, log_ack_req_freq),
    field!(mlx5_ifc_qpc_bits, primary_address_path.ack_timeout),
];

/// A command that changes the state.
#[derive(Debug)]
pub struct Transition {
    pub from: &'static [State],
    pub to: State,
    mandatory: &'static [Field],
    optional: u32,
}

/// Every state.
const ANY: &[State] = &[
    State::Reset,
    State::Init,
    State::ReadyToReceive,
    State::ReadyToSend,
    State::SendError,
    State::SendDrained,
    State::Error,
];

pub const RST2INIT: Transition = Transition {
    from: &[State::Reset],
    to: State::Init,
    mandatory: FROM_RESET,
    optional: 0,
};

pub const INIT2INIT: Transition = Transition {
    from: &[State::Init],
    to: State::Init,
    mandatory: &[],
    optional: ACCESS | PKEY_INDEX | Q_KEY | PRI_PORT | LAG_TX_AFF | COUNTER_SET_ID,
};

pub const INIT2RTR: Transition = Transition {
    from: &[State::Init],
    to: State::ReadyToReceive,
    mandatory: TO_RTR,
    optional: ACCESS | PKEY_INDEX | Q_KEY | LAG_TX_AFF | COUNTER_SET_ID,
};

pub const RTR2RTS: Transition = Transition {
    from: &[State::ReadyToReceive],
    to: State::ReadyToSend,
    mandatory: TO_RTS,
    optional: ACCESS | PM_STATE | RNR_TIMEOUT | Q_KEY | COUNTER_SET_ID,
};

pub const RTS2RTS: Transition = Transition {
    from: &[State::ReadyToSend],
    to: State::ReadyToSend,
    mandatory: &[],
    optional: ACCESS | PM_STATE | RNR_TIMEOUT | Q_KEY | COUNTER_SET_ID,
};

pub const SQERR2RTS: Transition = Transition {
    from: &[State::SendError],
    to: State::ReadyToSend,
    mandatory: &[],
    optional: ACCESS | RNR_TIMEOUT | Q_KEY,
};

pub const SQD2RTS: Transition = Transition {
    from: &[State::SendDrained],
    to: State::ReadyToSend,
    mandatory: &[],
    optional: ACCESS | RNR_TIMEOUT | Q_KEY,
};

pub const TO_ERROR: Transition = Transition {
    from: ANY,
    to: State::Error,
    mandatory: &[],
    optional: 0,
};

pub const TO_RESET: Transition = Transition {
    from: ANY,
    to: State::Reset,
    mandatory: &[],
    optional: 0,
};

impl Transition {
    /// The context after this transition from `state`, with `given` as the context of the command.
    ///
    /// # Errors
    ///
    /// `BAD_QP_STATE` when the queue pair is in another state than the command is for; `BAD_PARAM` when the mask
    /// names a field that the transition does not take, or a field has a value that means nothing.
    pub fn apply(
        &self,
        state: State,
        context: &Context,
        given: &Context,
        optional: u32,
    ) -> CmdResult<Context> {
        if !self.from.contains(&state) {
            return Err(CmdError::new(
                Status::BadQpState,
                "queue pair is in another state",
            ));
        }
        if optional & !self.optional != 0 {
            return bad_param("opt_param_mask names a field that this transition does not take");
        }
        let mut next = *context;
        copy_fields(&mut next, given, self.mandatory);
        for (bit, fields) in OPTIONAL {
            if optional & bit != 0 {
                copy_fields(&mut next, given, fields);
            }
        }
        if self.to == State::Init && state == State::Reset {
            // The driver gives the record again only where there is a receive queue.
            let record = field!(mlx5_ifc_qpc_bits, dbr_addr);
            if ifc::get64(given, record) != 0 {
                copy_fields(&mut next, given, &[record]);
            }
            // Management and datagram queue pairs get their MTU here.
            let sizes = [
                field!(mlx5_ifc_qpc_bits, mtu),
                field!(mlx5_ifc_qpc_bits, log_msg_max),
            ];
            copy_fields(&mut next, given, &sizes);
        }
        if self.to == State::ReadyToReceive
            && mtu_bytes(ifc::get(&next, field!(mlx5_ifc_qpc_bits, mtu))).is_none()
        {
            return bad_param("path MTU out of range");
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::CONTEXT_LEN;
    use super::*;

    const ALL: [(&str, &Transition); 9] = [
        ("RST2INIT", &RST2INIT),
        ("INIT2INIT", &INIT2INIT),
        ("INIT2RTR", &INIT2RTR),
        ("RTR2RTS", &RTR2RTS),
        ("RTS2RTS", &RTS2RTS),
        ("SQERR2RTS", &SQERR2RTS),
        ("SQD2RTS", &SQD2RTS),
        ("2ERR", &TO_ERROR),
        ("2RST", &TO_RESET),
    ];

    fn ones() -> Context {
        let mut c = [0xff; CONTEXT_LEN];
        ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, mtu), 3);
        c
    }

    #[test]
    fn a_transition_is_refused_in_every_other_state() {
        for (name, t) in ALL {
            for state in ANY {
                let result = t.apply(*state, &[0; CONTEXT_LEN], &ones(), 0);
                match result {
                    Ok(_) => assert!(t.from.contains(state), "{name} from {state:?}"),
                    Err(e) => {
                        assert_eq!(e.status, Status::BadQpState, "{name} from {state:?}");
                        assert!(!t.from.contains(state), "{name} from {state:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn optional_fields_change_only_with_their_bit() {
        let rwe = field!(mlx5_ifc_qpc_bits, rwe);
        let rre = field!(mlx5_ifc_qpc_bits, rre);
        let old = [0; CONTEXT_LEN];
        let new = RTS2RTS
            .apply(State::ReadyToSend, &old, &ones(), 1 << 3)
            .unwrap();
        assert!(ifc::flag(&new, rwe));
        assert!(!ifc::flag(&new, rre));
        for foreign in [PKEY_INDEX, 1 << 0] {
            let refused = RTS2RTS.apply(State::ReadyToSend, &old, &ones(), foreign);
            assert_eq!(refused.unwrap_err().status, Status::BadParam);
        }
    }

    #[test]
    fn sequence_numbers_arrive_with_their_direction() {
        let receive = field!(mlx5_ifc_qpc_bits, next_rcv_psn);
        let send = field!(mlx5_ifc_qpc_bits, next_send_psn);
        let rtr = INIT2RTR
            .apply(State::Init, &[0; CONTEXT_LEN], &ones(), 0)
            .unwrap();
        assert_eq!(ifc::get(&rtr, receive), 0xff_ffff);
        assert_eq!(ifc::get(&rtr, send), 0);
        let rts = RTR2RTS
            .apply(State::ReadyToReceive, &rtr, &ones(), 0)
            .unwrap();
        assert_eq!(ifc::get(&rts, send), 0xff_ffff);
    }

    #[test]
    fn an_mtu_that_means_nothing_is_refused() {
        for code in [0, 6, 7] {
            let mut c = ones();
            ifc::set(&mut c, field!(mlx5_ifc_qpc_bits, mtu), code);
            let refused = INIT2RTR.apply(State::Init, &[0; CONTEXT_LEN], &c, 0);
            assert_eq!(refused.unwrap_err().status, Status::BadParam);
        }
    }
}
