// SPDX-License-Identifier: GPL-2.0

//! Memory keys.
//!
//! A key names memory to the device and says what may be done with it. Four kinds are made
//! here, told apart by the function that makes them, because they differ most in what a
//! mistake or a hostile peer can do:
//!
//! | made by | memory | peer's access |
//! |---|---|---|
//! | [`MemoryKey::local`] | all, by DMA address | none |
//! | [`MemoryKey::remote`] | one mapped range | as given |
//! | [`MemoryKey::free`] | none until a WQE says so | as the WQE says |
//! | [`MemoryKey::all_memory_remote`] | all, by DMA address | as given |

use super::{
    access::Access,
    cmd::{
        self,
        field,
        Mailbox, //
    },
    mapping::KernelMapping,
    pd::ProtectionDomain, //
};
use core::sync::atomic::{
    AtomicU8,
    Ordering::Relaxed, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

type In = bindings::mlx5_ifc_create_mkey_in_bits;

/// A key that any queue pair of its domain may use.
const ANY_QP: u32 = 0x00ff_ffff;
/// Addresses in one 16-byte unit in which the length of a translation is told.
const ADDRESSES_PER_OCTWORD: usize = 2;

/// The low byte of the next key. It differs from key to key, so that one that is used after
/// it was destroyed is seldom valid again.
static VARIANT: AtomicU8 = AtomicU8::new(0);

/// A memory key, and the mapping of the memory it names.
pub(crate) struct MemoryKey {
    key: u32,
    pd: Arc<ProtectionDomain>,
    /// Dropped after the key is destroyed; unmapped only if it could be.
    mapping: Option<KernelMapping>,
    /// Whether it was not tried yet to destroy it.
    live: bool,
}

impl MemoryKey {
    /// A key for our own WQEs and receives: all memory by its DMA address, local read and
    /// write. A peer can do nothing with it. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](super::cmd::exec).
    pub(crate) fn local(pd: Arc<ProtectionDomain>) -> Result<Self> {
        Self::all_memory(
            pd,
            Access {
                local_write: true,
                ..Access::default()
            },
        )
    }

    /// A key with which a peer that learns it, and is connected to a queue pair of this domain,
    /// reads or writes **all memory of this machine** that the device can reach. Only for
    /// a consumer that asks for exactly this. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](super::cmd::exec).
    pub(crate) fn all_memory_remote(pd: Arc<ProtectionDomain>, access: Access) -> Result<Self> {
        pr_warn!("a key to all memory was made for remote access\n");
        Self::all_memory(pd, access)
    }

    /// A key for the range of `mapping`, whose first byte a peer addresses as `address`. Sleeps.
    ///
    /// `address` must have the offset of the range in its first page in its low bits. Local reads of the
    /// range are allowed, too.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `address` has another offset or the range would wrap around; those of
    /// [`cmd::exec`](super::cmd::exec).
    pub(crate) fn remote(
        pd: Arc<ProtectionDomain>,
        mapping: KernelMapping,
        address: u64,
        access: Access,
    ) -> Result<Self> {
        const PAGE_BYTES: u64 = kernel::page::PAGE_SIZE as u64;
        let len = mapping.len() as u64;
        if address % PAGE_BYTES != mapping.offset() as u64 || address.checked_add(len).is_none() {
            return Err(EINVAL);
        }
        let pages = mapping.pages();
        let octwords = pages.len().div_ceil(ADDRESSES_PER_OCTWORD);
        let mut inbox = Self::inbox(&pd, access, octwords * ADDRESSES_PER_OCTWORD)?;
        inbox
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.access_mode_1_0),
                bindings::MLX5_MKC_ACCESS_MODE_MTT,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.start_addr),
                address,
            )
            .set(field!(create_mkey_in, memory_key_mkey_entry.len), len)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.log_page_size),
                PAGE_BYTES.ilog2(),
            )
            .set(
                field!(
                    create_mkey_in,
                    memory_key_mkey_entry.translations_octword_size
                ),
                octwords as u32,
            )
            .set(
                field!(create_mkey_in, translations_octword_actual_size),
                octwords as u32,
            )
            // The key says what may be done; the single pages allow all of it.
            .set_list(
                pages
                    .iter()
                    .map(|dma| dma | u64::from(bindings::MLX5_MTT_PERM_RW)),
            );
        Self::create(pd, inbox, Some(mapping))
    }

    /// A key that is free: of no use until a WQE registers memory by it, up to `entries` pages. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](super::cmd::exec).
    pub(crate) fn free(pd: Arc<ProtectionDomain>, entries: u32) -> Result<Self> {
        let mut inbox = Self::inbox(&pd, Access::default(), 0)?;
        let octwords = entries.div_ceil(ADDRESSES_PER_OCTWORD as u32);
        inbox
            .set(field!(create_mkey_in, memory_key_mkey_entry.free), 1u32)
            .set(field!(create_mkey_in, memory_key_mkey_entry.umr_en), 1u32)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.access_mode_1_0),
                bindings::MLX5_MKC_ACCESS_MODE_MTT,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.log_page_size),
                kernel::page::PAGE_SIZE.ilog2(),
            )
            .set(
                field!(
                    create_mkey_in,
                    memory_key_mkey_entry.translations_octword_size
                ),
                octwords,
            );
        Self::create(pd, inbox, None)
    }

    /// The key, as work requests carry it.
    #[inline]
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    fn all_memory(pd: Arc<ProtectionDomain>, access: Access) -> Result<Self> {
        let mut inbox = Self::inbox(&pd, access, 0)?;
        inbox
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.access_mode_1_0),
                bindings::MLX5_MKC_ACCESS_MODE_PA,
            )
            .set(field!(create_mkey_in, memory_key_mkey_entry.length64), 1u32);
        Self::create(pd, inbox, None)
    }

    /// What is the same for all kinds.
    fn inbox(pd: &ProtectionDomain, access: Access, list: usize) -> Result<Mailbox<In>> {
        let mut inbox = Mailbox::with_list(list)?;
        let Access {
            local_write,
            remote,
        } = access.complete();
        inbox
            .set(field!(create_mkey_in, memory_key_mkey_entry.lr), 1u32)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.lw),
                local_write,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.rr),
                remote.read,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.rw),
                remote.write,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.a),
                remote.atomic,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.pd),
                pd.number(),
            )
            .set(field!(create_mkey_in, memory_key_mkey_entry.qpn), ANY_QP)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.mkey_7_0),
                VARIANT.fetch_add(1, Relaxed),
            );
        Ok(inbox)
    }

    fn create(
        pd: Arc<ProtectionDomain>,
        mut inbox: Mailbox<In>,
        mapping: Option<KernelMapping>,
    ) -> Result<Self> {
        let mut key = 0;
        // SAFETY: The domain keeps the device alive, the inbox is valid for its length, and `key`
        // is a valid place for the answer.
        to_result(unsafe {
            bindings::mlx5_core_create_mkey(
                pd.hold().mdev(),
                &mut key,
                inbox.as_mut_ptr(),
                inbox.len(),
            )
        })?;
        Ok(Self {
            key,
            pd,
            mapping,
            live: true,
        })
    }

    /// Makes it useless. Sleeps.
    ///
    /// # Errors
    ///
    /// What the firmware answered when it refused or did not answer: the device may still reach the memory, which stays
    /// mapped. Not for a device that has died: mlx5_core takes what is to be destroyed there for destroyed.
    pub(crate) fn destroy(mut self) -> Result {
        self.end()
    }

    fn end(&mut self) -> Result {
        if !self.live {
            return Ok(());
        }
        self.live = false;
        let destroyed = cmd::destroy(self.pd.hold(), || {
            // SAFETY: The domain keeps the device alive. The key was created, and a call that failed has not
            // destroyed it.
            to_result(unsafe { bindings::mlx5_core_destroy_mkey(self.pd.hold().mdev(), self.key) })
        });
        destroyed.inspect_err(|e| {
            pr_err!(
                "memory key {:#x} cannot be destroyed ({e:?}), its memory is given up\n",
                self.key
            );
            if let Some(mapping) = &mut self.mapping {
                // Without an IOMMU this changes nothing; with one, the addresses do not go to somebody else.
                mapping.leak();
            }
        })
    }
}

impl Drop for MemoryKey {
    fn drop(&mut self) {
        // It was reported.
        let _ = self.end();
    }
}
