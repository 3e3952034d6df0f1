// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of qps.

use super::Command;

/// Commands of this file.
pub(super) const COMMANDS: &[Command] = &[];
