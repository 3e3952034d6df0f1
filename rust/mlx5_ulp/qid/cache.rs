// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A set-associative cache of slots in front of the table.
//!
//! An entry is one word: a key and the slot where a queue with that key was last seen. It is a hint and
//! no more; the slot's own word decides ([`super`] says why that makes a stale answer impossible).
//! Hence entries may be read, filled and thrown away by anybody at any time with relaxed single-word
//! operations, and nothing has to be flushed when a queue goes.
//!
//! Eight entries, one cache line, form a set. Each key has a home in its set where it is looked for
//! first; only when somebody else lives there, the rest of the line is searched.
//!
//! Pinned entries never give way to others. At most half of a set can be pinned.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use super::atomic::{AtomicU64, AtomicUsize, Ordering};
use super::key::{Key, Token};
use super::stats::Tally;
use super::table::{Table, Writer, MAX_CAPACITY};

/// Entries of a set: a cache line of 64 bytes.
pub const WAYS: usize = 8;

/// Entries of a cache unless the build says otherwise (`MLX5_VF_QID_CACHE_SIZE`).
pub const DEFAULT_ENTRIES: usize = 256;

/// Most entries of a set that may be pinned.
pub const MAX_PINNED: usize = WAYS / 2;

/// An entry: key in bits 31:0, pinned in bit 32, slot in bits 63:52. The key serves to find an entry that
/// is not at home, and to tell whose it is when it is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hint(u64);

impl Hint {
    /// No key is all ones.
    const EMPTY: Hint = Hint(!Hint::PINNED);

    const PINNED: u64 = 1 << 32;

    /// At the top, so that what is shifted down is a slot without a mask.
    const SLOT: u32 = 64 - MAX_CAPACITY.trailing_zeros();

    #[inline(always)]
    const fn new(key: u32, slot: u32) -> Hint {
        Hint((slot as u64) << Hint::SLOT | key as u64)
    }

    #[inline(always)]
    const fn key(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    const fn slot(self) -> usize {
        (self.0 >> Hint::SLOT) as usize
    }

    const fn pinned(self) -> Hint {
        Hint(self.0 | Hint::PINNED)
    }

    const fn unpinned(self) -> Hint {
        Hint(self.0 & !Hint::PINNED)
    }

    const fn is_pinned(self) -> bool {
        self.0 & Hint::PINNED != 0
    }
}

/// Whole sets, each in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Lines<const ENTRIES: usize>([AtomicU64; ENTRIES]);

/// The cache for one kind of key. `ENTRIES` is a power of two from 8 to 65536.
///
/// # Invariants
///
/// `mask` is 0 when the cache is off; else `mask + 1` is a power of two from [`WAYS`] to `ENTRIES`.
/// Entries above `mask` are empty, or leftovers that nobody looks at.
#[derive(Debug)]
pub struct Cache<K, const ENTRIES: usize = DEFAULT_ENTRIES> {
    lines: Lines<ENTRIES>,
    /// Number of entries in use less one; 0 when the cache is off.
    mask: AtomicUsize,
    /// Where the next victim is looked for. Not exact when several readers fill at once.
    rotor: AtomicUsize,
    key: PhantomData<fn(K)>,
}

/// A size that the cache cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Not a power of two, or below one set.
    NotWholeSets,
    /// Above what the cache was built with.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizeError::NotWholeSets => "the size is 0 or a power of two from 8 on",
            SizeError::TooLarge => "the size is above what the cache was built with",
        })
    }
}

/// Why a key was not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// There is no such queue.
    NoQueue,
    /// Half of the set is pinned already.
    SetFull,
    /// The cache is off.
    Off,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PinError::NoQueue => "there is no such queue",
            PinError::SetFull => "half of the entries where this queue may be are pinned",
            PinError::Off => "the cache is off",
        })
    }
}

impl<K: Key, const ENTRIES: usize> Default for Cache<K, ENTRIES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, const ENTRIES: usize> Cache<K, ENTRIES> {
    const BITS: u32 = {
        assert!(ENTRIES.is_power_of_two() && ENTRIES >= WAYS && ENTRIES <= 1 << 16);
        ENTRIES.trailing_zeros()
    };

    /// An empty cache that uses all its entries.
    pub fn new() -> Self {
        Cache {
            lines: Lines(core::array::from_fn(|_| AtomicU64::new(Hint::EMPTY.0))),
            mask: AtomicUsize::new(ENTRIES - 1),
            rotor: AtomicUsize::new(0),
            key: PhantomData,
        }
    }

    /// Makes it an empty cache that uses all its entries, whatever it was: one that was allocated as
    /// zeroed memory, for one.
    pub fn reset(&mut self) {
        for place in &self.lines.0 {
            place.store(Hint::EMPTY.0, Ordering::Relaxed);
        }
        self.mask = AtomicUsize::new(ENTRIES - 1);
        self.rotor = AtomicUsize::new(0);
    }

