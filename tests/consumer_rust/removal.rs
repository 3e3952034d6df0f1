// SPDX-License-Identifier: GPL-2.0

//! A consumer that closes its device when it is told that this goes, and with it whoever is told.

use crate::ulp::{
    Device,
    Removal, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

const NAME: &CStr = c"mlx5_1";

kernel::sync::global_lock! {
    // SAFETY: `Leaver::new` initializes it, once, before anybody is told.
    unsafe(uninit) static DEVICE: Mutex<Option<Arc<Device>>> = None;
}

/// Closes the device, which is not opened again.
fn close() {
    let device = DEVICE.lock().take();
    drop(device);
}

/// What is told. Only the device has it.
struct Told(&'static CStr);

impl Removal for Told {
    fn removal(&self) {
        close();
        // `self` is there to the end of this call, though the device has given it up.
        pr_info!("{}: closed by the notice of its removal\n", self.0);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        pr_info!("{}: nobody is told any more\n", self.0);
    }
}

/// Keeps the device open, unless that is removed.
pub(crate) struct Leaver(());

impl Leaver {
    /// To be called once.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module calls it once, when it is loaded.
        unsafe { DEVICE.init() };
        let device = Device::open_with_notice(NAME, Arc::new(Told(NAME), GFP_KERNEL)?)?;
        *DEVICE.lock() = Some(device);
        Ok(Self(()))
    }
}

impl Drop for Leaver {
    fn drop(&mut self) {
        close();
    }
}
