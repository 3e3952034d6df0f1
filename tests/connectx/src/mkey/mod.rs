// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory keys: what a queue may access, and where it lies in guest memory.
//!
//! A key is 32 bits: the index of its context in the upper 24, and a variant byte that the driver chooses, so that a
//! key that was used up does not fit its successor. [`context`] holds the context as the firmware keeps it,
//! [`access`] checks accesses, [`translate`] turns them into guest addresses, [`umr`] changes keys on behalf of a WQE.

pub mod access;
pub mod context;
pub mod translate;
pub mod umr;

pub use access::{Access, Fault, Right};
pub use context::{Mkey, Mode};
pub use translate::Span;

use crate::cmd::{CmdError, CmdResult, Status};
use crate::table::Table;

/// The key that stands for all memory, for queues with `qpc.rlky` set; as an SGE of a receive WQE it ends the list.
pub const RESERVED_LKEY: u32 = 0x100;

/// The key of which reads return zeros and writes go nowhere (QUERY_SPECIAL_CONTEXTS).
pub const NULL_MKEY: u32 = 0x200;

/// The key with which a queue dumps data (QUERY_SPECIAL_CONTEXTS); no command of the stock drivers uses it.
pub const DUMP_FILL_MKEY: u32 = 0x300;

/// First index for keys that the driver creates; those below are the ones above.
const FIRST_INDEX: u32 = 0x10;

/// `log_max_mkey`: keys that can exist at a time.
pub const LOG_MAX_MKEY: u32 = 18;

/// `log_max_klm_list_size`: base 2 logarithm of the translation entries of 16 bytes that one key can have.
pub const LOG_MAX_KLM_LIST_SIZE: u32 = 20;

/// Translation entries of 16 bytes that all keys together have room for: 1 GiB. A card keeps them in pages of the
/// guest's, this device in memory of its own.
const MAX_ENTRIES: usize = 1 << 26;

/// The memory keys of a function.
#[derive(Debug)]
pub struct Mkeys {
    /// Contexts by index.
    pub table: Table<Mkey>,
    /// Translation entries that they have room for.
    room: usize,
}

impl Default for Mkeys {
    fn default() -> Self {
        Mkeys {
            table: Table::new("mkey", FIRST_INDEX, (1 << LOG_MAX_MKEY) - FIRST_INDEX),
            room: 0,
        }
    }
}

impl Mkeys {
    /// Adds a key and returns its index.
    ///
    /// # Errors
    ///
    /// `NO_RESOURCES` when there is no room for its translation entries, or as [`Table::insert`].
    pub fn insert(&mut self, mkey: Mkey) -> CmdResult<u32> {
        let room = self.room.saturating_add(mkey.room());
        if room > MAX_ENTRIES {
            return Err(CmdError::new(
                Status::NoResources,
                "too many translation entries",
            ));
        }
        let index = self.table.insert(mkey)?;
        self.room = room;
        Ok(index)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// As [`Table::remove`].
    pub fn remove(&mut self, index: u32) -> CmdResult<Mkey> {
        let mkey = self.table.remove(index)?;
        self.room = self.room.saturating_sub(mkey.room());
        Ok(mkey)
    }

    /// The context that a whole key names.
    ///
    /// # Errors
    ///
    /// [`Fault::UnknownKey`] when there is none, or its variant byte differs.
    pub fn lookup(&self, key: u32) -> Result<&Mkey, Fault> {
        self.table
            .get(key >> 8)
            .filter(|mkey| u32::from(mkey.variant()) == key & 0xff)
            .ok_or(Fault::UnknownKey)
    }

    /// Makes a key free on behalf of a SEND with invalidate, or of a local one.
    ///
    /// # Errors
    ///
    /// When the key is unknown, belongs to another protection domain or queue pair (a window of type 2B is that of
    /// one queue pair), or does not allow it.
    pub fn invalidate(&mut self, key: u32, pd: u32, qpn: u32) -> Result<(), Fault> {
        let mkey = self.lookup(key)?;
        if !mkey.is_of(pd, qpn) {
            return Err(Fault::Pd);
        }
        if !mkey.remote_invalidate() {
            return Err(Fault::Right);
        }
        if mkey.is_free() {
            return Err(Fault::Free);
        }
        if let Some(mkey) = self.table.get_mut(key >> 8) {
            mkey.set_free(true);
        }
        Ok(())
    }
}
