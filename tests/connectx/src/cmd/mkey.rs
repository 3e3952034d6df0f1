// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of mkeys.

use super::Command;

/// Commands of this file.
pub(super) const COMMANDS: &[Command] = &[];
