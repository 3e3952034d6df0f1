// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::cmd;
use crate::device::Hold;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

/// A protection domain: memory keys and queue pairs work together only within one.
pub(crate) struct ProtectionDomain {
    number: u32,
    hold: Hold,
}

impl ProtectionDomain {
    /// Allocates one. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`cmd::exec`](super::cmd::exec).
    pub(crate) fn new(hold: Hold) -> Result<Arc<Self>> {
        let mut number = 0;
        // SAFETY: `hold` keeps the device alive, `number` is a valid place for the answer.
        to_result(unsafe { bindings::mlx5_core_alloc_pd(hold.mdev(), &mut number) })?;
        let this = Self { number, hold };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Its number, 24 bits.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The device it is of.
    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        let destroyed = cmd::destroy(&self.hold, || {
            // SAFETY: The hold keeps the device alive. Whatever uses the domain has a reference to
            // `self`, so nothing does; a call that failed has given nothing back.
            to_result(unsafe { bindings::mlx5_core_dealloc_pd(self.hold.mdev(), self.number) })
        });
        if let Err(e) = destroyed {
            pr_warn!(
                "protection domain {:#x} cannot be given back ({e:?})\n",
                self.number
            );
        }
    }
}
