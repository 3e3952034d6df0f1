// SPDX-License-Identifier: GPL-2.0

//! What the device can do: the capabilities that matter here, read once.

use super::{
    cmd::field,
    ifc::Field, //
};
use crate::wqe::{
    atomic::has_standard,
    ctrl::Fence, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use mlx5_ulp_bindings as bindings;

/// Capabilities, as the driver and the firmware agreed on them (`cur`, not `max`).
#[derive(Clone, Copy)]
pub(crate) struct Caps {
    /// Log2 of the largest message, bytes.
    pub(crate) log_max_msg: u8,
    /// Log2 of the most basic blocks of a send queue.
    pub(crate) log_max_qp_sz: u8,
    /// Log2 of the most entries of a completion queue.
    pub(crate) log_max_cq_sz: u8,
    /// Most bytes of a send WQE.
    pub(crate) max_wqe_sz_sq: u32,
    /// Most bytes of a receive's WQE.
    pub(crate) max_wqe_sz_rq: u32,
    /// Log2 of the READs and atomics of a queue pair under way at its peer.
    log_max_ra_req_qp: u8,
    /// Log2 of the READs and atomics of a peer under way at a queue pair.
    log_max_ra_res_qp: u8,
    /// What a change to a key has to wait for.
    pub(crate) umr_fence: Fence,
    /// Whether there are compare-and-swap and fetch-and-add of 8 bytes, of numbers in the order of the CPU.
    pub(crate) atomic: bool,
    /// Log2 of the bytes of one doorbell register, both halves together.
    pub(crate) log_bf_reg_size: u8,
    /// CQEs of version 1 carry a user index; kernel queues then ask for version 0 by 0xffffff.
    pub(crate) cqe_version: u8,
    /// Frequency of the free-running clock that completion entries are stamped with, kHz; 0 if unknown.
    pub(crate) device_frequency_khz: u32,
    /// Whether completion entries can be stamped with that clock, and not with the time of day only.
    pub(crate) free_running_stamps: bool,
    /// Whether the device can be told to gather completions for one event.
    pub(crate) cq_moderation: bool,
    /// Whether completion queues can have compressed entries.
    pub(crate) cqe_compression: bool,
    /// Whether the port is Ethernet (RoCE) and not InfiniBand.
    pub(crate) ethernet: bool,
}

impl Caps {
    /// Reads them from mlx5_core's copy.
    ///
    /// # Safety
    ///
    /// `mdev` must be a live device.
    pub(crate) unsafe fn read(mdev: NonNull<bindings::mlx5_core_dev>) -> Self {
        const GENERAL: usize = bindings::mlx5_cap_type_MLX5_CAP_GENERAL as usize;
        const ATOMIC: usize = bindings::mlx5_cap_type_MLX5_CAP_ATOMIC as usize;
        const ROCE: usize = bindings::mlx5_cap_type_MLX5_CAP_ROCE as usize;
        // SAFETY: The caller guarantees a live device; mlx5_core allocates its capabilities
        // before it binds and frees them after, and changes them no more in between.
        let (general, atomics, roce) = unsafe {
            let hca = &(*mdev.as_ptr()).caps.hca;
            (&(*hca[GENERAL]).cur, &(*hca[ATOMIC]).cur, &(*hca[ROCE]).cur)
        };
        let general = Page(general, PhantomData);
        let roce = Page::<bindings::mlx5_ifc_roce_cap_bits>(roce, PhantomData);
        // As in `mlx5_get_qp_default_ts()` of `<linux/mlx5/qp.h>`.
        let stamps = match general.get(field!(cmd_hca_cap, roce)) {
            0 => general.word(field!(cmd_hca_cap, sq_ts_format)),
            _ => roce.word(field!(roce_cap, qp_ts_format)),
        };
        Self {
            log_max_msg: general.get(field!(cmd_hca_cap, log_max_msg)),
            log_max_qp_sz: general.get(field!(cmd_hca_cap, log_max_qp_sz)),
            log_max_cq_sz: general.get(field!(cmd_hca_cap, log_max_cq_sz)),
            max_wqe_sz_sq: general.word(field!(cmd_hca_cap, max_wqe_sz_sq)),
            max_wqe_sz_rq: general.word(field!(cmd_hca_cap, max_wqe_sz_rq)),
            log_max_ra_req_qp: general.get(field!(cmd_hca_cap, log_max_ra_req_qp)),
            log_max_ra_res_qp: general.get(field!(cmd_hca_cap, log_max_ra_res_qp)),
            umr_fence: umr_fence(general.word(field!(cmd_hca_cap, umr_fence))),
            // mlx5_core has asked for the other page only where this bit is set.
            atomic: general.get(field!(cmd_hca_cap, atomic)) != 0 && standard_atomics(atomics),
            log_bf_reg_size: general.get(field!(cmd_hca_cap, log_bf_reg_size)),
            cqe_version: general.get(field!(cmd_hca_cap, cqe_version)),
            device_frequency_khz: general.word(field!(cmd_hca_cap, device_frequency_khz)),
            free_running_stamps: stamps != bindings::MLX5_TIMESTAMP_FORMAT_CAP_REAL_TIME,
            cq_moderation: general.get(field!(cmd_hca_cap, cq_moderation)) != 0,
            cqe_compression: general.get(field!(cmd_hca_cap, cqe_compression)) != 0,
            ethernet: general.get(field!(cmd_hca_cap, port_type))
                == bindings::MLX5_CAP_PORT_TYPE_ETH as u8,
        }
    }
}

impl Caps {
    /// READs and atomics of a queue pair that can be under way, in either direction: at most 128.
    pub(crate) fn max_reads(&self) -> u8 {
        1 << self.log_max_ra_req_qp.min(self.log_max_ra_res_qp).min(7)
    }
}

/// What a change to a key has to wait for (`mlx5_get_umr_fence()` in `drivers/infiniband/hw/mlx5/main.c`).
fn umr_fence(capability: u32) -> Fence {
    match capability {
        bindings::MLX5_CAP_UMR_FENCE_NONE => Fence::None,
        bindings::MLX5_CAP_UMR_FENCE_SMALL => Fence::InitiatorSmall,
        _ => Fence::StrongOrdering,
    }
}

/// [`has_standard`], of a page of capabilities of atomics.
fn standard_atomics(page: &[u32; 1024]) -> bool {
    let atomics = Page::<bindings::mlx5_ifc_atomic_caps_bits>(page, PhantomData);
    has_standard(
        atomics.word(field!(atomic_caps, atomic_operations)),
        atomics.word(field!(atomic_caps, atomic_size_qp)),
        atomics.word(field!(atomic_caps, atomic_req_8B_endianness_mode)),
    )
}

/// A page of capabilities, of layout `L`.
struct Page<'a, L>(&'a [u32; 1024], PhantomData<L>);

impl<L> Page<'_, L> {
    /// A field of at most 8 bits.
    fn get(&self, field: Field<L>) -> u8 {
        self.word(field) as u8
    }

    /// A field of at most 32 bits.
    fn word(&self, field: Field<L>) -> u32 {
        // SAFETY: An array of words may be looked at as bytes.
        let bytes = unsafe {
            core::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), size_of_val(self.0))
        };
        field.get(bytes) as u32
    }
}
