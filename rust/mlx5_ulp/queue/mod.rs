// SPDX-License-Identifier: GPL-2.0

//! Send queues.
//!
//! | file | what |
//! |---|---|
//! | [`ring`], [`credit`], [`in_flight`] | pure: slots, room, what has not completed |
//! | [`slots`] | the ring's memory: the only stores into it |
//! | [`request`] | the consumer's side of a request: the only calls back |
//! | [`send`] | posting: reserve, fill, commit, ring |
//! | [`queue`] | life of a queue: create, connect, drain, shut down |
//!
//! The way back is in [`crate::cq`].

use crate::wqe;

// What an issue later uses stays compiled and tested until then.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod credit;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod in_flight;
#[expect(clippy::module_inception)]
pub(crate) mod queue;
pub(crate) mod request;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod ring;
pub(crate) mod send;
mod slots;
