// SPDX-License-Identifier: GPL-2.0

//! What a human sees of the module: counters, debugfs, sysfs, tracepoints.
//!
//! The data path only ever writes plain per-queue numbers; everything shared, summed or
//! printed happens in the reader.

mod completion_views;
pub(crate) mod counters;
pub(crate) mod debugfs;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod event_log;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
mod histogram;
pub(crate) mod latency;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod opcodes;
pub(crate) mod probes;
mod refusal;
pub(crate) mod sysfs;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod totals;
pub(crate) mod trace;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod trace_filter;
pub(crate) mod trace_log;
