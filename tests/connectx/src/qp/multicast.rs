// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Multicast groups: a datagram to the address of a group goes to every queue pair that is attached to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::caps::{LOG_MAX_MCG, MAX_QP_MCG};
use crate::cmd::{CmdError, CmdResult, Status};
use crate::wire::Gid;

/// Queue pair number that datagrams to a group carry (IBTA 3.5.10).
pub const MULTICAST_QPN: u32 = 0x00ff_ffff;

/// Which queue pairs are attached to which group.
#[derive(Debug, Default)]
pub struct Groups {
    members: BTreeMap<Gid, BTreeSet<u32>>,
}

impl Groups {
    /// Attaches a queue pair; false if it was attached before.
    ///
    /// # Errors
    ///
    /// `EXCEED_LIM` when there are too many groups, or too many queue pairs in this one.
    pub fn attach(&mut self, group: Gid, number: u32) -> CmdResult<bool> {
        let full = match self.members.get(&group) {
            Some(members) => !members.contains(&number) && members.len() >= MAX_QP_MCG as usize,
            None => self.members.len() >= 1 << LOG_MAX_MCG,
        };
        if full {
            return Err(CmdError::new(
                Status::ExceedLim,
                "no room for a multicast group or in one",
            ));
        }
        Ok(self.members.entry(group).or_default().insert(number))
    }

    /// Detaches a queue pair; false if it was not attached.
    pub fn detach(&mut self, group: Gid, number: u32) -> bool {
        let Some(members) = self.members.get_mut(&group) else {
            return false;
        };
        let was = members.remove(&number);
        if members.is_empty() {
            self.members.remove(&group);
        }
        was
    }

    /// The queue pairs of a group.
    pub fn members(&self, group: &Gid) -> Vec<u32> {
        let members = self.members.get(group);
        members.into_iter().flatten().copied().collect()
    }

    /// Number of attachments.
    pub fn len(&self) -> usize {
        self.members.values().map(BTreeSet::len).sum()
    }

    /// Whether nothing is attached to any group.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::net::map_ipv4;

    #[test]
    fn groups_do_not_mix() {
        let mut g = Groups::default();
        let (a, b) = ([0xff; 16], [0xfe; 16]);
        for (group, number) in [(a, 2), (a, 1), (b, 3)] {
            assert_eq!(g.attach(group, number), Ok(true));
        }
        assert_eq!(g.attach(a, 1), Ok(false));
        assert_eq!((g.members(&a), g.members(&b)), (vec![1, 2], vec![3]));
        assert!(g.detach(b, 3) && !g.detach(b, 3) && !g.detach(b, 1));
        assert_eq!((g.members(&b), g.len()), (vec![], 2));
    }

    #[test]
    fn groups_have_their_limits() {
        let mut g = Groups::default();
        for number in 0..MAX_QP_MCG {
            g.attach([0xff; 16], number).unwrap();
        }
        let refused = g.attach([0xff; 16], MAX_QP_MCG).unwrap_err();
        assert_eq!(refused.status, Status::ExceedLim);
        assert_eq!(g.attach([0xff; 16], 0), Ok(false), "a member already");
        let group = |i: u32| map_ipv4((0xef00_0000 + i).to_be_bytes());
        for i in 1..1 << LOG_MAX_MCG {
            g.attach(group(i), 0).unwrap();
        }
        let more = group(0);
        assert_eq!(g.attach(more, 0).unwrap_err().status, Status::ExceedLim);
    }
}