    /// Number of entries in use; 0 when the cache is off.
    pub fn size(&self) -> usize {
        match self.mask.load(Ordering::Relaxed) {
            0 => 0,
            mask => mask.wrapping_add(1),
        }
    }

    /// Where `key` lives in a cache that uses all its entries.
    #[inline(always)]
    fn full_home(key: K) -> usize {
        (key.raw().wrapping_mul(K::multiplier(Self::BITS)) >> (32 - Self::BITS)) as usize
    }

    /// Where `key` lives.
    #[inline(always)]
    fn home(&self, key: K) -> usize {
        Self::full_home(key) & self.mask.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn load(&self, at: usize) -> Hint {
        // `at` is below ENTRIES at every call and the mask only tells the compiler so.
        Hint(self.lines.0[at & (ENTRIES - 1)].load(Ordering::Relaxed))
    }

    /// Puts `new` where `old` is. False when it is not there any more.
    fn replace(&self, at: usize, old: Hint, new: Hint) -> bool {
        let place = &self.lines.0[at & (ENTRIES - 1)];
        place
            .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// The places of the set of `home`, `home` first.
    #[inline(always)]
    fn set(home: usize) -> impl Iterator<Item = usize> + Clone {
        (0..WAYS).map(move |way| (home & !(WAYS - 1)) | (home.wrapping_add(way) & (WAYS - 1)))
    }

    /// Finds a queue by its key.
    ///
    /// When the queue is created or destroyed during the call, either answer may be given.
    #[inline(always)]
    pub fn get<B>(&self, table: &Table<B>, key: K, stats: &impl Tally) -> Option<Token>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        self.get_at_home(table, key, stats)
            .or_else(|| self.get_elsewhere(table, key, stats))
    }

    /// The first half of [`Cache::get`]: most lookups end here. For those who want their second half out of
    /// the way.
    #[inline(always)]
    pub fn get_at_home<B>(&self, table: &Table<B>, key: K, stats: &impl Tally) -> Option<Token>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        // Whose hint it is need not be asked: the slot itself tells. Nor whether the cache is smaller now:
        // what is not in use is empty, and the second half knows better.
        let hint = self.load(Self::full_home(key));
        let token = table.check(hint.slot(), key)?;
        stats.hit();
        Some(token)
    }

