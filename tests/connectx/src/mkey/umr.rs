// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Changes of memory keys by a WQE: fast registration, invalidation, and what `mlx5_ib` does to user memory regions.

use super::context::{BadContext, Mkey, CONTEXT_LEN, OCTWORD, UMR_GROUP};
use crate::field;
use crate::ifc::Field;
use crate::wqe::umr::{flags, mask, UmrCtrl};

/// Bits of the mask that the kernel's fast registration does not use but its user regions do.
const MASK_PAGE_SIZE_5: u64 = 1 << 42;
const MASK_RELAXED_WRITE: u64 = 1 << 25;
const MASK_RELAXED_READ: u64 = 1 << 47;

/// Which fields of a context each bit of the mask stands for. The mask of the key covers its variant byte.
const FIELDS: &[(u64, &[Field])] = &[
    (
        mask::LEN,
        &[
            field!(mlx5_ifc_mkc_bits, len),
            field!(mlx5_ifc_mkc_bits, length64),
        ],
    ),
    (mask::PAGE_SIZE, &[field!(mlx5_ifc_mkc_bits, log_page_size)]),
    (
        MASK_PAGE_SIZE_5,
        &[field!(mlx5_ifc_mkc_bits, log_page_size)],
    ),
    (mask::START_ADDR, &[field!(mlx5_ifc_mkc_bits, start_addr)]),
    (mask::PD, &[field!(mlx5_ifc_mkc_bits, pd)]),
    (mask::EN_RINVAL, &[field!(mlx5_ifc_mkc_bits, en_rinval)]),
    (mask::KEY, &[field!(mlx5_ifc_mkc_bits, mkey_7_0)]),
    (mask::QPN, &[field!(mlx5_ifc_mkc_bits, qpn)]),
    (mask::LR, &[field!(mlx5_ifc_mkc_bits, lr)]),
    (mask::LW, &[field!(mlx5_ifc_mkc_bits, lw)]),
    (mask::RR, &[field!(mlx5_ifc_mkc_bits, rr)]),
    (mask::RW, &[field!(mlx5_ifc_mkc_bits, rw)]),
    (mask::A, &[field!(mlx5_ifc_mkc_bits, a)]),
    (
        mask::SMALL_FENCE,
        &[field!(mlx5_ifc_mkc_bits, small_fence_on_rdma_read_response)],
    ),
    (
        MASK_RELAXED_WRITE,
        &[field!(mlx5_ifc_mkc_bits, relaxed_ordering_write)],
    ),
    (
        MASK_RELAXED_READ,
        &[field!(mlx5_ifc_mkc_bits, relaxed_ordering_read)],
    ),
    (mask::FREE, &[field!(mlx5_ifc_mkc_bits, free)]),
];

/// Why a UMR is refused. The number is the vendor syndrome of the error completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UmrFault {
    /// No such key.
    UnknownKey = 0x61,
    /// The key does not allow UMR.
    NotEnabled = 0x62,
    /// The key is in the state that the WQE excludes.
    State = 0x63,
    /// A field that this device cannot change.
    Mask = 0x64,
    /// The resulting context makes no sense, or the translation entries do not fit.
    Context = 0x65,
    /// The key belongs to another protection domain than the queue.
    Pd = 0x66,
    /// The key is one of pages, and the queue must not register pages.
    Pages = 0x67,
    /// The translation entries start or end amid a group of 64 bytes: "UMR copies MTTs in units of
    /// `MLX5_UMR_FLEX_ALIGNMENT` bytes, so we need to align the offset and length accordingly"
    /// (`drivers/infiniband/hw/mlx5/umr.c`).
    Alignment = 0x68,
}

impl From<BadContext> for UmrFault {
    fn from(_: BadContext) -> Self {
        UmrFault::Context
    }
}

