// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Capabilities: what the device says it can do, and what the driver may change of it.
//!
//! Each capability type is a table of fields with values; what is not listed is 0. The limits
//! that other modules enforce are the constants here, so that the device refuses what it does
//! not advertise.

use crate::cmd::{bad_param, CmdResult};
use crate::field;
use crate::ifc::{self, Field};
use crate::mkey::{LOG_MAX_KLM_LIST_SIZE, LOG_MAX_MKEY};

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

type Row = (Field, u64);

macro_rules! table {
    ($structure:ident: $($($name:ident).+ = $value:expr),+ $(,)?) => {
        &[$((field!($structure, $($name).+), $value as u64)),+]
    };
}

const GENERAL: &[Row] = table!(mlx5_ifc_cmd_hca_cap_bits:
    // Queues and keys.
    log_max_qp = LOG_MAX_QP,
    log_max_qp_sz = LOG_MAX_QP_SIZE,
    log_max_srq = LOG_MAX_SRQ,
    log_max_srq_sz = LOG_MAX_SRQ_SIZE,
    log_max_cq = LOG_MAX_CQ,
    log_max_cq_sz = LOG_MAX_CQ_SIZE,
    log_max_mkey = LOG_MAX_MKEY,
    log_max_mrw_sz = 64,
    log_max_eq = 6,
    log_max_eq_sz = LOG_MAX_EQ_SIZE,
    max_num_eqs = MAX_EQS,
    log_max_pd = LOG_MAX_PD,
    log_max_xrcd = LOG_MAX_XRCD,
    log_max_transport_domain = LOG_MAX_TRANSPORT_DOMAIN,
    max_qp_cnt = MAX_Q_COUNTERS,
    log_max_mcg = 8,
    max_qp_mcg = 240,
    max_wqe_sz_sq = MAX_WQE_SIZE_SQ,
    max_wqe_sz_rq = MAX_WQE_SIZE_RQ,
    log_max_msg = LOG_MAX_MSG,
    log_max_ra_req_qp = LOG_MAX_RA,
    log_max_ra_res_qp = LOG_MAX_RA,
    // UMR: with these three a UMR WQE can do all that CREATE_MKEY can.
    fixed_buffer_size = 1,
    umr_extended_translation_offset = 1,
    log_max_klm_list_size = LOG_MAX_KLM_LIST_SIZE,
    max_indirection = 4,
    umr_fence = 2,
    null_mkey = 1,
    imaicl = 1,
    relaxed_ordering_read = 1,
    relaxed_ordering_write = 1,
    relaxed_ordering_read_umr = 1,
    relaxed_ordering_write_umr = 1,
    // Transports. Without XRC mlx5_ib refuses to load.
    rc = 1,
    uc = 1,
    ud = 1,
    xrc = 1,
    atomic = 1,
    roce = 1,
    block_lb_mc = 1,
    stat_rate_support = 0xffff,
    local_ca_ack_delay = 16,
    // Completions.
    cqe_version = 1,
    cq_moderation = 1,
    cqe_compression = 1,
    cqe_compression_max_num = CQE_COMPRESSION_MAX,
    cqe_compression_timeout = CQE_COMPRESSION_TIMEOUT / 1000,
    cq_oi = 1,
    cq_resize = 1,
    // Port: one, Ethernet.
    num_ports = 1,
    port_type = 1,
    gid_table_size = 0,
    pkey_table_size = 0,
    // Netdev.
    eth_net_offloads = 1,
    nic_flow_table = 1,
    basic_cyclic_rcv_wqe = 1,
    log_max_sq = LOG_MAX_SQ_RQ,
    log_max_rq = LOG_MAX_SQ_RQ,
    log_max_rmp = 10,
    log_max_tir = LOG_MAX_TIR_TIS_RQT,
    log_max_tis = LOG_MAX_TIR_TIS_RQT,
    log_max_rqt = LOG_MAX_TIR_TIS_RQT,
    log_max_rqt_size = LOG_MAX_RQT_SIZE,
    log_max_tis_per_sq = 1,
    log_min_stride_sz_rq = 4,
    log_max_stride_sz_rq = 9,
    log_min_stride_sz_sq = 6,
    log_max_stride_sz_sq = 6,
    log_max_wq_sz = LOG_MAX_WQ_SIZE,
    log_max_current_uc_list = 7,
    log_max_current_mc_list = 7,
    log_max_vlan_list = 7,
    // UAR pages of 4 KiB, addressed in units of the same.
    bf = 1,
    log_bf_reg_size = LOG_BF_REG_SIZE,
    uar_sz = LOG_UAR_MIB,
    num_of_uars_per_page = 1,
    log_pg_sz = 12,
    // A zero clock would stop the driver's own clock with a warning.
    device_frequency_mhz = DEVICE_FREQUENCY_KHZ / 1000,
    device_frequency_khz = DEVICE_FREQUENCY_KHZ,
);

const ETHERNET: &[Row] = table!(mlx5_ifc_per_protocol_networking_offload_caps_bits:
    csum_cap = 1,
    vlan_cap = 1,
    wqe_vlan_insert = 1,
    self_lb_en_modifiable = 1,
    max_lso_cap = 16,
    // Inline mode as the vport context says.
    wqe_inline_mode = 2,
    rss_ind_tbl_cap = 7,
);

const ATOMIC: &[Row] = table!(mlx5_ifc_atomic_caps_bits:
    supported_atomic_req_8B_endianness_mode_1 = 1,
    atomic_req_8B_endianness_mode = 1,
    // Compare and swap, fetch and add, and both masked; operands of 8 bytes.
    atomic_operations = 0xf,
    atomic_size_qp = 8,
);

const ROCE: &[Row] = table!(mlx5_ifc_roce_cap_bits:
    sw_r_roce_src_udp_port = 1,
    // IPv4 and IPv6.
    l3_type = 6,
    // RoCE v1 and v2.
    roce_version = 5,
    r_roce_dest_udp_port = 4791,
    r_roce_min_src_udp_port = 0xc000,
    r_roce_max_src_udp_port = 0xffff,
    roce_address_table_size = ROCE_ADDRESS_TABLE_SIZE,
);

const FLOW_TABLE: &[Row] = table!(mlx5_ifc_flow_table_nic_cap_bits:
    flow_table_properties_nic_receive.ft_support = 1,
    flow_table_properties_nic_receive.flow_modify_en = 1,
    flow_table_properties_nic_receive.modify_root = 1,
    flow_table_properties_nic_receive.identified_miss_table_mode = 1,
    flow_table_properties_nic_receive.flow_table_modify = 1,
    flow_table_properties_nic_receive.log_max_ft_size = 20,
    flow_table_properties_nic_receive.max_ft_level = 64,
    flow_table_properties_nic_receive.log_max_ft_num = 10,
    flow_table_properties_nic_receive.log_max_destination = 4,
    flow_table_properties_nic_receive.log_max_flow = 20,
    flow_table_properties_nic_receive.ft_field_support.outer_dmac = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_smac = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_ether_type = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_ip_version = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_first_vid = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_ip_protocol = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_sip = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_dip = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_tcp_sport = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_tcp_dport = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_udp_sport = 1,
    flow_table_properties_nic_receive.ft_field_support.outer_udp_dport = 1,
);

/// General fields that SET_HCA_CAP may change, with the largest value each may take.
const SETTABLE: &[Row] = table!(mlx5_ifc_cmd_hca_cap_bits:
    log_max_qp = LOG_MAX_QP,
    pkey_table_size = 0,
    cmdif_checksum = 0,
    log_uar_page_sz = 0,
    log_max_current_uc_list = 7,
);

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
