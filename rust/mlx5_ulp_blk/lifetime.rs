// SPDX-License-Identifier: GPL-2.0

//! How a disk comes and goes.

use crate::{
    channel::Still,
    disk::Core,
    dispatch::{
        FLUSH_BYTES,
        RANGES, //
    },
    errno::eopnotsupp,
    gendisk::{
        GenDisk,
        Quiesced, //
    },
    io::MAX_SEGMENTS,
    state::State,
    ulp::{
        Access,
        Device,
        Region,
        Removal, //
    }, //
};
use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

impl Removal for Core {
    fn removal(&self) {
        self.condition.die();
        self.attempts().give_up();
        // Whoever is making the disk may be asking the device for its limits; who begins later makes no connection. None
        // of those who have the lock closes the device: `Disk::drop` does it without.
        drop(self.control.lock());
        let disk = self.gendisk();
        if !disk.is_null() {
            // Nobody maps memory for the device after this.
            // SAFETY: `Disk::drop` closes the device, which waits for this call, before it puts the disk.
            drop(unsafe { Quiesced::new(disk) });
        }
        self.work.after(0);
    }
}

/// A disk that is in `/dev`, until it is dropped.
pub(crate) struct Disk(Arc<Core>);

impl Disk {
    /// Connects with the target and makes `/dev/<name>`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if that is given up by [`Core::attempts`], `ENODEV` if there is no such device, `EOPNOTSUPP` if it takes too few data ranges for a request;
    /// those of the connector.
    pub(crate) fn new(core: Arc<Core>, device: &CStr) -> Result<Self> {
        // From here on, `drop` undoes what is done.
        let this = Self(core.clone());
        let device = Device::open_with_notice(device, core.clone())?;
        let limits = device.limits();
        if limits.max_sge.min(limits.max_read_sge) < RANGES as u32 {
            return Err(eopnotsupp());
        }
        let memory = KVec::from_elem(0, FLUSH_BYTES as usize, GFP_KERNEL)?;
        let scratch = Region::new(&device, memory, Access::LOCAL_WRITE)?;
        let dma_device = device.dma_device().ok_or(ENODEV)?.as_ptr();
        core.set_local(device.local_key(), dma_device, &scratch);

        let mut control = core.control.lock();
        control.scratch = Some(scratch);
        control.device = Some(device);
        let (links, peer) = core.connect(&control)?;
        core.set_peer(&peer);
        control.peer = Some(peer);
        // SAFETY: `drop` puts the disk before the last reference to `core` goes. The device was not closed, and its
        // removal notice, up to which `dma_device` is valid, waits for the lock if it has not come before the
        // connections were made; then there would be none.
        let mut disk = unsafe { GenDisk::alloc(&core, &core.tags, dma_device, MAX_SEGMENTS)? };
        {
            // SAFETY: The disk was just made, and is dropped behind this block.
            let quiesced = unsafe { Quiesced::new(disk.as_ptr()) }.ok_or(ENODEV)?;
            // SAFETY: `control` is the lock of this disk, and `quiesced` is of it, too.
            let still = unsafe { Still::new(core.channels(), &quiesced) };
            for (channel, link) in core.channels().iter().zip(links) {
                // SAFETY: The channel is one of this disk, and comes here once.
                unsafe { channel.replace(&still, Some(link)) };
            }
        }
        core.set_gendisk(disk.as_ptr());
        drop(control);
        // It reads partitions, which may take recovery, which takes the lock.
        let added = disk.add(core.name(), peer.bytes);
        core.control.lock().disk = Some(disk);
        added?;
        if core.state() == State::Dead {
            // Since before it was added; now whoever uses it can be told.
            core.work.after(0);
        }
        Ok(this)
    }

    /// Whether it works.
    pub(crate) fn state(&self) -> State {
        self.0.state()
    }

    /// What it has done.
    pub(crate) fn show(&self, f: &mut impl fmt::Write) -> fmt::Result {
        self.0.show(f)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let core = &*self.0;
        // Nobody waits for a peer that is away, now or soon: recovery gives the disk up.
        core.attempts().give_up();
        core.work.after(0);
        let disk = core.control.lock().disk.take();
        let disk = disk.map(|mut disk| {
            disk.delete();
            disk
        });
        core.work.disable();
        core.lookout.end();

        let (device, scratch) = {
            let mut control = core.control.lock();
            core.disconnect(&mut control);
            control.quiesced = None;
            (control.device.take(), control.scratch.take())
        };
        drop(scratch);
        // Waits for a removal notice, which looks at the disk.
        drop(device);
        drop(disk);
    }
}
