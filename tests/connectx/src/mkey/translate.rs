// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Access checks and address translation.

use super::context::{Mkey, Mode, ANY_QP, OCTWORD};
use super::{Mkeys, NULL_MKEY, RESERVED_LKEY};

/// What an access needs the key to allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    LocalRead,
    LocalWrite,
    RemoteRead,
    RemoteWrite,
    Atomic,
}

impl Right {
    fn granted_by(self, mkey: &Mkey) -> bool {
        let rights = mkey.rights();
        match self {
            Right::LocalRead => rights.local_read,
            Right::LocalWrite => rights.local_write,
            Right::RemoteRead => rights.remote_read,
            Right::RemoteWrite => rights.remote_write,
            Right::Atomic => rights.atomic,
        }
    }

    /// What an indirect key needs of the keys it refers to: they are local to it.
    fn beneath(self) -> Self {
        match self {
            Right::LocalRead | Right::RemoteRead => Right::LocalRead,
            Right::LocalWrite | Right::RemoteWrite | Right::Atomic => Right::LocalWrite,
        }
    }
}

/// A checked access: who wants what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub key: u32,
    pub va: u64,
    pub len: u64,
    pub right: Right,
    /// Protection domain and number of the QP, and whether it may use the reserved key.
    pub pd: u32,
    pub qpn: u32,
    pub reserved_lkey: bool,
}

/// Why an access is refused. The number is the vendor syndrome in the error completion: it has no meaning on a card
/// that is published, here it tells the reasons apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// No such key, or another variant of it.
    UnknownKey = 0x51,
    /// The key is free: not registered yet, or invalidated.
    Free = 0x52,
    /// The key belongs to another protection domain, or to another QP.
    Pd = 0x53,
    /// The key lacks the right.
    Right = 0x54,
    /// The access reaches beyond the key.
    Bounds = 0x55,
    /// No translation entry, or one without the permission.
    NotPresent = 0x56,
    /// Keys refer to keys deeper than the device follows.
    TooDeep = 0x57,
    /// The address is not in guest memory.
    Dma = 0x58,
    /// The way through lists of keys is longer than the device goes for one packet.
    TooLong = 0x59,
}

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
    /// Checks everything about an access but its translation entries. A length of zero passes without a look at the
    /// key (IBTA 9.7.4.1: no check for zero-length operations).
    ///
    /// # Errors
    ///
    /// The first check that fails, in the order of [`Fault`].
    pub fn check(&self, access: &Access) -> Result<(), Fault> {
        if access.len == 0 || access.key == NULL_MKEY {
            return Ok(());
        }
        if access.key == RESERVED_LKEY {
            let local = matches!(access.right, Right::LocalRead | Right::LocalWrite);
            let allowed = access.reserved_lkey && local;
            return allowed.then_some(()).ok_or(Fault::UnknownKey);
        }
        check_key(self.lookup(access.key)?, access)
    }

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

