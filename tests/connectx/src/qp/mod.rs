// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs.

use crate::hca::Hca;
use crate::table::Table;
use crate::uar::Doorbell;

/// A queue pair.
#[derive(Debug)]
pub struct Qp {}

/// Queue pairs of a function. SQs and RQs of the netdev have number ranges of their own.
pub type Qps = Table<Qp>;

/// A send doorbell for a QP that exists.
pub fn doorbell(_hca: &mut Hca, _doorbell: Doorbell) {}

/// A RoCE frame from the wire.
pub fn receive(_hca: &mut Hca, _frame: &[u8]) {}

/// Executes up to `budget` steps (WQEs or packets) of QPs that have work; true if work is left
/// that could be done at once.
pub fn run(_hca: &mut Hca, _budget: u32) -> bool {
    false
}

/// When [`run`] must be called next (retry and RNR timers, polling of QPs in error).
pub fn next_deadline(_hca: &Hca) -> Option<u64> {
    None
}

/// Counters per QP for the control socket.
pub fn counters(_hca: &Hca) -> serde_json::Value {
    serde_json::json!({})
}
