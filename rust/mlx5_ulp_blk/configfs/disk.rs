// SPDX-License-Identifier: GPL-2.0

//! The folder of a disk.

use super::{
    attribute::*,
    name_of,
    Disks, //
};
// With the prelude, and with `THIS_MODULE`, which `configfs_attrs` looks for in some kernel series.
use crate::*;
use crate::{
    disk::{
        self,
        Core,
        Settings, //
    },
    lifetime::Disk,
    state::State, //
};
use kernel::{
    configfs::{
        self,
        AttributeOperations, //
    },
    configfs_attrs,
    new_condvar,
    new_mutex,
    page::PAGE_SIZE,
    str::{
        kstrtobool_bytes,
        CString,
        Formatter, //
    },
    sync::{
        Arc,
        CondVar,
        Mutex, //
    }, //
};

#[vtable]
impl configfs::GroupOperations for Disks {
    type Child = DiskFolder;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<configfs::Group<DiskFolder>, Error>> {
        let item = configfs_attrs! {
            container: configfs::Group<DiskFolder>,
            data: DiskFolder,
            attributes: [
                device: 0,
                target: 1,
                queues: 2,
                queue_depth: 3,
                reconnect_s: 4,
                power: 5,
                state: 6,
                stats: 7,
                poll_queues: 8,
            ],
        };
        let dev_name = CString::try_from_fmt(fmt!("ulpblk_{}", name_of(name)?.to_str()?))?;
        Ok(configfs::Group::new(
            name.try_into()?,
            item,
            try_pin_init!(DiskFolder {
                inner <- new_mutex!(
                    DiskInner {
                        name: dev_name,
                        device: None,
                        target: None,
                        settings: Settings {
                            queues: 0,
                            poll_queues: 0,
                            depth: 128,
                            reconnect_s: 60,
                        },
                        coming: None,
                        on: None,
                    },
                    "mlx5_ulp_blk_disk"
                ),
                came <- new_condvar!("mlx5_ulp_blk_came"),
            }),
        ))
    }
}

/// The folder of a disk.
#[pin_data]
pub(crate) struct DiskFolder {
    #[pin]
    inner: Mutex<DiskInner>,
    /// Notified when `coming` is `None` again.
    #[pin]
    came: CondVar,
}

struct DiskInner {
    name: CString,
    device: Option<CString>,
    target: Option<CString>,
    settings: Settings,
    /// What is being connected, by a task that does not hold the lock.
    coming: Option<Arc<Core>>,
    on: Option<Disk>,
}

impl DiskInner {
    /// # Errors
    ///
    /// `EBUSY` unless it is off.
    fn off(&self) -> Result {
        only_if(self.on.is_none() && self.coming.is_none())
    }
}

impl DiskFolder {
    /// Has the disk made, if it is not there yet. Sleeps.
    fn bring(&self) -> Result {
        let (core, device) = {
            let mut inner = self.inner.lock();
            while inner.coming.is_some() {
                self.came.wait(&mut inner);
            }
            if inner.on.is_some() {
                return Ok(());
            }
            let device = CString::try_from(&**inner.device.as_ref().ok_or(EINVAL)?)?;
            let target = CString::try_from(&**inner.target.as_ref().ok_or(EINVAL)?)?;
            let core = Core::new(&inner.name, target, inner.settings)?;
            inner.coming = Some(core.clone());
            (core, device)
        };
        let made = Disk::new(core, &device);
        let mut inner = self.inner.lock();
        inner.coming = None;
        self.came.notify_all();
        inner.on = Some(made?);
        Ok(())
    }

    /// Takes the disk away, or gives it up. Sleeps.
    fn take(&self) {
        let mut inner = self.inner.lock();
        while let Some(core) = &inner.coming {
            core.attempts().give_up();
            self.came.wait(&mut inner);
        }
        inner.on = None;
    }
}

setting!(
    DiskFolder,
    0,
    |inner| inner.device,
    |page| Some(string(page)?),
    name
);
setting!(
    DiskFolder,
    1,
    |inner| inner.target,
    |page| Some(string(page)?),
    name
);
setting!(
    DiskFolder,
    2,
    |inner| inner.settings.queues,
    |page| number(page, disk::QUEUES)?,
    plain
);
setting!(
    DiskFolder,
    3,
    |inner| inner.settings.depth,
    |page| number(page, disk::DEPTHS)?,
    plain
);
setting!(
    DiskFolder,
    4,
    |inner| inner.settings.reconnect_s,
    |page| number(page, disk::RECONNECTS)?,
    plain
);
setting!(
    DiskFolder,
    8,
    |inner| inner.settings.poll_queues,
    |page| number(page, disk::POLL_QUEUES)?,
    plain
);

#[vtable]
impl AttributeOperations<5> for DiskFolder {
    type Data = DiskFolder;

    fn show(this: &DiskFolder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show_power(&this.inner.lock().on, page)
    }

    fn store(this: &DiskFolder, page: &[u8]) -> Result {
        match kstrtobool_bytes(page)? {
            true => this.bring()?,
            false => this.take(),
        }
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<6> for DiskFolder {
    type Data = DiskFolder;

    fn show(this: &DiskFolder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let inner = this.inner.lock();
        let state = match inner.on.as_ref().map(Disk::state) {
            None if inner.coming.is_some() => "connecting",
            None => "off",
            Some(State::Live) => "live",
            Some(State::Away) => "away",
            Some(State::Dead) => "dead",
        };
        show(page, fmt!("{state}"))
    }
}

#[vtable]
impl AttributeOperations<7> for DiskFolder {
    type Data = DiskFolder;

    fn show(this: &DiskFolder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let mut writer = Formatter::new(page);
        if let Some(disk) = &this.inner.lock().on {
            disk.show(&mut writer)?;
        }
        Ok(writer.bytes_written())
    }
}
