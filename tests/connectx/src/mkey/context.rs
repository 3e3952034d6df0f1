// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The context of a memory key (`mkc` of the PRM) and its translation entries.

use crate::field;
use crate::ifc::{self, Field};

/// Bytes of a context.
pub const CONTEXT_LEN: usize = crate::size!(mlx5_ifc_mkc_bits);

/// Bytes of a translation entry unit, in which commands and UMR count.
pub const OCTWORD: usize = 16;

/// Units that UMR writes at a time: 64 bytes (`MLX5_UMR_FLEX_ALIGNMENT`).
pub(super) const UMR_GROUP: usize = 4;

/// How an address in the key becomes a guest address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// It is one already.
    Pa,
    /// By a list of pages of one size.
    Mtt,
    /// By a list of (length, key, address), looked up in other keys.
    Klm,
    /// As `Klm`, with entries of one size.
    Ksm,
}

impl Mode {
    fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Mode::Pa),
            1 => Some(Mode::Mtt),
            2 => Some(Mode::Klm),
            3 => Some(Mode::Ksm),
            _ => None,
        }
    }
}

/// What the data path looks at, taken from the context once after each change.
#[derive(Clone, Copy, Debug)]
struct View {
    variant: u8,
    free: bool,
    umr_enabled: bool,
    remote_invalidate: bool,
    mode: Mode,
    rights: Rights,
    qpn: u32,
    pd: u32,
    start: u64,
    len: u64,
    length64: bool,
    page_shift: u32,
}

/// Access rights of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    pub local_read: bool,
    pub local_write: bool,
    pub remote_read: bool,
    pub remote_write: bool,
    pub atomic: bool,
}

/// Why a context is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadContext {
    /// An access mode that this device does not have.
    Mode,
    /// Signatures (`bsf_en`), which the capabilities do not offer (`sho`).
    Signature,
    /// More translation entries than [`super::LOG_MAX_KLM_LIST_SIZE`] allows, or than the key has room for.
    Translations,
}

/// Qpn value that lets every QP of the protection domain use a key.
pub const ANY_QP: u32 = 0x00ff_ffff;

/// A memory key.
#[derive(Debug)]
pub struct Mkey {
    context: [u8; CONTEXT_LEN],
    view: View,
    /// Protection domain at creation, which stays in use when a UMR moves the key to another one.
    held_pd: u32,
    /// Translation entries that were ever written; those behind, up to the key's room, are not present.
    entries: Vec<[u8; OCTWORD]>,
}

impl Mkey {
    /// A key with this context and the first of its translation entries.
    ///
    /// # Errors
    ///
    /// See [`BadContext`].
    pub fn new(context: [u8; CONTEXT_LEN], entries: &[u8]) -> Result<Self, BadContext> {
        let view = View::decode(&context)?;
        let blocks = ifc::get(&context, field!(mlx5_ifc_mkc_bits, bsf_octword_size));
        if blocks != 0 || ifc::flag(&context, field!(mlx5_ifc_mkc_bits, bsf_en)) {
            return Err(BadContext::Signature);
        }
        let mut mkey = Mkey {
            context,
            view,
            held_pd: view.pd,
            entries: Vec::new(),
        };
        if mkey.room() > 1 << super::LOG_MAX_KLM_LIST_SIZE {
            return Err(BadContext::Translations);
        }
        mkey.write_entries(0, entries)?;
        Ok(mkey)
    }

    /// The context as the firmware keeps it.
    pub fn context(&self) -> &[u8; CONTEXT_LEN] {
        &self.context
    }

    /// Copies `fields` from `from`, which has the layout of a context.
    ///
    /// # Errors
    ///
    /// See [`BadContext`]; the key is then unchanged.
    pub fn update(
        &mut self,
        from: &[u8; CONTEXT_LEN],
        fields: impl IntoIterator<Item = Field>,
    ) -> Result<(), BadContext> {
        let mut context = self.context;
        for field in fields {
            ifc::set64(&mut context, field, ifc::get64(from, field));
        }
        self.view = View::decode(&context)?;
        self.context = context;
        Ok(())
    }

    /// Number of translation entries (units of 16 bytes) that the key has room for.
    ///
    /// The device keeps them in whole groups of 64 bytes, in which UMR writes (`MLX5_UMR_FLEX_ALIGNMENT`): a driver
    /// asks for fewer than it then writes.
    pub fn room(&self) -> usize {
        let field = field!(mlx5_ifc_mkc_bits, translations_octword_size);
        (ifc::get(&self.context, field) as usize).next_multiple_of(UMR_GROUP)
    }

    /// Is there room for `len` bytes of translation entries from unit `first` on? Returns the unit behind them.
    ///
    /// # Errors
    ///
    /// [`BadContext::Translations`] if not.
    pub fn check_room(&self, first: usize, len: usize) -> Result<usize, BadContext> {
        let end = first.checked_add(len.div_ceil(OCTWORD));
        end.filter(|end| *end <= self.room())
            .ok_or(BadContext::Translations)
    }

