// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Event queues as the driver sees them.

use connectx::{field, ifc, size};

use super::{command, push_pages, Side};

/// An event queue as the driver sees it.
#[derive(Default)]
pub struct Eq {
    pub eqn: u32,
    base: u64,
    ci: u32,
}

const EQ_LOG_SIZE: u32 = 8;
/// Event type: a connection is established.
const ESTABLISHED: u8 = 0x02;

impl Side {
    /// An event queue for a mask of event types.
    pub fn create_eq(&mut self, mask: u64) -> Eq {
        let base = self.alloc(64 << EQ_LOG_SIZE);
        // The driver gives all entries to the hardware first.
        for i in 0..1 << EQ_LOG_SIZE {
            self.write(base + i * 64 + 63, &[1]);
        }
        let mut input = command(0x301, size!(mlx5_ifc_create_eq_in_bits));
        let mut set = |field, value| ifc::set(&mut input, field, value);
        set(
            field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.log_eq_size),
            EQ_LOG_SIZE,
        );
        set(
            field!(mlx5_ifc_create_eq_in_bits, eq_context_entry.uar_page),
            self.uar,
        );
        let at = field!(mlx5_ifc_create_eq_in_bits, event_bitmask).byte_offset();
        input[at..at + 8].copy_from_slice(&mask.to_be_bytes());
        let pages = (64u64 << EQ_LOG_SIZE).div_ceil(4096);
        push_pages(&mut input, base, pages);
        let out = self.cmd(&input, 0x10).expect("CREATE_EQ");
        Eq {
            eqn: ifc::get(&out, field!(mlx5_ifc_create_eq_out_bits, eq_number)),
            base,
            ci: 0,
        }
    }

    /// The next event: its type and the number that it is about.
    fn next_event(&mut self, which: fn(&mut Side) -> &mut Eq) -> Option<(u8, u32)> {
        let eq = which(self);
        let (base, ci) = (eq.base, eq.ci);
        let entry = self.read(base + u64::from(ci & 0xff) * 64, 64);
        if u32::from(entry[63] & 1) != (ci >> EQ_LOG_SIZE) & 1 {
            return None;
        }
        which(self).ci += 1;
        let kind = entry[1];
        let at = if kind == 4 { 0x20 } else { 0x38 };
        let number = u32::from_be_bytes(entry[at..at + 4].try_into().unwrap());
        Some((kind, number & 0xff_ffff))
    }

    pub fn next_async(&mut self) -> Option<(u8, u32)> {
        self.next_event(|side| &mut side.async_eq)
    }

    /// The next event that is not about a connection coming up.
    pub fn next_news(&mut self) -> Option<(u8, u32)> {
        std::iter::from_fn(|| self.next_async()).find(|(kind, _)| *kind != ESTABLISHED)
    }

    pub fn next_completion(&mut self) -> Option<u32> {
        self.next_event(|side| &mut side.completion_eq)
            .map(|(_, cqn)| cqn)
    }
}
