// SPDX-License-Identifier: GPL-2.0

//! Send queues.
//!
//! | file | what |
//! |---|---|
//! | [`shape`], [`ring`], [`credit`], [`in_flight`] | pure: sizes, slots, room, what has not completed |
//! | [`slots`] | the ring's memory: the only stores into it |
//! | [`poster`] | the posting side, and who may use it |
//! | [`request`] | the consumer's side of a request: the only calls back |
//! | [`send`] | the data path's state: attach, open, fail, close |
//! | [`post`] | reserve, fill, commit |
//! | [`one`] | the same for one WRITE with its payload inline, silent, or with a hint |
//! | [`works`], [`keys`] | posting requests of any kind; those that change keys |
//! | [`encode`], [`merged`] | requests become WQEs |
//! | [`doorbell`] | ring, now or later |
//! | [`receive`] | room for messages of the peer |
//! | [`room`] | reserve it, tell of it |
//! | [`report`] | have silent requests reported |
//! | [`queue`] | life of a queue: create, drain, shut down |
//! | [`connect`], [`verbs`] | how it comes to a peer, and leaves it |
//!
//! The way back is in [`crate::cq`].

use crate::wqe;

pub(crate) mod connect;
// The host tests, which compile these files, too, use more of them.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod credit;
mod doorbell;
mod encode;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod in_flight;
mod keys;
mod merged;
mod one;
mod post;
mod poster;
#[expect(clippy::module_inception)]
pub(crate) mod queue;
pub(crate) mod receive;
mod report;
pub(crate) mod request;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod ring;
pub(crate) mod room;
pub(crate) mod send;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod shape;
mod slots;
mod verbs;
mod works;
