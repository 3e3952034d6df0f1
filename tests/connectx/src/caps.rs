// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Capabilities: what the device says it can do, and what the driver may change of it.
//!
//! Each capability type is a table of fields with values; what is not listed is 0. The limits
//! that other modules enforce are the constants here, so that the device refuses what it does
//! not advertise.

mod tables;

use crate::cmd::{bad_param, CmdResult};
use crate::field;
use crate::ifc;

use tables::{Row, ATOMIC, ETHERNET, FLOW_TABLE, GENERAL, ROCE, SETTABLE};

/// Bytes of a capability in QUERY_HCA_CAP and SET_HCA_CAP.
pub const CAP_SIZE: usize = 0x1000;

/// log2 of the largest EQ.
pub const LOG_MAX_EQ_SIZE: u32 = 22;
/// Number of EQs.
pub const MAX_EQS: u32 = 32;
/// log2 of the largest CQ.
pub const LOG_MAX_CQ_SIZE: u32 = 22;
/// log2 of the number of CQs.
pub const LOG_MAX_CQ: u32 = 16;
/// log2 of the number of QPs.
pub const LOG_MAX_QP: u32 = 17;
/// log2 of the largest send or receive queue of a QP, in WQE basic blocks or WQEs.
pub const LOG_MAX_QP_SIZE: u32 = 15;
/// log2 of the number of SRQs.
pub const LOG_MAX_SRQ: u32 = 16;
/// log2 of the largest SRQ.
pub const LOG_MAX_SRQ_SIZE: u32 = 15;
/// log2 of the number of PDs.
pub const LOG_MAX_PD: u32 = 16;
/// log2 of the number of XRC domains.
pub const LOG_MAX_XRCD: u32 = 8;
/// log2 of the number of transport domains.
pub const LOG_MAX_TRANSPORT_DOMAIN: u32 = 8;
/// log2 of the number of SQs, and of RQs.
pub const LOG_MAX_SQ_RQ: u32 = 12;
/// log2 of the number of TIRs, of TISs, and of RQTs.
pub const LOG_MAX_TIR_TIS_RQT: u32 = 10;
/// log2 of the number of entries of an RQT.
pub const LOG_MAX_RQT_SIZE: u32 = 10;
/// log2 of the largest work queue of the netdev.
pub const LOG_MAX_WQ_SIZE: u32 = 16;
/// Largest send WQE in bytes.
pub const MAX_WQE_SIZE_SQ: u32 = 1024;
/// Largest receive WQE in bytes.
pub const MAX_WQE_SIZE_RQ: u32 = 512;
/// log2 of the largest message in bytes.
pub const LOG_MAX_MSG: u32 = 30;
/// log2 of the READs and atomics of a QP that can be on their way at a time, in each direction.
pub const LOG_MAX_RA: u32 = 4;
/// log2 of the number of flow tables.
pub const LOG_MAX_FT: u32 = 10;
/// log2 of the largest flow table.
pub const LOG_MAX_FT_SIZE: u32 = 20;
/// log2 of the entries of all flow tables together.
pub const LOG_MAX_FLOW: u32 = 16;
/// log2 of the number of multicast groups.
pub const LOG_MAX_MCG: u32 = 8;
/// QPs that can be attached to one multicast group.
pub const MAX_QP_MCG: u32 = 240;
/// Entries of the table of P_Keys (`pkey_table_size` 0).
pub const PKEYS: u32 = 128;
/// log2 of the addresses in each list of the virtual port, and of the VLANs.
pub const LOG_MAX_MAC_LIST: u32 = 7;
/// Number of Q counter sets.
pub const MAX_Q_COUNTERS: u32 = 256;
/// Entries of the table of RoCE addresses.
pub const ROCE_ADDRESS_TABLE_SIZE: u32 = 16;
/// Ticks of the free running clock per millisecond: 1 GHz.
pub const DEVICE_FREQUENCY_KHZ: u32 = 1_000_000;
/// log2 of the size of a doorbell register of a UAR page: two BlueFlame buffers of 256 bytes.
pub const LOG_BF_REG_SIZE: u32 = 9;
/// log2 of BAR0's size in MiB.
pub const LOG_UAR_MIB: u32 = 5;

/// Completions in one compressed block.
pub const CQE_COMPRESSION_MAX: u32 = 64;
/// Nanoseconds after the first completion until a compressed block is written.
pub const CQE_COMPRESSION_TIMEOUT: u64 = 16_000;

/// Capability types (`enum mlx5_cap_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CapType {
    General = 0,
    Ethernet = 1,
    Atomic = 3,
    Roce = 4,
    FlowTable = 7,
}

impl CapType {
    const ALL: [CapType; 5] = [
        CapType::General,
        CapType::Ethernet,
        CapType::Atomic,
        CapType::Roce,
        CapType::FlowTable,
    ];

    fn rows(self) -> &'static [Row] {
        match self {
            CapType::General => GENERAL,
            CapType::Ethernet => ETHERNET,
            CapType::Atomic => ATOMIC,
            CapType::Roce => ROCE,
            CapType::FlowTable => FLOW_TABLE,
        }
    }

    /// `op_mod` of the capability commands is the type and, in bit 0, current (1) or maximum.
    fn from_op_mod(op_mod: u32) -> CmdResult<(usize, CapType)> {
        let found = Self::ALL.into_iter().enumerate();
        let mut found = found.filter(|(_, cap)| *cap as u32 == op_mod >> 1);
        match found.next() {
            Some(found) => Ok(found),
            None => bad_param("unknown capability type"),
        }
    }
}