fn check_key(mkey: &Mkey, access: &Access) -> Result<(), Fault> {
    if mkey.is_free() {
        return Err(Fault::Free);
    }
    if mkey.pd() != access.pd || (mkey.qpn() != ANY_QP && mkey.qpn() != access.qpn) {
        return Err(Fault::Pd);
    }
    if !access.right.granted_by(mkey) {
        return Err(Fault::Right);
    }
    let Some(key_len) = mkey.length() else {
        // All of the address space, but an access does not wrap around its end.
        let fits = access.va.checked_add(access.len - 1).is_some();
        return fits.then_some(()).ok_or(Fault::Bounds);
    };
    let fits = access
        .va
        .checked_sub(mkey.start())
        .and_then(|offset| offset.checked_add(access.len))
        .is_some_and(|end| end <= key_len);
    fits.then_some(()).ok_or(Fault::Bounds)
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
mod tests {
    use super::super::context::CONTEXT_LEN;
    use super::*;
    use crate::field;
    use crate::ifc;

    const PD: u32 = 7;
    const QPN: u32 = 0x123;

    fn context(mode: u32, start: u64, len: u64, shift: u32) -> [u8; CONTEXT_LEN] {
        let mut c = [0; CONTEXT_LEN];
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, access_mode_1_0), mode);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, mkey_7_0), 0x42);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, qpn), ANY_QP);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, pd), PD);
        ifc::set64(&mut c, field!(mlx5_ifc_mkc_bits, start_addr), start);
        ifc::set64(&mut c, field!(mlx5_ifc_mkc_bits, len), len);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, log_page_size), shift);
        ifc::set(
            &mut c,
            field!(mlx5_ifc_mkc_bits, translations_octword_size),
            8,
        );
        for field in [
            field!(mlx5_ifc_mkc_bits, lr),
            field!(mlx5_ifc_mkc_bits, lw),
            field!(mlx5_ifc_mkc_bits, rr),
            field!(mlx5_ifc_mkc_bits, rw),
            field!(mlx5_ifc_mkc_bits, a),
        ] {
            ifc::set(&mut c, field, 1);
        }
        c
    }

    fn insert(keys: &mut Mkeys, context: [u8; CONTEXT_LEN], entries: &[u8]) -> u32 {
        let mkey = Mkey::new(context, entries).expect("valid context");
        (keys.table.insert(mkey).expect("room") << 8) | 0x42
    }

    fn access(key: u32, va: u64, len: u64) -> Access {
        Access {
            key,
            va,
            len,
            right: Right::LocalRead,
            pd: PD,
            qpn: QPN,
            reserved_lkey: false,
        }
    }

    fn spans(keys: &Mkeys, access: Access) -> Result<Vec<Span>, Fault> {
        let mut out = Vec::new();
        keys.translate(&access, &mut out).map(|()| out)
    }

    fn memory(addr: u64, len: usize) -> Span {
        Span::Memory { addr, len }
    }

    fn pages(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|e| e.to_be_bytes()).collect()
    }

    #[test]
    fn pages_are_joined_and_start_within_the_first() {
        let mut keys = Mkeys::default();
        // Starts 0x10 into its first page; the second and third page adjoin.
        let list = pages(&[0x5000 | 3, 0x8000 | 3, 0x9000 | 3]);
        let key = insert(&mut keys, context(1, 0xa_0010, 0x2ff0, 12), &list);
        assert_eq!(
            spans(&keys, access(key, 0xa_0010, 0x2ff0)),
            Ok(vec![memory(0x5010, 0xff0), memory(0x8000, 0x2000)])
        );
        assert_eq!(
            spans(&keys, access(key, 0xa_2fff, 1)),
            Ok(vec![memory(0x9fff, 1)])
        );
    }

    #[test]
    fn bounds_are_checked_without_overflow() {
        let mut keys = Mkeys::default();
        let key = insert(&mut keys, context(0, 0x1000, 0x1000, 12), &[]);
        for (va, len) in [
            (0xfff, 1),
            (0x2000, 1),
            (0x1fff, 2),
            (0x1000, u64::MAX),
            (u64::MAX, 2),
            (0, u64::MAX),
        ] {
            assert_eq!(
                spans(&keys, access(key, va, len)),
                Err(Fault::Bounds),
                "{va:#x} {len:#x}"
            );
        }
        assert!(spans(&keys, access(key, 0x1000, 0x1000)).is_ok());
        assert_eq!(spans(&keys, access(key, 0, 0)), Ok(vec![]));
    }

    #[test]
    fn all_memory_does_not_wrap() {
        let mut keys = Mkeys::default();
        let mut c = context(0, 0, 0, 0);
        ifc::set(&mut c, field!(mlx5_ifc_mkc_bits, length64), 1);
        let key = insert(&mut keys, c, &[]);
        assert_eq!(
            spans(&keys, access(key, 0xffff_0000, 9)),
            Ok(vec![memory(0xffff_0000, 9)])
        );
        assert_eq!(spans(&keys, access(key, u64::MAX, 2)), Err(Fault::Bounds));
        assert!(spans(&keys, access(key, u64::MAX, 1)).is_ok());
    }

    #[test]
    fn each_check_has_its_own_fault() {
        let mut keys = Mkeys::default();
        let plain = context(0, 0, 0x1000, 12);
        let key = insert(&mut keys, plain, &[]);
        assert_eq!(spans(&keys, access(key ^ 1, 0, 1)), Err(Fault::UnknownKey));
        assert_eq!(
            spans(&keys, access(key + 0x100, 0, 1)),
            Err(Fault::UnknownKey)
        );
        let other = Access {
            pd: PD + 1,
            ..access(key, 0, 1)
        };
        assert_eq!(spans(&keys, other), Err(Fault::Pd));

        let mut bound = plain;
        ifc::set(&mut bound, field!(mlx5_ifc_mkc_bits, qpn), QPN + 1);
        let bound = insert(&mut keys, bound, &[]);
        assert_eq!(spans(&keys, access(bound, 0, 1)), Err(Fault::Pd));

        let mut free = plain;
        ifc::set(&mut free, field!(mlx5_ifc_mkc_bits, free), 1);
        let free = insert(&mut keys, free, &[]);
        assert_eq!(spans(&keys, access(free, 0, 1)), Err(Fault::Free));

        for (right, field) in [
            (Right::LocalRead, field!(mlx5_ifc_mkc_bits, lr)),
            (Right::LocalWrite, field!(mlx5_ifc_mkc_bits, lw)),
            (Right::RemoteRead, field!(mlx5_ifc_mkc_bits, rr)),
            (Right::RemoteWrite, field!(mlx5_ifc_mkc_bits, rw)),
            (Right::Atomic, field!(mlx5_ifc_mkc_bits, a)),
        ] {
            let mut c = plain;
            ifc::set(&mut c, field, 0);
            let key = insert(&mut keys, c, &[]);
            for wanted in [
                Right::LocalRead,
                Right::LocalWrite,
                Right::RemoteRead,
                Right::RemoteWrite,
                Right::Atomic,
            ] {
                let a = Access {
                    right: wanted,
                    ..access(key, 0, 1)
                };
                let want = if wanted == right {
                    Err(Fault::Right)
                } else {
                    Ok(vec![memory(0, 1)])
                };
                assert_eq!(spans(&keys, a), want);
            }
        }
    }

    #[test]
    fn page_entries_need_their_permission_bits() {
        let mut keys = Mkeys::default();
        let list = pages(&[0x5000 | MTT_READ, 0x6000]);
        let key = insert(&mut keys, context(1, 0, 0x4000, 12), &list);
        assert!(spans(&keys, access(key, 0, 0x1000)).is_ok());
        let write = Access {
            right: Right::LocalWrite,
            ..access(key, 0, 1)
        };
        assert_eq!(spans(&keys, write), Err(Fault::NotPresent));
        assert_eq!(spans(&keys, access(key, 0xfff, 2)), Err(Fault::NotPresent));
        assert_eq!(spans(&keys, access(key, 0x3000, 1)), Err(Fault::NotPresent));
    }

    fn klm(count: u32, key: u32, va: u64) -> Vec<u8> {
        let mut bytes = count.to_be_bytes().to_vec();
        bytes.extend(key.to_be_bytes());
        bytes.extend(va.to_be_bytes());
        bytes
    }

    #[test]
    fn indirect_keys_gather_from_others() {
        let mut keys = Mkeys::default();
        let base = insert(&mut keys, context(0, 0, 0x10_0000, 12), &[]);
        let list = [klm(0x10, base, 0x100), klm(0x20, base, 0x4000)].concat();
        let key = insert(&mut keys, context(2, 0x77, 0x30, 0), &list);
        assert_eq!(
            spans(&keys, access(key, 0x7f, 0x18)),
            Ok(vec![memory(0x108, 8), memory(0x4000, 0x10)])
        );

        let list = [klm(0, base, 0x5000), klm(0, base, 0x9000)].concat();
        let key = insert(&mut keys, context(3, 0x1000, 0x2000, 12), &list);
        assert_eq!(
            spans(&keys, access(key, 0x1ff0, 0x20)),
            Ok(vec![memory(0x5ff0, 0x10), memory(0x9000, 0x10)])
        );
    }

    #[test]
    fn a_key_that_refers_to_itself_ends() {
        let mut keys = Mkeys::default();
        // The next index is known: the table is empty.
        let own = keys
            .table
            .insert(Mkey::new(context(0, 0, 1, 0), &[]).unwrap());
        let own = own.unwrap();
        keys.table.remove(own).unwrap();
        let key = ((own + 1) << 8) | 0x42;
        let list = klm(0x1000, key, 0);
        assert_eq!(insert(&mut keys, context(2, 0, 0x1000, 0), &list), key);
        assert_eq!(spans(&keys, access(key, 0, 1)), Err(Fault::TooDeep));
    }

    #[test]
    fn lists_of_lists_end() {
        let mut keys = Mkeys::default();
        // Three levels of 1024 entries, none of which holds more than the next level's last byte.
        let mut key = insert(&mut keys, context(0, 0, 0x1000, 12), &[]);
        for _ in 0..3 {
            let mut c = context(2, 0, 1024, 0);
            let room = field!(mlx5_ifc_mkc_bits, translations_octword_size);
            ifc::set(&mut c, room, 1024);
            key = insert(&mut keys, c, &klm(1, key, 1023).repeat(1024));
        }
        assert_eq!(spans(&keys, access(key, 0, 1024)), Err(Fault::TooLong));
        assert!(spans(&keys, access(key, 1023, 1)).is_ok());
    }

    #[test]
    fn the_reserved_key_is_for_queues_that_may() {
        let keys = Mkeys::default();
        let a = Access {
            reserved_lkey: true,
            ..access(RESERVED_LKEY, 0x1234, 4)
        };
        assert_eq!(spans(&keys, a), Ok(vec![memory(0x1234, 4)]));
        let denied = access(RESERVED_LKEY, 0x1234, 4);
        assert_eq!(spans(&keys, denied), Err(Fault::UnknownKey));
        let remote = Access {
            right: Right::RemoteWrite,
            ..a
        };
        assert_eq!(spans(&keys, remote), Err(Fault::UnknownKey));
        assert_eq!(
            spans(&keys, access(NULL_MKEY, 0, 9)),
            Ok(vec![Span::Null { len: 9 }])
        );
    }
}
