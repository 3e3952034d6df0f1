// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The table of queues: slots, and an index for each of the two keys.

use core::fmt;
use core::ops::Deref;

use super::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use super::index::Index;
use super::key::{Entry, Key, Name, Number, Token};

/// Largest capacity in queues, a power of two: a hint of the cache has twelve bits for a slot.
pub const MAX_CAPACITY: usize = 1 << 12;

/// All queues that can be found by key.
///
/// `B` owns words: a boxed slice on the host, a kernel vector in the module. Five times the capacity in
/// words of eight bytes is what a table needs.
///
/// # Invariants
///
/// A word of `slots` that is live (`Entry::is_live`) has its name in `by_name` and its number in
/// `by_number`, except while a [`Writer`] is at work. No two live words have the same name or number.
/// Only the writer stores to words and indexes, and `next`.
#[derive(Debug)]
pub struct Table<B> {
    slots: B,
    by_name: Index<B>,
    by_number: Index<B>,
    /// Where to look for a free slot: behind the last one taken, so that a slot rests as long as
    /// possible before it is taken again.
    next: AtomicUsize,
    writing: AtomicBool,
}

impl<B: Deref<Target = [AtomicU64]>> Table<B> {
    /// An empty table for `capacity` queues, at most [`MAX_CAPACITY`]; what is above is cut off.
    ///
    /// # Errors
    ///
    /// That of `alloc`, which is called five times to give a slice of that many words of any contents.
    pub fn new<E>(
        capacity: usize,
        mut alloc: impl FnMut(usize) -> Result<B, E>,
    ) -> Result<Self, E> {
        let capacity = capacity.min(MAX_CAPACITY);
        let mut table = Table {
            slots: alloc(capacity)?,
            by_name: Index::new(alloc(capacity)?, alloc(capacity)?),
            by_number: Index::new(alloc(capacity)?, alloc(capacity)?),
            next: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
        };
        table.reset();
        Ok(table)
    }

    /// Makes it an empty table, whatever it was: one that was allocated as zeroed memory, for one.
    pub fn reset(&mut self) {
        for slot in self.slots.iter() {
            slot.store(Entry::free(0).0, Ordering::Relaxed);
        }
        self.by_name.reset();
        self.by_number.reset();
        self.next = AtomicUsize::new(0);
        self.writing = AtomicBool::new(false);
    }

    /// Largest number of queues.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The queue in `slot`, if its key is `key` at this moment.
    #[inline(always)]
    pub(super) fn check<K: Key>(&self, slot: usize, key: K) -> Option<Token> {
        // Acquire: with the Release in `Writer::insert`, what was prepared for the queue is visible.
        let entry = Entry(self.slots.get(slot)?.load(Ordering::Acquire));
        if K::of(entry).raw() != key.raw() {
            return None;
        }
        Some(Token {
            slot: slot as u32,
            entry,
        })
    }

    /// Finds a queue by its key: a binary search, with no cache in front.
    ///
    /// When the queue is created or destroyed during the call, either answer may be given.
    pub fn find<K: Key>(&self, key: K) -> Option<Token> {
        let index = if K::FROM_DEVICE {
            &self.by_number
        } else {
            &self.by_name
        };
        // If the slot does not hold the key, the queue was removed after the index was read.
        self.check(index.find(key.raw())? as usize, key)
    }

    /// Whether `token` still names the queue that it was made for.
    ///
    /// A slot has to be taken 256 times by queues of the same names before an old token passes for a
    /// new one; a reader that looks up and uses a token within one RCU read section never meets that.
    pub fn is_current(&self, token: Token) -> bool {
        let slot = self.slots.get(token.slot as usize);
        slot.is_some_and(|slot| slot.load(Ordering::Acquire) == token.entry.0)
    }

    /// All queues in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = Token> + '_ {
        (0u32..).zip(self.slots.iter()).filter_map(|(slot, word)| {
            let entry = Entry(word.load(Ordering::Acquire));
            entry.is_live().then_some(Token { slot, entry })
        })
    }

    /// The right to change the table, until it is dropped. `None` while another writer has it: callers
    /// keep each other out by a lock of their own, so that means a bug.
    pub fn writer(&self) -> Option<Writer<'_, B>> {
        // Acquire pairs with the Release in `drop`: all that earlier writers did is visible.
        if self.writing.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Writer { table: self })
    }
}

