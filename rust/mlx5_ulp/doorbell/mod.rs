// SPDX-License-Identifier: GPL-2.0

//! Telling the HCA that there is work.
//!
//! [`policy`] decides when, [`register`] does it. The record in memory and the register in the BAR
//! are objects of [`crate::hw`].

#[allow(dead_code, unreachable_pub)]
pub(crate) mod policy;
pub(crate) mod register;
