// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fields of each capability type that are not zero.

use super::*;
use crate::ifc::Field;
use crate::mkey::{LOG_MAX_KLM_LIST_SIZE, LOG_MAX_MKEY};

pub(super) type Row = (Field, u64);

macro_rules! table {
    ($structure:ident: $($($name:ident).+ = $value:expr),+ $(,)?) => {
        &[$((field!($structure, $($name).+), $value as u64)),+]
    };
}

pub(super) const GENERAL: &[Row] = table!(mlx5_ifc_cmd_hca_cap_bits:
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
    log_max_mcg = LOG_MAX_MCG,
    max_qp_mcg = MAX_QP_MCG,
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
    disable_local_lb_uc = 1,
    disable_local_lb_mc = 1,
    stat_rate_support = 0xffff,
    local_ca_ack_delay = 16,
    // Completions.
    cqe_version = 1,
    cq_moderation = 1,
    cq_period_start_from_cqe = 1,
    cq_period_mode_modify = 1,
    cq_eq_remap = 1,
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
    log_max_current_uc_list = LOG_MAX_MAC_LIST,
    log_max_current_mc_list = LOG_MAX_MAC_LIST,
    log_max_vlan_list = LOG_MAX_MAC_LIST,
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

pub(super) const ETHERNET: &[Row] = table!(mlx5_ifc_per_protocol_networking_offload_caps_bits:
    csum_cap = 1,
    vlan_cap = 1,
    self_lb_en_modifiable = 1,
    max_lso_cap = 16,
    // No part of a frame must be in the WQE (`MLX5_CAP_INLINE_MODE_NOT_REQUIRED`).
    wqe_inline_mode = 2,
    rss_ind_tbl_cap = 7,
);

pub(super) const ATOMIC: &[Row] = table!(mlx5_ifc_atomic_caps_bits:
    supported_atomic_req_8B_endianness_mode_1 = 1,
    atomic_req_8B_endianness_mode = 1,
    // Compare and swap, fetch and add, and both masked; operands of 8 bytes.
    atomic_operations = 0xf,
    atomic_size_qp = 8,
);

pub(super) const ROCE: &[Row] = table!(mlx5_ifc_roce_cap_bits:
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

pub(super) const FLOW_TABLE: &[Row] = table!(mlx5_ifc_flow_table_nic_cap_bits:
    flow_table_properties_nic_receive.ft_support = 1,
    flow_table_properties_nic_receive.flow_modify_en = 1,
    flow_table_properties_nic_receive.modify_root = 1,
    flow_table_properties_nic_receive.identified_miss_table_mode = 1,
    flow_table_properties_nic_receive.flow_table_modify = 1,
    flow_table_properties_nic_receive.log_max_ft_size = LOG_MAX_FT_SIZE,
    flow_table_properties_nic_receive.max_ft_level = 64,
    flow_table_properties_nic_receive.log_max_ft_num = LOG_MAX_FT,
    flow_table_properties_nic_receive.log_max_destination = 4,
    flow_table_properties_nic_receive.log_max_flow = LOG_MAX_FLOW,
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
pub(super) const SETTABLE: &[Row] = table!(mlx5_ifc_cmd_hca_cap_bits:
    log_max_qp = LOG_MAX_QP,
    pkey_table_size = 0,
    cmdif_checksum = 0,
    log_uar_page_sz = 0,
    log_max_current_uc_list = LOG_MAX_MAC_LIST,
);
