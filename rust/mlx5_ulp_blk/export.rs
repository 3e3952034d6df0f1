// SPDX-License-Identifier: GPL-2.0

//! The target's half: memory that peers may read and write.

use crate::{
    connector,
    greeting::Peer,
    serve::Listener,
    ulp::{
        Access,
        Device,
        Queue,
        Region, //
    },
    work_item::NoIo, //
};
use core::ops::RangeInclusive;
use kernel::{
    bindings::get_random_u64,
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// Ports; 0 for none.
pub(crate) const PORTS: RangeInclusive<u32> = 0..=65535;
/// Size of an export, MiB. The key names each page, in one command to the device.
pub(crate) const SIZES_MIB: RangeInclusive<u32> = 1..=1024;

kernel::sync::global_lock! {
    // SAFETY: `init` is called when the module is loaded.
    unsafe(uninit) static EXPORTS: Mutex<KVec<Arc<Export>>> = KVec::new();
}

/// To be called once, before anything else here.
pub(crate) fn init() {
    // SAFETY: The module calls it once, before it registers what leads here.
    unsafe { EXPORTS.init() };
}

/// Memory for peers.
pub(crate) struct Export {
    name: CString,
    memory: Region<KVVec<u8>>,
    incarnation: u64,
    device: Arc<Device>,
}

impl Export {
    /// A queue that a peer may be connected with. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ENOMEM`, or what the firmware answered.
    pub(crate) fn serving_queue(&self) -> Result<Queue> {
        Queue::new(&self.device, connector::SERVING)
    }

    /// What a peer has to know.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            address: self.memory.address(),
            bytes: self.memory.len() as u64,
            rkey: self.memory.key(),
            incarnation: self.incarnation,
        }
    }
}

/// An export that can be found, until this is dropped. Then its memory is gone.
pub(crate) struct Published {
    // Nobody is served any more when the memory goes.
    listener: Option<Listener>,
    export: Arc<Export>,
}

impl Published {
    /// `size_mib` MiB of zeroes on `device`; peers find it at `port`, unless that is 0. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such device, `EADDRINUSE` if the port is taken, `ENOMEM`, or what the firmware
    /// answered.
    pub(crate) fn new(name: CString, device: &CStr, size_mib: u32, port: u16) -> Result<Self> {
        let device = Device::open(device)?;
        let memory = KVVec::from_elem(0, (size_mib as usize) << 20, GFP_KERNEL)?;
        let rights = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
        let export = Arc::new(
            Export {
                name,
                memory: Region::new(&device, memory, rights)?,
                // SAFETY: May be called at any time.
                incarnation: unsafe { get_random_u64() },
                device,
            },
            GFP_KERNEL,
        )?;
        let listener = match port {
            0 => None,
            port => Some(Listener::new(export.clone(), port)?),
        };
        // Who waits for the lock may be what brings a disk back that memory is to be written to.
        let no_io = NoIo::new();
        EXPORTS.lock().push(export.clone(), GFP_KERNEL)?;
        drop(no_io);
        Ok(Self { listener, export })
    }

    /// How many queues of disks it serves by way of its port. Sleeps.
    pub(crate) fn serves(&self) -> usize {
        self.listener.as_ref().map_or(0, Listener::serves)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let mut exports = EXPORTS.lock();
        exports.retain(|export| !Arc::ptr_eq(export, &self.export));
        if exports.is_empty() {
            // Nothing is left when the module goes.
            *exports = KVec::new();
        }
    }
}

/// The export with a name.
pub(crate) fn find(name: &CStr) -> Option<Arc<Export>> {
    let exports = EXPORTS.lock();
    exports.iter().find(|export| &*export.name == name).cloned()
}
