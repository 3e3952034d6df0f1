// SPDX-License-Identifier: GPL-2.0

//! Ties what the pure files know of hardware layouts to the kernel's structs, at compile time:
//! each kernel struct is filled with values that tell their places, looked at as bytes, and
//! read by the pure file's own decoder.

use crate::{
    cq::{
        compressed,
        cqe, //
    },
    fast_region::FastRegion,
    queue::shape::Shape,
    wqe::{
        self,
        atomic,
        av,
        ctrl,
        data,
        rdma,
        umr, //
    },
};
use mlx5_ulp_bindings as bindings;

// The compiler doesn't count the use in constants without a name.
#[allow(dead_code)]
const LOW: u32 = 0x0123_4567;
#[allow(dead_code)]
const HIGH: u32 = 0x89ab_cdef;
#[allow(dead_code)]
const LONG: u64 = 0x0123_4567_89ab_cdef;

/// The bytes of a kernel struct of `N` bytes; another size does not compile.
macro_rules! bytes {
    ($value:expr, $type:ty) => {
        // SAFETY: The kernel's layouts have no padding: every byte is a field or a reserved
        // one, and all were zeroed first.
        unsafe { core::mem::transmute::<$type, [u8; size_of::<$type>()]>($value) }
    };
}

// The unit of a send queue.
const _: () = assert!(wqe::BB == bindings::MLX5_SEND_WQE_BB as usize);
const _: () = assert!(wqe::DS == bindings::MLX5_SEND_WQE_DS as usize);

// What a READ's WQE is limited to.
const _: () = assert!(Shape::MAX_READ_SGE == bindings::MLX5_MAX_SGE_RD);

// Control segment.
const _: () = {
    let mut seg: bindings::mlx5_wqe_ctrl_seg = pin_init::zeroed();
    seg.opmod_idx_opcode = LOW.to_be();
    seg.qpn_ds = HIGH.to_be();
    seg.__bindgen_anon_1.__bindgen_anon_1.signature = 0x11;
    seg.__bindgen_anon_1.__bindgen_anon_1.fm_ce_se = 0x22;
    seg.__bindgen_anon_1.__bindgen_anon_1.__bindgen_anon_1.imm = LOW.to_be();
    let seg = ctrl::Ctrl::decode(&bytes!(seg, bindings::mlx5_wqe_ctrl_seg));
    assert!(seg.head.opmod == 0x01 && seg.head.index == 0x2345 && seg.head.opcode.0 == 0x67);
    assert!(seg.head.qpn == HIGH >> 8 && seg.head.ds == HIGH as u8 & 0x3f);
    assert!(seg.signature == 0x11 && seg.flags.0 == 0x22 && seg.imm == LOW);
};

// When a completion is asked for.
const _: () = {
    use ctrl::{
        Fence,
        Flags,
        Signal, //
    };
    assert!(
        Flags::new(Fence::None, Signal::Always, false).0 as u32
            == bindings::MLX5_WQE_CTRL_CQ_UPDATE
    );
    assert!(
        Flags::new(Fence::None, Signal::OnError, true).0 as u32
            == bindings::MLX5_WQE_CTRL_SOLICITED
    );
    assert!(
        Flags::new(Fence::InitiatorSmall, Signal::OnError, false).0 as u32
            == bindings::MLX5_FENCE_MODE_INITIATOR_SMALL
    );
    assert!(
        Flags::new(Fence::Fence, Signal::OnError, false).0 as u32
            == bindings::MLX5_FENCE_MODE_FENCE
    );
    assert!(
        Flags::new(Fence::StrongOrdering, Signal::OnError, false).0 as u32
            == bindings::MLX5_FENCE_MODE_STRONG_ORDERING
    );
    assert!(
        Flags::new(Fence::SmallAndFence, Signal::OnError, false).0 as u32
            == bindings::MLX5_FENCE_MODE_SMALL_AND_FENCE
    );
};

// Remote address segment.
const _: () = {
    let mut seg: bindings::mlx5_wqe_raddr_seg = pin_init::zeroed();
    seg.raddr = LONG.to_be();
    seg.rkey = LOW.to_be();
    let seg = rdma::RemoteAddr::decode(&bytes!(seg, bindings::mlx5_wqe_raddr_seg));
    assert!(seg.addr == LONG && seg.rkey == LOW);
};