/// First unit of the translation table that a UMR writes.
pub fn first_entry(ctrl: &UmrCtrl) -> usize {
    if ctrl.flags & flags::TRANSLATION_OFFSET == 0 {
        return 0;
    }
    let offset = (u64::from(ctrl.xlt_offset_47_16) << 16) | u64::from(ctrl.xlt_offset);
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Carries out a UMR on `mkey`: the fields of `segment` that the mask names, then the translation entries. `variant`
/// is the low byte of the key as the WQE names it.
///
/// # Errors
///
/// See [`UmrFault`]; the key is unchanged then.
pub fn apply(
    mkey: &mut Mkey,
    variant: u8,
    ctrl: &UmrCtrl,
    segment: &[u8; CONTEXT_LEN],
    entries: &[u8],
) -> Result<(), UmrFault> {
    // The WQE names the key as it is now, or as it will be.
    if ctrl.mkey_mask & mask::KEY == 0 && variant != mkey.variant() {
        return Err(UmrFault::UnknownKey);
    }
    if !mkey.umr_enabled() {
        return Err(UmrFault::NotEnabled);
    }
    let excluded = match ctrl.flags & (flags::CHECK_FREE | flags::CHECK_NOT_FREE) {
        0 => false,
        flags::CHECK_FREE => mkey.is_free(),
        flags::CHECK_NOT_FREE => !mkey.is_free(),
        _ => true,
    };
    if excluded {
        return Err(UmrFault::State);
    }
    let known = FIELDS.iter().fold(0, |all, (bit, _)| all | bit);
    if ctrl.mkey_mask & !known != 0 {
        return Err(UmrFault::Mask);
    }
    let announced = usize::from(ctrl.xlt_octowords) * OCTWORD;
    let entries = entries.get(..announced.min(entries.len()));
    let entries = entries.unwrap_or_default();
    let first = first_entry(ctrl);
    let counts = [usize::from(ctrl.xlt_octowords), first];
    if counts.iter().any(|units| units % UMR_GROUP != 0) {
        return Err(UmrFault::Alignment);
    }
    // None of the fields changes how many entries the key has room for, so that all is known to work before the
    // first change. A copy of the key to try on would be a copy of all its entries.
    mkey.check_room(first, entries.len())?;
    let fields = FIELDS
        .iter()
        .filter(|(bit, _)| ctrl.mkey_mask & bit != 0)
        .flat_map(|(_, fields)| fields.iter().copied());
    mkey.update(segment, fields)?;
    Ok(mkey.write_entries(first, entries)?)
}

#[cfg(test)]
mod tests {
    use super::super::context::ANY_QP;
    use super::*;
    use crate::ifc;

    /// Variant of the key that the WQEs name.
    const VARIANT: u8 = 0;

    /// A key as `mlx5_ib` allocates it for fast registration: free, room for 8 entries of 16 bytes.
    fn fresh() -> Mkey {
        let mut c = [0; CONTEXT_LEN];
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, access_mode_1_0), 1);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, free), 1);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, umr_en), 1);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, lr), 1);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, pd), 3);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, qpn), ANY_QP);
        ifc::set(
            &mut c,
            field!(mlx5_ifc_mkc_bits, translations_octword_size),
            8,
        );
        Mkey::new(c, &[]).unwrap()
    }

    fn ctrl(check: u8, mkey_mask: u64, xlt_octowords: u16) -> UmrCtrl {
        UmrCtrl {
            flags: check,
            xlt_octowords,
            xlt_offset: 0,
            mkey_mask,
            xlt_offset_47_16: 0,
        }
    }

    fn segment() -> [u8; CONTEXT_LEN] {
        let mut s = [0; CONTEXT_LEN];
        ifc::set64(&mut s, field!(mlx5_ifc_mkc_bits, start_addr), 0x1_0000);
        ifc::set64(&mut s, field!(mlx5_ifc_mkc_bits, len), 0x2000);
        ifc::set(&mut s, field!(mlx5_ifc_mkc_bits, mkey_7_0), 9);
        ifc::set(&mut s, field!(mlx5_ifc_mkc_bits, pd), 99);
        ifc::set(&mut s, field!(mlx5_ifc_mkc_bits, log_page_size), 12);
        ifc::set(&mut s, field!(mlx5_ifc_mkc_bits, rw), 1);
        s
    }

    const REGISTER: u64 =
        mask::LEN | mask::START_ADDR | mask::KEY | mask::FREE | mask::RW | mask::PAGE_SIZE;

    #[test]
    fn registers_and_invalidates() {
        let mut key = fresh();
        let list: Vec<u8> = [0x5003u64, 0x6003, 0, 0, 0, 0, 0, 0]
            .iter()
            .flat_map(|e| e.to_be_bytes())
            .collect();
        let register = ctrl(flags::CHECK_NOT_FREE, REGISTER, 4);
        apply(&mut key, VARIANT, &register, &segment(), &list).unwrap();
        assert!(!key.is_free());
        assert_eq!(
            (key.variant(), key.start(), key.length()),
            (9, 0x1_0000, Some(0x2000))
        );
        assert_eq!(key.page(1), Some(0x6003));
        assert_eq!(key.pd(), 3, "not in the mask");

        assert_eq!(
            apply(&mut key, VARIANT, &register, &segment(), &list),
            Err(UmrFault::State)
        );
        let mut free = [0; CONTEXT_LEN];
        ifc::set(&mut free, field!(mlx5_ifc_mkc_bits, free), 1);
        apply(&mut key, 9, &ctrl(flags::INLINE, mask::FREE, 0), &free, &[]).unwrap();
        assert!(key.is_free());
        assert_eq!(key.variant(), 9);
        assert_eq!(
            apply(
                &mut key,
                9,
                &ctrl(flags::CHECK_FREE, mask::PD, 0),
                &segment(),
                &[]
            ),
            Err(UmrFault::State)
        );
    }

    #[test]
    fn refusals_leave_the_key_alone() {
        let mut key = fresh();
        let too_many = vec![0; 12 * OCTWORD];
        for (ctrl, entries) in [
            (ctrl(0, REGISTER, 12), too_many.as_slice()),
            (
                UmrCtrl {
                    flags: flags::TRANSLATION_OFFSET,
                    xlt_offset: 4,
                    ..ctrl(0, REGISTER, 8)
                },
                too_many.as_slice(),
            ),
            (ctrl(0, REGISTER | (1 << 60), 0), &[]),
            (
                ctrl(flags::CHECK_FREE | flags::CHECK_NOT_FREE, REGISTER, 0),
                &[],
            ),
        ] {
            assert!(apply(&mut key, VARIANT, &ctrl, &segment(), entries).is_err());
            assert!(key.is_free());
            assert_eq!(key.start(), 0);
        }
        let mut c = *key.context();
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, umr_en), 0);
        let mut fixed = Mkey::new(c, &[]).unwrap();
        assert_eq!(
            apply(&mut fixed, VARIANT, &ctrl(0, REGISTER, 0), &segment(), &[]),
            Err(UmrFault::NotEnabled)
        );
    }

    #[test]
    fn writes_at_an_offset() {
        let mut key = fresh();
        let list = [0xaa; UMR_GROUP * OCTWORD];
        let mut at = ctrl(flags::TRANSLATION_OFFSET, 0, 4);
        at.xlt_offset = 4;
        apply(&mut key, VARIANT, &at, &segment(), &list).unwrap();
        assert_eq!(key.entry(4), Some(&[0xaa; OCTWORD]));
        assert_eq!(key.entry(3), Some(&[0; OCTWORD]));
        at.xlt_offset = 8;
        assert_eq!(
            apply(&mut key, VARIANT, &at, &segment(), &list),
            Err(UmrFault::Context)
        );
        at.xlt_offset_47_16 = u32::MAX;
        assert_eq!(
            apply(&mut key, VARIANT, &at, &segment(), &list),
            Err(UmrFault::Context)
        );
    }

    #[test]
    fn entries_come_in_whole_groups() {
        let mut key = fresh();
        let list = [0xaa; 8 * OCTWORD];
        for (offset, count) in [(0, 1), (0, 2), (0, 5), (1, 4), (2, 4), (6, 2)] {
            let mut at = ctrl(flags::TRANSLATION_OFFSET, 0, count);
            at.xlt_offset = offset;
            assert_eq!(
                apply(&mut key, VARIANT, &at, &segment(), &list),
                Err(UmrFault::Alignment),
                "{count} at {offset}"
            );
        }
        assert_eq!(key.entry(0), None);
        // Without the flag, what stands in place of the offset means nothing.
        let mut at = ctrl(0, 0, 4);
        at.xlt_offset = 1;
        apply(&mut key, VARIANT, &at, &segment(), &list).unwrap();
        assert_eq!(key.entry(0), Some(&[0xaa; OCTWORD]));
    }
}
