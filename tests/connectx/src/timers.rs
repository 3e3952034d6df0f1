// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Deadlines of numbered objects.

use std::collections::{BTreeSet, HashMap};

/// At most one deadline per object, in nanoseconds of the function's clock.
#[derive(Debug, Default)]
pub struct Timers {
    by_time: BTreeSet<(u64, u32)>,
    by_object: HashMap<u32, u64>,
}

impl Timers {
    /// Sets the deadline of an object, in place of an earlier one, or removes it.
    pub fn set(&mut self, object: u32, deadline: Option<u64>) {
        let old = match deadline {
            Some(time) => self.by_object.insert(object, time),
            None => self.by_object.remove(&object),
        };
        if old == deadline {
            return;
        }
        if let Some(time) = old {
            self.by_time.remove(&(time, object));
        }
        if let Some(time) = deadline {
            self.by_time.insert((time, object));
        }
    }

    /// Takes out an object whose deadline is not after `now`, the one that is longest due first.
    pub fn pop_due(&mut self, now: u64) -> Option<u32> {
        let (time, object) = *self.by_time.first()?;
        if time > now {
            return None;
        }
        self.set(object, None);
        Some(object)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Forgets all deadlines.
    pub fn clear(&mut self) {
        self.by_time.clear();
        self.by_object.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_deadline_per_object_in_order_of_time() {
        let mut t = Timers::default();
        t.set(1, Some(30));
        t.set(2, Some(20));
        t.set(1, Some(10));
        t.set(3, Some(15));
        t.set(3, None);
        assert_eq!(t.next(), Some(10));
        assert_eq!(t.pop_due(9), None);
        assert_eq!(t.pop_due(25), Some(1));
        assert_eq!(t.pop_due(25), Some(2));
        assert_eq!(t.pop_due(u64::MAX), None);
        assert_eq!(t.next(), None);
    }
}
