// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory keys.

use crate::table::Table;

/// A memory key.
#[derive(Debug)]
pub struct Mkey {}

/// Memory keys of a function by index.
pub type Mkeys = Table<Mkey>;