// Atomic segments.
const _: () = {
    let mut seg: bindings::mlx5_wqe_atomic_seg = pin_init::zeroed();
    seg.swap_add = LONG.to_be();
    seg.compare = (!LONG).to_be();
    let seg = atomic::Atomic::decode(&bytes!(seg, bindings::mlx5_wqe_atomic_seg));
    assert!(seg.swap_add == LONG && seg.compare == !LONG);

    let mut seg: bindings::mlx5_wqe_masked_atomic_seg = pin_init::zeroed();
    seg.swap_add = LONG.to_be();
    seg.compare = (!LONG).to_be();
    seg.swap_add_mask = (LONG + 1).to_be();
    seg.compare_mask = (LONG + 2).to_be();
    let seg = atomic::MaskedAtomic::decode(&bytes!(seg, bindings::mlx5_wqe_masked_atomic_seg));
    assert!(seg.swap_add == LONG && seg.compare == !LONG);
    assert!(seg.swap_add_mask == LONG + 1 && seg.compare_mask == LONG + 2);
};

// Address vector of a datagram.
const _: () = {
    let mut seg: bindings::mlx5_av = pin_init::zeroed();
    seg.key.qkey.qkey = LOW.to_be();
    seg.dqp_dct = HIGH.to_be();
    seg.stat_rate_sl = 0x11;
    seg.fl_mlid = 0x22;
    seg.__bindgen_anon_1.udp_sport = 0x3344u16.to_be();
    seg.rmac = [1, 2, 3, 4, 5, 6];
    seg.tclass = 0x55;
    seg.hop_limit = 0x66;
    seg.grh_gid_fl = (1 << 30 | 0x77 << 20 | 0x8_9abc_u32).to_be();
    seg.rgid[0] = 0xdd;
    seg.rgid[15] = 0xee;
    let seg = av::AddressVector::decode(&bytes!(seg, bindings::mlx5_av));
    assert!(seg.qkey == LOW && seg.dqpn == HIGH & 0xff_ffff);
    assert!(seg.stat_rate_sl == 0x11 && seg.fl_mlid == 0x22 && seg.rlid_or_sport == 0x3344);
    assert!(seg.rmac[0] == 1 && seg.rmac[5] == 6 && seg.tclass == 0x55 && seg.hop_limit == 0x66);
    assert!(seg.grh && seg.sgid_index == 0x77 && seg.flow_label == 0x8_9abc);
    assert!(seg.rgid[0] == 0xdd && seg.rgid[15] == 0xee);
    assert!(av::EXTENDED == bindings::MLX5_EXTENDED_UD_AV);
};

// Data segment, and the header of an inline one.
const _: () = {
    let mut seg: bindings::mlx5_wqe_data_seg = pin_init::zeroed();
    seg.byte_count = LOW.to_be();
    seg.lkey = HIGH.to_be();
    seg.addr = LONG.to_be();
    let seg = data::Data::decode(&bytes!(seg, bindings::mlx5_wqe_data_seg));
    assert!(seg.byte_count == LOW && seg.lkey == HIGH && seg.addr == LONG);

    assert!(data::INLINE == bindings::MLX5_INLINE_SEG);
    assert!(data::INLINE_HEADER == core::mem::offset_of!(bindings::mlx5_wqe_inline_seg, data));
};

// The list of a fast registration fits a page.
const _: () = assert!(FastRegion::MAX_PAGES == bindings::MLX5_ULP_MAX_FAST_PAGES);

// What ends the ranges of a receive.
const _: () = assert!(data::LIST_END.lkey == bindings::MLX5_ULP_TERMINATE_LKEY);

// Segments of a change to a memory key.
const _: () = {
    let mut seg: bindings::mlx5_wqe_umr_ctrl_seg = pin_init::zeroed();
    seg.flags = 0x11;
    seg.xlt_octowords = 0x2233u16.to_be();
    seg.mkey_mask = LONG.to_be();
    seg.xlt_offset_47_16 = LOW.to_be();
    let seg = umr::UmrCtrl::decode(&bytes!(seg, bindings::mlx5_wqe_umr_ctrl_seg));
    assert!(seg.flags == 0x11 && seg.xlt_octowords == 0x2233);
    assert!(seg.mkey_mask == LONG && seg.xlt_offset_47_16 == LOW);
    assert!(umr::flags::INLINE as u32 == bindings::MLX5_UMR_INLINE);

    let mut seg: bindings::mlx5_mkey_seg = pin_init::zeroed();
    seg.status = bindings::MLX5_MKEY_STATUS_FREE as u8;
    seg.flags = 0xf5;
    seg.qpn_mkey7_0 = LOW.to_be();
    seg.flags_pd = HIGH.to_be();
    seg.start_addr = LONG.to_be();
    seg.len = (!LONG).to_be();
    seg.xlt_oct_size = LOW.to_be();
    seg.log2_page_size = 0x22;
    let seg = umr::Mkey::decode(&bytes!(seg, bindings::mlx5_mkey_seg));
    assert!(seg.free && seg.access == 0xf4 && seg.mode == 1);
    assert!(seg.qpn == LOW >> 8 && seg.variant == LOW as u8 && seg.flags_pd == HIGH);
    assert!(seg.start == LONG && seg.len == !LONG);
    assert!(seg.xlt_oct_size == LOW && seg.log_page_size == 0x22);
};

