// SPDX-License-Identifier: GPL-2.0

//! Names of queues, and how they are found.
//!
//! A consumer may name a queue by the function that it serves and a number of its own choice
//! ([`key::Name`]); a completion names it by QPN ([`key::Number`]). Both lead to a slot of one [`table`],
//! and in front of each direction stands a [`cache`]. [`registry`] puts them together for a device.
//!
//! | file | what |
//! |---|---|
//! | [`key`], [`index`], [`table`], [`cache`], [`stats`] | pure: keys, where they lead, and what was counted |
//! | [`registry`] | the queues of a device |
//! | [`tally`] | counts by CPU |
//!
//! # Who may do what
//!
//! Looking up takes no lock and is allowed in any context, hard interrupts included: it never waits for
//! somebody else to be scheduled. Changes go through [`table::Writer`], of which there is one at a time.
//!
//! # Why a stale answer is impossible
//!
//! The truth about slot `i` is one 64-bit word ([`key::Entry`]): name, QPN and a generation, stored and
//! loaded as a whole. Everything else, the sorted index as well as the cache, only proposes a slot. Each
//! lookup ends with an `Acquire` load of the slot's word and a comparison of the key, so whatever a
//! proposal was worth when it was made, what is answered is what stands in the slot at that moment:
//!
//! * [`table::Writer::remove`] overwrites the word first. A lookup that loads it later finds no key in
//!   it, however many hints still point there. There is no window in which a late fill of the cache
//!   revives a queue, and nothing to flush.
//! * A slot is taken again only after [`table::Writer::recycle`], which the owner calls when no reader
//!   can still use what it found (in the kernel: after an RCU grace period). The word it then gets
//!   differs at least in its generation, so a [`key::Token`] kept too long is told from a fresh one
//!   ([`table::Table::is_current`]).
//! * [`table::Writer::insert`] stores the word with `Release`. What the owner prepared for the queue
//!   before the call is visible to whoever finds it.

use core::sync::atomic;

use crate::observe::totals::Counter;

#[allow(dead_code, unreachable_pub)]
pub(crate) mod cache;
#[allow(dead_code, unreachable_pub)]
mod index;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod key;
pub(crate) mod registry;
#[allow(dead_code, unreachable_pub)]
mod stats;
#[allow(dead_code, unreachable_pub)]
mod table;
mod tally;