    /// The second half of [`Cache::get`]: the rest of the set, and the table.
    pub fn get_elsewhere<B>(&self, table: &Table<B>, key: K, stats: &impl Tally) -> Option<Token>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        let found = self.peek(table, key);
        if found.is_some() {
            stats.hit();
            return found;
        }
        stats.miss();
        self.find_and_fill(table, key, stats)
    }

    fn find_and_fill<B>(&self, table: &Table<B>, key: K, stats: &impl Tally) -> Option<Token>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        let found = table.find(key);
        match found {
            Some(token) => self.fill(key, token.slot, stats),
            None => stats.absent(),
        }
        found
    }

    /// What the cache alone knows.
    fn peek<B>(&self, table: &Table<B>, key: K) -> Option<Token>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        Self::set(self.home(key))
            .map(|at| self.load(at))
            .filter(|hint| hint.key() == key.raw())
            .find_map(|hint| table.check(hint.slot(), key))
    }

    /// Remembers a slot. Where another reader is faster, it is left at that.
    fn fill(&self, key: K, slot: u32, stats: &impl Tally) {
        if self.size() == 0 {
            return;
        }
        let home = self.home(key);
        let new = Hint::new(key.raw(), slot);
        // An old hint for the same key is the first to go, else two of them would take up room.
        let reusable = |hint: Hint| hint.key() == key.raw() && !hint.is_pinned();
        let places = || Self::set(home).map(|at| (at, self.load(at)));
        let old = places()
            .find(|&(_, hint)| reusable(hint))
            .or_else(|| places().find(|&(_, hint)| hint == Hint::EMPTY));
        if let Some((at, old)) = old {
            self.replace(at, old, new);
            return;
        }
        if let Some((at, old)) = self.victim(home) {
            if self.replace(at, old, new) {
                stats.eviction();
            }
        }
    }

    /// An entry of the set that may go. In turns, which keeps no books on the hit path and, unlike an
    /// exact order of use, does not fail altogether on a cycle of nine keys.
    fn victim(&self, home: usize) -> Option<(usize, Hint)> {
        let turn = self.rotor.load(Ordering::Relaxed);
        self.rotor.store(turn.wrapping_add(1), Ordering::Relaxed);
        let first = (home & !(WAYS - 1)) | (turn & (WAYS - 1));
        Self::set(first)
            .map(|at| (at, self.load(at)))
            .find(|(_, hint)| !hint.is_pinned())
    }

    /// Prepares for lookups of `keys`: `touch` is called for the home of each, to start fetching its
    /// cache line, and then what is missing is brought in from the table.
    pub fn prefetch<B>(
        &self,
        table: &Table<B>,
        keys: &[K],
        stats: &impl Tally,
        mut touch: impl FnMut(&AtomicU64),
    ) where
        B: Deref<Target = [AtomicU64]>,
    {
        for &key in keys {
            touch(&self.lines.0[self.home(key) & (ENTRIES - 1)]);
        }
        if self.size() == 0 {
            return;
        }
        for &key in keys {
            if self.peek(table, key).is_none() {
                if let Some(token) = table.find(key) {
                    self.fill(key, token.slot, stats);
                    stats.prefetched();
                }
            }
        }
    }

    /// Pins the queue with this key: its entry stays until [`Cache::unpin`], [`Cache::forget`] or
    /// [`Cache::resize`].
    ///
    /// # Errors
    ///
    /// No such queue; too many pinned entries in its set; the cache is off.
    pub fn pin<B>(&self, writer: &mut Writer<'_, B>, key: K) -> Result<(), PinError>
    where
        B: Deref<Target = [AtomicU64]>,
    {
        if self.size() == 0 {
            return Err(PinError::Off);
        }
        let slot = writer.table().find(key).ok_or(PinError::NoQueue)?.slot;
        let new = Hint::new(key.raw(), slot).pinned();
        let home = self.home(key);
        let places = || Self::set(home).map(|at| (at, self.load(at)));
        // Only the writer pins and unpins: what is pinned stays as it is meanwhile.
        let own = places().find(|(_, hint)| hint.is_pinned() && hint.key() == key.raw());
        if let Some((at, old)) = own {
            self.replace(at, old, new);
            return Ok(());
        }
        let pinned = places().map(|(_, hint)| usize::from(hint.is_pinned()));
        if pinned.fold(0, usize::wrapping_add) >= MAX_PINNED {
            return Err(PinError::SetFull);
        }
        // What is not pinned may be filled under our hands: then look again.
        loop {
            let free = places().find(|(_, hint)| !hint.is_pinned());
            let (at, old) = free.ok_or(PinError::SetFull)?;
            if self.replace(at, old, new) {
                return Ok(());
            }
        }
    }

    /// Replaces all entries of `key` that `which` picks. True when there was one.
    fn replace_own(&self, key: K, which: impl Fn(Hint) -> bool, by: impl Fn(Hint) -> Hint) -> bool {
        let mut found = false;
        for at in Self::set(self.home(key)) {
            loop {
                let hint = self.load(at);
                if hint.key() != key.raw() || !which(hint) {
                    break;
                }
                found = true;
                if self.replace(at, hint, by(hint)) {
                    break;
                }
            }
        }
        found
    }

    /// Undoes [`Cache::pin`]. False when the key was not pinned.
    pub fn unpin<B>(&self, _writer: &mut Writer<'_, B>, key: K) -> bool {
        self.replace_own(key, Hint::is_pinned, Hint::unpinned)
    }

    /// Gives back the room of a queue that was removed, its pin included. Lookups do not depend on it.
    pub fn forget<B>(&self, _writer: &mut Writer<'_, B>, key: K) {
        self.replace_own(key, |_| true, |_| Hint::EMPTY);
    }

    fn count(&self, which: impl Fn(Hint) -> bool) -> usize {
        let one = |at| usize::from(which(self.load(at)));
        (0..self.size()).map(one).fold(0, usize::wrapping_add)
    }

    /// Number of pinned entries.
    pub fn pinned(&self) -> usize {
        self.count(Hint::is_pinned)
    }

    /// Number of entries that hold a hint.
    pub fn used(&self) -> usize {
        self.count(|hint| hint != Hint::EMPTY)
    }

    /// Whether the cache can have `entries` entries.
    ///
    /// # Errors
    ///
    /// Anything but 0 (off) and powers of two from [`WAYS`] to `ENTRIES`.
    pub fn check_size(entries: usize) -> Result<(), SizeError> {
        match entries {
            0 => Ok(()),
            n if n < WAYS || !n.is_power_of_two() => Err(SizeError::NotWholeSets),
            n if n > ENTRIES => Err(SizeError::TooLarge),
            _ => Ok(()),
        }
    }

    /// Uses `entries` entries from now on; 0 turns the cache off. All entries and pins are lost; returns
    /// how many were pinned.
    ///
    /// # Errors
    ///
    /// As [`Cache::check_size`]; nothing is changed then.
    pub fn resize<B>(
        &self,
        _writer: &mut Writer<'_, B>,
        entries: usize,
    ) -> Result<usize, SizeError> {
        Self::check_size(entries)?;
        let pinned = self.pinned();
        let mask = entries.saturating_sub(1);
        self.mask.store(mask, Ordering::Relaxed);
        for place in &self.lines.0 {
            place.store(Hint::EMPTY.0, Ordering::Relaxed);
        }
        Ok(pinned)
    }
}