/// Why a queue was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// No queue has such a QPN.
    BadQpn,
    /// Another queue has the name.
    NameTaken,
    /// Another queue has the QPN.
    NumberTaken,
    /// All slots are taken, or wait to be recycled.
    Full,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InsertError::BadQpn => "no queue has such a QPN",
            InsertError::NameTaken => "another queue has this name",
            InsertError::NumberTaken => "another queue has this QPN",
            InsertError::Full => "the table of queues is full",
        })
    }
}

/// A slot whose queue was removed but may still be in use by readers. Give it to [`Writer::recycle`]; to
/// drop it is to lose the slot.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the slot is lost unless it is recycled"]
pub struct Retired {
    slot: u32,
}

impl Retired {
    /// The slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

/// The one that may change a table.
#[derive(Debug)]
pub struct Writer<'a, B> {
    table: &'a Table<B>,
}

impl<B> Drop for Writer<'_, B> {
    fn drop(&mut self) {
        self.table.writing.store(false, Ordering::Release);
    }
}

impl<'a, B: Deref<Target = [AtomicU64]>> Writer<'a, B> {
    /// The table.
    pub fn table(&self) -> &'a Table<B> {
        self.table
    }

    fn free_slot(&self) -> Option<(u32, &'a AtomicU64)> {
        let slots: &'a [AtomicU64] = &self.table.slots;
        let free = |&at: &usize| {
            let word = slots.get(at).map(|word| word.load(Ordering::Relaxed));
            word.is_some_and(|word| Entry(word).is_free())
        };
        let next = self.table.next.load(Ordering::Relaxed);
        let at = (next..slots.len()).chain(0..next).find(free)?;
        Some((at as u32, slots.get(at)?))
    }

    /// Adds a queue: from now on it is found by `name` and by `qpn`.
    ///
    /// `prepare` is called with the slot before anybody can find it there, to put the queue itself into
    /// its place. Costs time in proportion to the number of queues.
    ///
    /// # Errors
    ///
    /// A QPN out of range, a name or number that is taken, or a full table; `prepare` is not called then.
    pub fn insert(
        &mut self,
        name: Name,
        qpn: u32,
        prepare: impl FnOnce(u32),
    ) -> Result<Token, InsertError> {
        let table = self.table;
        let number = Number::new(qpn).ok_or(InsertError::BadQpn)?;
        if table.find(name).is_some() {
            return Err(InsertError::NameTaken);
        }
        if table.find(number).is_some() {
            return Err(InsertError::NumberTaken);
        }
        let (slot, word) = self.free_slot().ok_or(InsertError::Full)?;
        let generation = Entry(word.load(Ordering::Relaxed)).generation();
        let entry = Entry::new(name, qpn, generation.wrapping_add(1));
        let next = slot.wrapping_add(1) as usize;
        table.next.store(next, Ordering::Relaxed);
        prepare(slot);
        // Release: see `Table::check`. Before the index, which must not lead to a slot that is not ready.
        word.store(entry.0, Ordering::Release);
        table.by_name.insert(name.raw(), slot);
        table.by_number.insert(number.raw(), slot);
        Ok(Token { slot, entry })
    }

    /// Removes the queue that `token` names. `None` when it is not there any more.
    ///
    /// When this returns, no lookup finds it; those that found it before may still be using it. Wait for
    /// them before the queue itself goes, and before [`Writer::recycle`].
    pub fn remove(&mut self, token: Token) -> Option<Retired> {
        let table = self.table;
        if !token.entry.is_live() || !table.is_current(token) {
            return None;
        }
        let word = table.slots.get(token.slot as usize)?;
        let retired = Entry::retired(token.entry.generation());
        // First: from here on neither index nor cache leads to it.
        word.store(retired.0, Ordering::Release);
        table.by_name.remove(token.entry.name().raw());
        table.by_number.remove(token.entry.number().raw());
        Some(Retired { slot: token.slot })
    }

    /// Makes a slot available again. The caller vouches that no reader uses its former queue any more.
    pub fn recycle(&mut self, retired: Retired) {
        if let Some(word) = self.table.slots.get(retired.slot as usize) {
            let entry = Entry(word.load(Ordering::Relaxed));
            if !entry.is_live() {
                word.store(Entry::free(entry.generation()).0, Ordering::Relaxed);
            }
        }
    }
}
