// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Numbered objects.
//!
//! One [`Table`] per object kind owns the objects, hands out their numbers and counts who uses
//! them. Kinds that share one number space on the device (QPs, SQs and RQs; SRQs, XRC SRQs and
//! RMPs) are kept apart by number ranges or share one table.

use std::collections::BTreeMap;

use crate::cmd::{CmdError, Status};

/// A live object and the number of other objects that refer to it.
#[derive(Debug)]
struct Slot<T> {
    object: T,
    users: u32,
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: &'static str,
    first: u32,
    limit: u32,
    next: u32,
    slots: BTreeMap<u32, Slot<T>>,
}

impl<T> Table<T> {
    /// An empty table of objects called `kind`, at most `limit` at a time, numbered from `first`
    /// to `first + limit - 1`.
    pub fn new(kind: &'static str, first: u32, limit: u32) -> Self {
        Self {
            kind,
            first,
            limit,
            next: 0,
            slots: BTreeMap::new(),
        }
    }

    /// What the objects are called, in lower case with underscores.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Adds an object and returns its number.
    ///
    /// Numbers go round: a freed one comes back as late as possible, so that a stale use is
    /// noticed.
    ///
    /// # Errors
    ///
    /// `EXCEED_LIM` when the table is full.
    pub fn insert(&mut self, object: T) -> Result<u32, CmdError> {
        if self.slots.len() >= self.limit as usize {
            return Err(CmdError::new(
                Status::ExceedLim,
                "number of objects exhausted",
            ));
        }
        // A free number exists, so the loop ends within len() + 1 steps.
        let number = loop {
            let number = self.first + self.next;
            self.next = (self.next + 1) % self.limit;
            if !self.slots.contains_key(&number) {
                break number;
            }
        };
        self.slots.insert(number, Slot { object, users: 0 });
        Ok(number)
    }

    /// The object with a number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(&number).map(|slot| &slot.object)
    }

    /// The object with a number, for changes.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(&number).map(|slot| &mut slot.object)
    }

    /// Like [`get`](Self::get), for command handlers.
    ///
    /// # Errors
    ///
    /// `BAD_RES` when there is no such object.
    pub fn find(&self, number: u32) -> Result<&T, CmdError> {
        self.get(number)
            .ok_or(CmdError::new(Status::BadRes, "no such object"))
    }

    /// Like [`get_mut`](Self::get_mut), for command handlers.
    ///
    /// # Errors
    ///
    /// `BAD_RES` when there is no such object.
    pub fn find_mut(&mut self, number: u32) -> Result<&mut T, CmdError> {
        self.get_mut(number)
            .ok_or(CmdError::new(Status::BadRes, "no such object"))
    }

    /// Notes that another object refers to this one: it cannot be removed until
    /// [`release`](Self::release).
    ///
    /// # Errors
    ///
    /// `BAD_RES` when there is no such object.
    pub fn hold(&mut self, number: u32) -> Result<(), CmdError> {
        let slot = self
            .slots
            .get_mut(&number)
            .ok_or(CmdError::new(Status::BadRes, "no such object"))?;
        slot.users = slot.users.saturating_add(1);
        Ok(())
    }

    /// Undoes one [`hold`](Self::hold). Unknown numbers are ignored.
    pub fn release(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.users = slot.users.saturating_sub(1);
        }
    }

    /// Number of objects that refer to this one.
    pub fn users(&self, number: u32) -> u32 {
        self.slots.get(&number).map_or(0, |slot| slot.users)
    }

    /// Removes an object that nothing refers to.
    ///
    /// # Errors
    ///
    /// `BAD_RES` when there is no such object, `RES_BUSY` when another object refers to it.
    pub fn remove(&mut self, number: u32) -> Result<T, CmdError> {
        if self.users(number) != 0 {
            return Err(CmdError::new(Status::ResBusy, "object is in use"));
        }
        self.slots
            .remove(&number)
            .map(|slot| slot.object)
            .ok_or(CmdError::new(Status::BadRes, "no such object"))
    }

    /// Number of live objects.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no object is alive.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Live objects in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .map(|(number, slot)| (*number, &slot.object))
    }

    /// Live objects in the order of their numbers, for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots
            .iter_mut()
            .map(|(number, slot)| (*number, &mut slot.object))
    }

    /// Drops all objects, whoever refers to them, and starts numbering anew: a device reset.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round_before_they_come_back() {
        let mut t = Table::new("thing", 0x10, 3);
        assert_eq!(t.insert('a').unwrap(), 0x10);
        assert_eq!(t.insert('b').unwrap(), 0x11);
        t.remove(0x10).unwrap();
        assert_eq!(t.insert('c').unwrap(), 0x12);
        assert_eq!(t.insert('d').unwrap(), 0x10);
        assert_eq!(t.insert('e').unwrap_err().status, Status::ExceedLim);
    }

    #[test]
    fn an_object_in_use_stays() {
        let mut t = Table::new("thing", 0, 8);
        let n = t.insert(()).unwrap();
        t.hold(n).unwrap();
        assert_eq!(t.remove(n).unwrap_err().status, Status::ResBusy);
        t.release(n);
        t.remove(n).unwrap();
        assert_eq!(t.remove(n).unwrap_err().status, Status::BadRes);
        assert_eq!(t.hold(n).unwrap_err().status, Status::BadRes);
    }
}
