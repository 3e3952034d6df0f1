// SPDX-License-Identifier: GPL-2.0

//! The way back: completions.
//!
//! | file | what |
//! |---|---|
//! | [`cqe`], [`syndrome`] | pure: entries and reasons |
//! | [`poll`] | takes entries, retires requests, tells consumers |
//! | [`interrupt`] | polls when the device says so |

use crate::be;

#[allow(dead_code, unreachable_pub)]
pub(crate) mod cqe;
pub(crate) mod interrupt;
pub(crate) mod poll;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod syndrome;
