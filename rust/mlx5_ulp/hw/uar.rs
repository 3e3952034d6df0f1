// SPDX-License-Identifier: GPL-2.0

//! Doorbell registers.

use crate::device::Hold;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

/// A doorbell register: the place in a page of the device's BAR where the first 8 bytes of
/// a WQE (or a whole one, BlueFlame) are written to start the device.
///
/// Every queue gets its own, so that posting CPUs never meet in a register. A page has four
/// (`MLX5_BFREGS_PER_UAR`, of which two are ordinary ones), the number of pages is a resource of
/// the function. When it runs out, a queue takes part in the register that mlx5_core keeps for
/// its event queues: doorbells are single 8-byte writes, so they stay correct without a lock,
/// but such a register is uncached, contended and unfit for BlueFlame ([`Self::is_shared`]).
pub(crate) struct DoorbellRegister {
    map: NonNull<u64>,
    page: NonNull<c_void>,
    index: u32,
    half_bytes: usize,
    write_combining: bool,
    /// What mlx5_core gave us, unless it is the shared one.
    own: Option<bindings::mlx5_sq_bfreg>,
    hold: Hold,
}

// SAFETY: The pointers lead to a mapped device page that lives as long as `self`; who writes
// when is up to the users, writes of 8 bytes are atomic.
unsafe impl Send for DoorbellRegister {}
// SAFETY: As above.
unsafe impl Sync for DoorbellRegister {}

impl DoorbellRegister {
    /// Takes a register of its own, write-combining where the device can, or else a part in
    /// the shared one. Sleeps; the first call on a device may run mlx5_core's self-test of
    /// write combining.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` if the device is dead or has no register at all.
    pub(crate) fn new(hold: Hold) -> Result<Arc<Self>> {
        // It would refuse, and mlx5_core write that to the log. No queue comes up by the shared register, either.
        if hold.is_down() {
            return Err(ENODEV);
        }
        let mdev = hold.mdev();
        let half_bytes = (1usize << (hold.caps().log_bf_reg_size & 0xf)) / 2;
        let mut own: bindings::mlx5_sq_bfreg = pin_init::zeroed();
        // SAFETY: `hold` keeps the device alive.
        let wc = unsafe { bindings::mlx5_wc_support_get(mdev) };
        // SAFETY: As above; `own` is a valid place for the answer.
        let ret = to_result(unsafe { bindings::mlx5_alloc_bfreg(mdev, &mut own, wc, false) });

        let (register, own) = match ret {
            Ok(()) => (own, Some(own)),
            Err(_) if hold.is_down() => return Err(ENODEV),
            Err(e) => {
                pr_warn!(
                    "no doorbell register left ({e:?}), a queue takes part in the shared one\n"
                );
                // SAFETY: mlx5_core allocates this one when it loads the device, and frees it
                // when it unloads it, after the RDMA device is gone.
                (unsafe { (*mdev).priv_.bfreg }, None)
            }
        };
        // SAFETY: A register that was allocated has a page.
        let page = unsafe { NonNull::new(register.up).map(|up| (*up.as_ptr()).map) };
        let parts = (
            NonNull::new(register.map.cast::<u64>()),
            page.and_then(NonNull::new),
        );
        let (Some(map), Some(page)) = parts else {
            return Err(ENODEV);
        };
        Ok(Arc::new(
            Self {
                map,
                page,
                index: register.index,
                half_bytes,
                write_combining: register.wc,
                own,
                hold,
            },
            GFP_KERNEL,
        )?)
    }

    /// Index of the page, for the `uar_page` of queues that ring here.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// The register's first half; the second follows [`Self::half_bytes`] behind it.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut u64 {
        self.map.as_ptr()
    }

    /// Bytes of one half: the most that one BlueFlame copy may have. 0 if the device says so.
    pub(crate) fn half_bytes(&self) -> usize {
        self.half_bytes
    }

    /// Whether it is mapped write-combining.
    pub(crate) fn is_write_combining(&self) -> bool {
        self.write_combining
    }

    /// Whether other queues ring here, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    /// Where completion queues of this page are armed.
    pub(super) fn cq_doorbell(&self) -> *mut u64 {
        self.page
            .as_ptr()
            .wrapping_byte_add(bindings::MLX5_CQ_DOORBELL as usize)
            .cast()
    }
}

impl Drop for DoorbellRegister {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            // SAFETY: `hold` keeps the device alive; `own` came from `mlx5_alloc_bfreg` and is
            // given back once. The queues that rang here have dropped their references.
            unsafe { bindings::mlx5_free_bfreg(self.hold.mdev(), own) };
        }
    }
}
