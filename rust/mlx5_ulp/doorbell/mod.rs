// SPDX-License-Identifier: GPL-2.0

//! Telling the HCA that there is work.
//!
//! [`policy`] decides when, by what [`sample`] measures among other things, [`blueflame`] whether the WQE comes
//! along, [`register`] does it; [`pending`], [`hold`] and [`timer`] see to it that nothing waits too long. The
//! record in memory and the register in the BAR are objects of [`crate::hw`].

#[allow(dead_code, unreachable_pub)]
pub(crate) mod blueflame;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod hold;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod pending;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod policy;
pub(crate) mod register;
#[allow(dead_code, unreachable_pub)]
pub(crate) mod sample;
pub(crate) mod timer;

// What `pending` is built with; its tests have others.
use crate::hw::barrier::smp_mb as full_barrier;
use core::sync::atomic;

/// How the doorbell is to be rung.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoorbellConfig {
    /// When.
    pub(crate) mode: policy::Mode,
    /// WQEs of a batch in [`policy::Mode::Batch`].
    pub(crate) batch: u32,
    /// Most WQEs of a batch in [`policy::Mode::Adaptive`].
    pub(crate) max_batch: u32,
    /// Longest time that a WQE waits, microseconds.
    pub(crate) max_hold_us: u32,
}
