// SPDX-License-Identifier: GPL-2.0

//! Keys that requests themselves give a meaning to: fast registration.
//!
//! A key is made once, free, with room for a number of pages. Then, as often as wanted and from any context: a
//! list of pages is put into it ([`FastRegion::map`]), a WQE in the send queue makes the key valid for them,
//! others use it, another WQE makes it free again. No command of the firmware is needed for that.
//!
//! The WQE says where the list is; the device reads it when it carries the WQE out.

use crate::{
    device::{
        Device,
        Member, //
    },
    hw::{
        access::Access,
        buffer::DmaBuffer,
        mkey::MemoryKey,
        pd::ProtectionDomain, //
    },
    sync::{
        new_irq_lock,
        IrqLock, //
    },
    wqe::{
        data::Data,
        umr::{
            access as rights,
            flags,
            mask,
            Mkey,
            UmrCtrl, //
        }, //
    },
};
use core::{
    ptr::NonNull,
    slice,
    sync::atomic::{
        AtomicI32,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    error::{
        code::*,
        to_result, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use mlx5_ulp_bindings as bindings;

/// Log2 of the bytes of a page.
const LOG_PAGE: u32 = kernel::page::PAGE_SIZE.ilog2();
/// Entries of a translation that the device reads at a time: 64 bytes (`MLX5_UMR_MTT_ALIGNMENT`).
const ENTRIES_AT_A_TIME: u32 = 8;
/// Bytes of an entry.
const ENTRY: u32 = 8;
/// Access mode of a key with a list of pages.
const MTT: u8 = bindings::MLX5_MKC_ACCESS_MODE_MTT as u8;
/// A key that any queue pair of its domain may use.
const ANY_QP: u32 = 0x00ff_ffff;
/// The key may be made free by a SEND of the peer.
const REMOTE_INVALIDATE: u32 = bindings::MLX5_MKEY_REMOTE_INVAL;

/// What is mapped at present.
struct Mapped {
    /// Where the list is; `None` once it is shut down.
    list: Option<NonNull<u64>>,
    pages: u32,
    /// Address of the first byte in the key.
    start: u64,
    length: u64,
    /// Low byte of the key.
    variant: u8,
}

// SAFETY: The list belongs to whoever has the lock, from whatever CPU.
unsafe impl Send for Mapped {}

/// What it has on the device. Dropped in this order.
struct Hardware {
    key: MemoryKey,
    _list: DmaBuffer,
    /// By which the device reads the list: the handle may be closed before.
    _list_key: Arc<MemoryKey>,
}

/// A key, and the list of the pages that it is to be registered for.
#[pin_data]
pub(crate) struct FastRegion {
    device: Arc<Device>,
    /// `None` once it is shut down.
    #[pin]
    hardware: Mutex<Option<Hardware>>,
    #[pin]
    mapped: IrqLock<Mapped>,
    max_pages: u32,
    /// The key without its low byte.
    index: u32,
    /// Where the device finds the list, and by which key.
    list_dma: u64,
    list_key: u32,
    /// Why the device may still reach the memory: an error number, or 0. Changed with the lock of `hardware`.
    reachable: AtomicI32,
}

/// The segments of a WQE that registers.
pub(crate) struct Registration {
    /// The key.
    pub(crate) key: u32,
    /// What changes.
    pub(crate) ctrl: UmrCtrl,
    /// Its new contents.
    pub(crate) mkey: Mkey,
    /// The list.
    pub(crate) list: Data,
}

/// The segments of a WQE that makes a key free (`set_linv_wr()` in `drivers/infiniband/hw/mlx5/wr.c`).
pub(crate) fn invalidation() -> (UmrCtrl, Mkey) {
    let ctrl = UmrCtrl {
        flags: flags::INLINE,
        xlt_octowords: 0,
        xlt_offset: 0,
        mkey_mask: mask::FREE,
        xlt_offset_47_16: 0,
    };
    let mkey = Mkey {
        free: true,
        access: 0,
        mode: 0,
        qpn: 0,
        variant: 0,
        flags_pd: 0,
        start: 0,
        len: 0,
        xlt_oct_size: 0,
        log_page_size: 0,
    };
    (ctrl, mkey)
}

impl FastRegion {
    /// Most pages of one: what fits a page.
    pub(crate) const MAX_PAGES: u32 = (kernel::page::PAGE_SIZE / ENTRY as usize) as u32;

    /// Makes one for up to `max_pages` pages, whose lists the device reads by `read_by`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number of pages out of range, `ENODEV` once the device is being removed, `ENOMEM`, those
    /// of the firmware.
    pub(crate) fn new(
        device: Arc<Device>,
        pd: Arc<ProtectionDomain>,
        read_by: Arc<MemoryKey>,
        max_pages: u32,
    ) -> Result<Arc<Self>> {
        if !(1..=Self::MAX_PAGES).contains(&max_pages) {
            return Err(EINVAL);
        }
        let entries = max_pages.next_multiple_of(ENTRIES_AT_A_TIME);
        let list = DmaBuffer::new(pd.hold().clone(), (entries * ENTRY) as usize)?;
        // Names no memory yet, and never will if what follows fails: no harm if it cannot be destroyed then.
        let key = MemoryKey::free(pd, entries)?;
        let region = Arc::pin_init(
            pin_init!(Self {
                list_dma: list.pages().next().unwrap_or(0),
                mapped <- new_irq_lock!(
                    Mapped {
                        list: Some(list.as_ptr().cast()),
                        pages: 0,
                        start: 0,
                        length: 0,
                        variant: key.key() as u8,
                    },
                    c"mlx5_ulp_fast_region"
                ),
                index: key.key() & !0xff,
                list_key: read_by.key(),
                reachable: AtomicI32::new(0),
                hardware <- new_mutex!(
                    Some(Hardware { key, _list: list, _list_key: read_by }),
                    "mlx5_ulp_fast_region"
                ),
                max_pages,
                device,
            }),
            GFP_KERNEL,
        )?;
        region.device.enroll(region.clone())?;
        Ok(region)
    }

    /// Makes the key useless. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`MemoryKey::destroy`].
    pub(crate) fn give_back(self: Arc<Self>) -> Result {
        self.device.dismiss(self.clone());
        // `dismiss` has had the lock, or waited for who had it.
        to_result(self.reachable.load(Relaxed))
    }

    /// Has `fill` write the DMA addresses of pages, as many as there is room for, and say how many there are, where
    /// the range begins in the first, and its length. The key gets a new low byte, so that one that is left from
    /// before does not reach this memory. Any context.
    ///
    /// # Errors
    ///
    /// Those of `fill`, `ENODEV` when it is shut down. Nothing is mapped then.
    pub(crate) fn map(
        &self,
        fill: impl FnOnce(&mut [u64]) -> Result<(u32, u64, u64)>,
    ) -> Result<u32> {
        let mut mapped = self.mapped.lock();
        mapped.pages = 0;
        let list = mapped.list.ok_or(ENODEV)?;
        // SAFETY: The list has at least so many entries, zeroed when it was allocated; it lives until `shutdown`
        // has taken `list` away under the lock. Nobody else writes, and the device only reads.
        let list = unsafe { slice::from_raw_parts_mut(list.as_ptr(), self.max_pages as usize) };
        let (pages, offset, length) = fill(list)?;
        let Some(first) = list.first() else {
            return Err(EINVAL);
        };
        mapped.start = *first | offset;
        for entry in list.iter_mut().take(pages as usize) {
            // The key says what may be done; the single pages allow all of it.
            *entry = (*entry | u64::from(bindings::MLX5_MTT_PERM_RW)).to_be();
        }
        mapped.pages = pages.min(self.max_pages);
        mapped.length = length;
        mapped.variant = mapped.variant.wrapping_add(1);
        Ok(self.index | u32::from(mapped.variant))
    }

    /// Address of the first byte in the key.
    pub(crate) fn address(&self) -> u64 {
        self.mapped.lock().start
    }

    /// The key, as of the last [`FastRegion::map`].
    pub(crate) fn key(&self) -> u32 {
        self.index | u32::from(self.mapped.lock().variant)
    }

    /// The segments of a WQE that registers what is mapped (`set_reg_wr()` in
    /// `drivers/infiniband/hw/mlx5/wr.c`). Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` when nothing is mapped, `ENODEV` when it is shut down.
    pub(crate) fn registration(&self, access: Access) -> Result<Registration> {
        let mapped = self.mapped.lock();
        if mapped.list.is_none() {
            return Err(ENODEV);
        }
        if mapped.pages == 0 {
            return Err(EINVAL);
        }
        let Access {
            local_write,
            remote,
        } = access.complete();
        // At most `MAX_PAGES`, so nothing wraps; a power of two at a time.
        let entries = mapped.pages.wrapping_add(ENTRIES_AT_A_TIME - 1) & !(ENTRIES_AT_A_TIME - 1);
        let octowords = entries / 2;
        let right = |on: bool, bit: u8| if on { bit } else { 0 };
        let mut mkey_mask = mask::LEN
            | mask::PAGE_SIZE
            | mask::START_ADDR
            | mask::EN_RINVAL
            | mask::KEY
            | mask::LR
            | mask::LW
            | mask::RR
            | mask::RW
            | mask::SMALL_FENCE
            | mask::FREE;
        if remote.atomic {
            mkey_mask |= mask::A;
        }
        Ok(Registration {
            key: self.index | u32::from(mapped.variant),
            ctrl: UmrCtrl {
                flags: flags::CHECK_NOT_FREE,
                xlt_octowords: octowords as u16,
                xlt_offset: 0,
                mkey_mask,
                xlt_offset_47_16: 0,
            },
            mkey: Mkey {
                free: false,
                access: rights::LOCAL_READ
                    | rights::UMR_EN
                    | right(local_write, rights::LOCAL_WRITE)
                    | right(remote.read, rights::REMOTE_READ)
                    | right(remote.write, rights::REMOTE_WRITE)
                    | right(remote.atomic, rights::ATOMIC),
                mode: MTT,
                qpn: ANY_QP,
                variant: mapped.variant,
                flags_pd: REMOTE_INVALIDATE,
                start: mapped.start,
                len: mapped.length,
                xlt_oct_size: octowords,
                log_page_size: LOG_PAGE as u8,
            },
            list: Data {
                byte_count: entries.wrapping_mul(ENTRY),
                lkey: self.list_key,
                addr: self.list_dma,
            },
        })
    }
}

impl Member for FastRegion {
    fn removal_notice(&self) {
        // The handle of the device tells the consumer.
    }

    fn shutdown(&self) {
        // Whoever is mapping is through with the list after this.
        self.mapped.lock().list = None;
        // The lock is held until the key is useless: whoever else shuts down waits for that.
        let mut hardware = self.hardware.lock();
        if let Some(Hardware { key, _list, .. }) = hardware.take() {
            if let Err(e) = key.destroy() {
                self.reachable.store(e.to_errno(), Relaxed);
            }
        }
    }
}