    /// Writes translation entries from unit `first` on; a last unit that is cut short is filled with zeros.
    ///
    /// # Errors
    ///
    /// [`BadContext::Translations`] when the key has no room for them; nothing is written then.
    pub fn write_entries(&mut self, first: usize, bytes: &[u8]) -> Result<(), BadContext> {
        let end = self.check_room(first, bytes.len())?;
        if self.entries.len() < end {
            self.entries.resize(end, [0; OCTWORD]);
        }
        let slots = self.entries.get_mut(first..end).unwrap_or_default();
        for (slot, chunk) in slots.iter_mut().zip(bytes.chunks(OCTWORD)) {
            *slot = [0; OCTWORD];
            if let Some(head) = slot.get_mut(..chunk.len()) {
                head.copy_from_slice(chunk);
            }
        }
        Ok(())
    }

    /// The translation entry at `index`, in units of 16 bytes.
    pub fn entry(&self, index: usize) -> Option<&[u8; OCTWORD]> {
        self.entries.get(index)
    }

    /// The page address entry at `index`; two of them share a unit.
    pub fn page(&self, index: u64) -> Option<u64> {
        let unit = self.entry(usize::try_from(index / 2).ok()?)?;
        let (low, high) = unit.split_at(8);
        let half = if index % 2 == 0 { low } else { high };
        half.try_into().ok().map(u64::from_be_bytes)
    }

    /// All translation entries that were written.
    pub fn entries(&self) -> &[[u8; OCTWORD]] {
        &self.entries
    }

    /// Variant byte of the key.
    pub fn variant(&self) -> u8 {
        self.view.variant
    }

    /// A free key exists but allows no access.
    pub fn is_free(&self) -> bool {
        self.view.free
    }

    /// Changes between free and valid.
    pub fn set_free(&mut self, free: bool) {
        self.view.free = free;
        ifc::set(
            &mut self.context,
            field!(mlx5_ifc_mkc_bits, free),
            free.into(),
        );
    }

    /// May UMR WQEs change the key?
    pub fn umr_enabled(&self) -> bool {
        self.view.umr_enabled
    }

    /// May the peer invalidate the key?
    pub fn remote_invalidate(&self) -> bool {
        self.view.remote_invalidate
    }

    /// How the key leads to memory.
    pub fn mode(&self) -> Mode {
        self.view.mode
    }

    /// What may be done by the key.
    pub fn rights(&self) -> Rights {
        self.view.rights
    }

    /// May this queue pair of this protection domain use the key?
    pub fn is_of(&self, pd: u32, qpn: u32) -> bool {
        self.view.pd == pd && (self.view.qpn == ANY_QP || self.view.qpn == qpn)
    }

    /// Protection domain.
    pub fn pd(&self) -> u32 {
        self.view.pd
    }

    /// Protection domain that the key was created in.
    pub fn held_pd(&self) -> u32 {
        self.held_pd
    }

    /// First address.
    pub fn start(&self) -> u64 {
        self.view.start
    }

    /// Length in bytes; `None` for all of the address space.
    pub fn length(&self) -> Option<u64> {
        (!self.view.length64).then_some(self.view.len)
    }

    /// Base 2 logarithm of the page or entry size, below 64.
    pub fn page_shift(&self) -> u32 {
        self.view.page_shift
    }
}

impl View {
    fn decode(context: &[u8; CONTEXT_LEN]) -> Result<Self, BadContext> {
        let get = |field| ifc::get(context, field);
        let flag = |field| ifc::flag(context, field);
        let high = get(field!(mlx5_ifc_mkc_bits, access_mode_4_2));
        let mode = (high << 2) | get(field!(mlx5_ifc_mkc_bits, access_mode_1_0));
        Ok(View {
            variant: get(field!(mlx5_ifc_mkc_bits, mkey_7_0)) as u8,
            free: flag(field!(mlx5_ifc_mkc_bits, free)),
            umr_enabled: flag(field!(mlx5_ifc_mkc_bits, umr_en)),
            remote_invalidate: flag(field!(mlx5_ifc_mkc_bits, en_rinval)),
            mode: Mode::from_bits(mode).ok_or(BadContext::Mode)?,
            rights: Rights {
                local_read: flag(field!(mlx5_ifc_mkc_bits, lr)),
                local_write: flag(field!(mlx5_ifc_mkc_bits, lw)),
                remote_read: flag(field!(mlx5_ifc_mkc_bits, rr)),
                remote_write: flag(field!(mlx5_ifc_mkc_bits, rw)),
                atomic: flag(field!(mlx5_ifc_mkc_bits, a)),
            },
            qpn: get(field!(mlx5_ifc_mkc_bits, qpn)),
            pd: get(field!(mlx5_ifc_mkc_bits, pd)),
            start: ifc::get64(context, field!(mlx5_ifc_mkc_bits, start_addr)),
            len: ifc::get64(context, field!(mlx5_ifc_mkc_bits, len)),
            length64: flag(field!(mlx5_ifc_mkc_bits, length64)),
            page_shift: get(field!(mlx5_ifc_mkc_bits, log_page_size)),
        })
    }
}
