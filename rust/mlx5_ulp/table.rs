// SPDX-License-Identifier: GPL-2.0

//! Tables that are made once and then keep their size.

use kernel::prelude::*;

/// `n` times the default. Sleeps.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn of_defaults<T: Default>(n: usize) -> Result<KVVec<T>> {
    let mut table = KVVec::with_capacity(n, GFP_KERNEL)?;
    for _ in 0..n {
        table.push(T::default(), GFP_KERNEL)?;
    }
    Ok(table)
}