/// Capabilities of one function.
#[derive(Debug)]
pub struct Caps {
    /// Maximum and current capability by position in `CapType::ALL`.
    caps: Vec<[Vec<u8>; 2]>,
}

impl Caps {
    /// Capabilities of a function after reset.
    pub fn new(vhca_id: u16) -> Self {
        let caps = CapType::ALL.map(|cap| {
            let mut data = vec![0; CAP_SIZE];
            for (field, value) in cap.rows() {
                ifc::set64(&mut data, *field, *value);
            }
            if cap == CapType::General {
                let field = field!(mlx5_ifc_cmd_hca_cap_bits, vhca_id);
                ifc::set(&mut data, field, vhca_id.into());
            }
            [data.clone(), data]
        });
        Self { caps: caps.into() }
    }

    /// A capability as QUERY_HCA_CAP answers it.
    ///
    /// # Errors
    ///
    /// `BAD_PARAM` for a type that the device does not have.
    pub fn query(&self, op_mod: u32) -> CmdResult<&[u8]> {
        let (index, _) = CapType::from_op_mod(op_mod)?;
        let current = (op_mod & 1) as usize;
        match self.caps.get(index).and_then(|pair| pair.get(current)) {
            Some(data) => Ok(data),
            None => bad_param("unknown capability type"),
        }
    }

    /// Changes a capability as SET_HCA_CAP asks; `op_mod` is the type shifted by one.
    ///
    /// # Errors
    ///
    /// `BAD_PARAM` for a type or a field that cannot be set, or a value above the maximum.
    pub fn set(&mut self, op_mod: u32, wanted: &[u8]) -> CmdResult {
        let (index, cap) = CapType::from_op_mod(op_mod)?;
        let Some([max, current]) = self.caps.get_mut(index) else {
            return bad_param("unknown capability type");
        };
        match cap {
            CapType::General => {
                let mut new = max.clone();
                for (field, limit) in SETTABLE {
                    let value = ifc::get64(wanted, *field);
                    if value > *limit {
                        return bad_param("capability above its maximum");
                    }
                    ifc::set64(&mut new, *field, value);
                }
                if wanted != new {
                    return bad_param("capability that cannot be changed");
                }
                *current = new;
                Ok(())
            }
            CapType::Atomic => {
                // The driver fills in this one field and leaves all others zero.
                let field = field!(mlx5_ifc_atomic_caps_bits, atomic_req_8B_endianness_mode);
                let value = ifc::get64(wanted, field);
                if value > 1 {
                    return bad_param("unknown endianness of atomics");
                }
                ifc::set64(current, field, value);
                Ok(())
            }
            _ => bad_param("capability type that cannot be set"),
        }
    }

    /// Whether operands of atomics in memory are in host order (`atomic_req_8B_endianness_mode`).
    pub fn atomics_in_host_order(&self) -> bool {
        let field = field!(mlx5_ifc_atomic_caps_bits, atomic_req_8B_endianness_mode);
        self.caps
            .get(2)
            .is_some_and(|[_, current]| ifc::flag(current, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::Status;

    fn current(caps: &Caps, cap: CapType) -> Vec<u8> {
        caps.query(((cap as u32) << 1) | 1).unwrap().to_vec()
    }

    #[test]
    fn rows_fit_their_fields() {
        for cap in CapType::ALL {
            for (field, value) in cap.rows() {
                assert!(field.width >= 64 || *value >> field.width == 0, "{field:?}");
            }
        }
    }

    #[test]
    fn the_driver_may_lower_what_is_settable() {
        let mut caps = Caps::new(1);
        let mut wanted = current(&caps, CapType::General);
        ifc::set(
            &mut wanted,
            field!(mlx5_ifc_cmd_hca_cap_bits, log_max_qp),
            12,
        );
        caps.set(0, &wanted).unwrap();
        assert_eq!(current(&caps, CapType::General), wanted);
    }

    #[test]
    fn the_driver_may_not_invent_capabilities() {
        let mut caps = Caps::new(1);
        let before = current(&caps, CapType::General);
        for (field, value) in [
            (
                field!(mlx5_ifc_cmd_hca_cap_bits, log_max_qp),
                LOG_MAX_QP + 1,
            ),
            (field!(mlx5_ifc_cmd_hca_cap_bits, pg), 1),
        ] {
            let mut wanted = before.clone();
            ifc::set(&mut wanted, field, value);
            assert_eq!(caps.set(0, &wanted).unwrap_err().status, Status::BadParam);
        }
        assert_eq!(current(&caps, CapType::General), before);
        assert!(caps.set(1 << 1, &before).is_err());
        assert!(caps.query(0x20 << 1).is_err());
    }

    #[test]
    fn setting_the_endianness_of_atomics_keeps_the_rest() {
        let mut caps = Caps::new(1);
        let operations = field!(mlx5_ifc_atomic_caps_bits, atomic_operations);
        caps.set((CapType::Atomic as u32) << 1, &[0; CAP_SIZE])
            .unwrap();
        assert!(!caps.atomics_in_host_order());
        assert_eq!(ifc::get(&current(&caps, CapType::Atomic), operations), 0xf);
    }
}
