// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shared receive queues: SRQ, XRC SRQ and RMP share one number space and one table.

use crate::table::Table;

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {}

/// Shared receive queues of a function.
pub type Srqs = Table<Srq>;
