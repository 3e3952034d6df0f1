// SPDX-License-Identifier: GPL-2.0

//! The way back: completions.
//!
//! | file | what |
//! |---|---|
//! | [`cqe`], [`compressed`], [`syndrome`] | pure: entries and reasons |
//! | [`moderation`] | pure: which mode, and what to do after a look |
//! | [`turn`] | whose turn it is to complete, and what only he touches |
//! | [`poll`] | takes entries, retires requests, tells consumers |
//! | [`occasions`] | who completes beside the interrupt |
//! | [`run`] | entries that come as expected |
//! | [`unusual`] | entries that are not a plain success |
//! | [`moderator`] | the mode of a queue: what follows a look, what the device is told |
//! | [`interrupt`] | looks when the device says so, and for a while after |

use crate::be;

#[allow(dead_code, unreachable_pub)]
pub(crate) mod compressed;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod cqe;
pub(crate) mod interrupt;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod moderation;
pub(crate) mod moderator;
mod occasions;
mod poll;
mod receive;
mod run;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod syndrome;
pub(crate) mod turn;
mod unusual;
