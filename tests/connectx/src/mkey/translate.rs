// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Address translation.

use super::access::{Access, Fault, Right};
use super::context::{Mkey, Mode, OCTWORD};
use super::{Mkeys, NULL_MKEY, RESERVED_LKEY};

/// A piece of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// Contiguous guest memory.
    Memory { addr: u64, len: usize },
    /// Reads as zeros, swallows writes.
    Null { len: usize },
}

/// Keys below keys that are followed.
const MAX_DEPTH: u32 = 4;

/// Entries of indirect keys that are looked at for one access, on all levels together: as many as the longest list
/// has. Without a limit, lists of lists would keep the device busy for hours.
const MAX_STEPS: u32 = 1 << super::LOG_MAX_KLM_LIST_SIZE;

/// Where a walk through keys stands.
struct Walk {
    depth: u32,
    /// Entries that may still be looked at.
    steps: u32,
}

impl Walk {
    fn step(&mut self) -> Result<(), Fault> {
        self.steps = self.steps.checked_sub(1).ok_or(Fault::TooLong)?;
        Ok(())
    }
}

/// Permission bits in the low end of a page entry (`MLX5_IB_MTT_READ`, `MLX5_IB_MTT_WRITE`).
const MTT_READ: u64 = 1;
const MTT_WRITE: u64 = 2;

impl Mkeys {
    /// Checks an access and appends its pieces of guest memory to `out`, in order.
    ///
    /// `access.len` should be a packet or an operand; the number of pieces grows with it.
    ///
    /// # Errors
    ///
    /// See [`Fault`]; `out` then holds the pieces up to the refused one.
    pub fn translate(&self, access: &Access, out: &mut Vec<Span>) -> Result<(), Fault> {
        let mut walk = Walk {
            depth: 0,
            steps: MAX_STEPS,
        };
        self.translate_at(access, &mut walk, out)
    }

    fn translate_at(
        &self,
        access: &Access,
        walk: &mut Walk,
        out: &mut Vec<Span>,
    ) -> Result<(), Fault> {
        if access.len == 0 {
            return Ok(());
        }
        self.check(access)?;
        let len = usize::try_from(access.len).map_err(|_| Fault::Bounds)?;
        match access.key {
            NULL_MKEY => out.push(Span::Null { len }),
            RESERVED_LKEY => push(out, access.va, len),
            key => {
                let mkey = self.lookup(key)?;
                match mkey.mode() {
                    Mode::Pa => push(out, access.va, len),
                    Mode::Mtt => translate_pages(mkey, access, out)?,
                    Mode::Klm => self.translate_klm(mkey, access, walk, out)?,
                    Mode::Ksm => self.translate_ksm(mkey, access, walk, out)?,
                }
            }
        }
        Ok(())
    }

    fn translate_klm(
        &self,
        mkey: &Mkey,
        access: &Access,
        walk: &mut Walk,
        out: &mut Vec<Span>,
    ) -> Result<(), Fault> {
        let mut skip = access.va.wrapping_sub(mkey.start());
        let mut left = access.len;
        for entry in mkey.entries() {
            if left == 0 {
                break;
            }
            walk.step()?;
            let (count, key, va) = indirect(entry);
            let count = u64::from(count);
            if skip >= count {
                skip -= count;
                continue;
            }
            let len = left.min(count - skip);
            self.translate_beneath(access, key, va.wrapping_add(skip), len, walk, out)?;
            left -= len;
            skip = 0;
        }
        (left == 0).then_some(()).ok_or(Fault::NotPresent)
    }

    fn translate_ksm(
        &self,
        mkey: &Mkey,
        access: &Access,
        walk: &mut Walk,
        out: &mut Vec<Span>,
    ) -> Result<(), Fault> {
        let size = 1u64 << mkey.page_shift();
        let mut at = access.va.wrapping_sub(mkey.start() & !(size - 1));
        let mut left = access.len;
        while left > 0 {
            walk.step()?;
            let index = usize::try_from(at >> mkey.page_shift()).map_err(|_| Fault::NotPresent)?;
            let (_, key, va) = indirect(mkey.entry(index).ok_or(Fault::NotPresent)?);
            let inside = at & (size - 1);
            let len = left.min(size - inside);
            self.translate_beneath(access, key, va.wrapping_add(inside), len, walk, out)?;
            at = at.wrapping_add(len);
            left -= len;
        }
        Ok(())
    }

    fn translate_beneath(
        &self,
        access: &Access,
        key: u32,
        va: u64,
        len: u64,
        walk: &mut Walk,
        out: &mut Vec<Span>,
    ) -> Result<(), Fault> {
        if walk.depth >= MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        let beneath = Access {
            key,
            va,
            len,
            right: access.right.beneath(),
            ..*access
        };
        walk.depth += 1;
        let result = self.translate_at(&beneath, walk, out);
        walk.depth -= 1;
        result
    }
}

fn translate_pages(mkey: &Mkey, access: &Access, out: &mut Vec<Span>) -> Result<(), Fault> {
    let shift = mkey.page_shift();
    let page_size = 1u64 << shift;
    let needed = match access.right {
        Right::LocalRead | Right::RemoteRead => MTT_READ,
        Right::LocalWrite | Right::RemoteWrite => MTT_WRITE,
        Right::Atomic => MTT_READ | MTT_WRITE,
    };
    // The first entry is the page that holds the first address of the key.
    let mut at = access.va.wrapping_sub(mkey.start() & !(page_size - 1));
    let mut left = access.len;
    while left > 0 {
        let entry = mkey.page(at >> shift).ok_or(Fault::NotPresent)?;
        if entry & needed != needed {
            return Err(Fault::NotPresent);
        }
        let inside = at & (page_size - 1);
        let len = left.min(page_size - inside);
        let page = entry & !(page_size - 1) & !0x7;
        let addr = page.checked_add(inside).ok_or(Fault::Dma)?;
        push(out, addr, usize::try_from(len).map_err(|_| Fault::Bounds)?);
        at = at.wrapping_add(len);
        left -= len;
    }
    Ok(())
}

/// Appends guest memory, joined with the piece before it where they adjoin.
fn push(out: &mut Vec<Span>, addr: u64, len: usize) {
    if let Some(Span::Memory {
        addr: last,
        len: last_len,
    }) = out.last_mut()
    {
        if last.checked_add(*last_len as u64) == Some(addr) {
            *last_len += len;
            return;
        }
    }
    out.push(Span::Memory { addr, len });
}

/// Byte count, key and address of an indirect entry.
fn indirect(entry: &[u8; OCTWORD]) -> (u32, u32, u64) {
    let [c0, c1, c2, c3, k0, k1, k2, k3, va @ ..] = *entry;
    (
        u32::from_be_bytes([c0, c1, c2, c3]),
        u32::from_be_bytes([k0, k1, k2, k3]),
        u64::from_be_bytes(va),
    )
}

#[cfg(test)]
mod tests;