// Completion queue entry.
const _: () = {
    let mut entry: bindings::mlx5_cqe64 = pin_init::zeroed();
    entry.ml_path = 0x11;
    entry.slid = 0x2233u16.to_be();
    entry.flags_rqpn = HIGH.to_be();
    entry.srqn = LOW.to_be();
    entry.__bindgen_anon_2.immediate = HIGH.to_be();
    entry.byte_cnt = LOW.to_be();
    entry.timestamp_h = ((LONG >> 32) as u32).to_be();
    entry.timestamp_l = (LONG as u32).to_be();
    entry.sop_drop_qpn = LOW.to_be();
    entry.wqe_counter = 0x4455u16.to_be();
    entry.__bindgen_anon_3.signature = 0x66;
    entry.op_own = (bindings::MLX5_CQE_RESP_SEND as u8) << 4 | 0xf;
    let cqe::Cqe::Success(entry) = cqe::Cqe::decode(&bytes!(entry, bindings::mlx5_cqe64)) else {
        panic!("a send received is a success");
    };
    assert!(entry.ml_path == 0x11 && entry.slid == 0x2233 && entry.flags_rqpn == HIGH);
    assert!(entry.srqn == LOW & 0xff_ffff && entry.imm == HIGH && entry.byte_cnt == LOW);
    assert!(entry.timestamp == LONG);
    let tail = entry.tail;
    assert!(tail.wqe_opcode == 0x01 && tail.qpn == LOW & 0xff_ffff);
    assert!(tail.wqe_counter == 0x4455 && tail.signature == 0x66);
    assert!(tail.format() == 3 && tail.solicited() && tail.op_own & 1 == 1);
};

// Completion queue entry of a failure.
const _: () = {
    let mut entry: bindings::mlx5_err_cqe = pin_init::zeroed();
    entry.srqn = LOW.to_be();
    entry.vendor_err_synd = 0x11;
    entry.syndrome = 0x22;
    entry.s_wqe_opcode_qpn = HIGH.to_be();
    entry.wqe_counter = 0x3344u16.to_be();
    entry.signature = 0x55;
    entry.op_own = (bindings::MLX5_CQE_REQ_ERR as u8) << 4;
    let cqe::Cqe::Failure(entry) = cqe::Cqe::decode(&bytes!(entry, bindings::mlx5_err_cqe)) else {
        panic!("an error of the requester is a failure");
    };
    assert!(entry.srqn == LOW & 0xff_ffff);
    assert!(entry.vendor_syndrome == 0x11 && entry.syndrome.0 == 0x22);
    assert!(entry.tail.wqe_opcode == 0x89 && entry.tail.qpn == HIGH & 0xff_ffff);
    assert!(entry.tail.wqe_counter == 0x3344 && entry.tail.signature == 0x55);
};

// One of several completions in a place of the queue.
const _: () = {
    let mut mini: bindings::mlx5_mini_cqe8 = pin_init::zeroed();
    mini.__bindgen_anon_1.s_wqe_info.wqe_counter = 0x1122u16.to_be();
    mini.__bindgen_anon_1.s_wqe_info.s_wqe_opcode = 0x33;
    mini.byte_cnt = LOW.to_be();
    let mini = compressed::Mini::decode(u64::from_be_bytes(bytes!(mini, bindings::mlx5_mini_cqe8)));
    assert!(mini.wqe_counter == 0x1122 && mini.wqe_opcode == 0x33 && mini.byte_cnt == LOW);
    assert!(compressed::MINIS * size_of::<bindings::mlx5_mini_cqe8>() == cqe::SIZE);
    assert!(compressed::FORMAT as u32 == bindings::MLX5_COMPRESSED);
};

// What an entry says before the device has written it.
const _: () = {
    assert!(cqe::OP_OWN_INIT == (bindings::MLX5_CQE_INVALID as u8) << 4);
    assert!(core::mem::offset_of!(bindings::mlx5_cqe64, op_own) == cqe::SIZE - 1);
};
