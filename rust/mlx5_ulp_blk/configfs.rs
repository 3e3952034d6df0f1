// SPDX-License-Identifier: GPL-2.0

//! How disks and exports are set up: a folder each, under `/sys/kernel/config/mlx5_ulp_blk` and
//! `/sys/kernel/config/mlx5_ulp_blk_target`. `Documentation/ABI/testing/configfs-mlx5_ulp_blk` has the files
//! one by one.

// With the prelude, and with `THIS_MODULE`, which `configfs_attrs` looks for in some kernel series.
use crate::*;
use crate::{
    disk::{
        self,
        Core,
        Disk,
        Settings,
        State, //
    },
    export::{
        self,
        Published, //
    },
};
use core::ops::RangeInclusive;
use kernel::{
    configfs::{
        self,
        AttributeOperations, //
    },
    configfs_attrs,
    fmt::{
        self,
        Write, //
    },
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

/// Longest name of a folder: with `ulpblk_` before it, it names the disk in `/dev`.
const MAX_NAME: usize = 20;

/// The folder of disks.
#[pin_data]
pub(crate) struct Disks {}
/// The folder of exports.
#[pin_data]
pub(crate) struct Exports {}

/// `/sys/kernel/config/mlx5_ulp_blk`.
pub(crate) fn disks() -> impl PinInit<configfs::Subsystem<Disks>, Error> {
    let item = configfs_attrs! {
        container: configfs::Subsystem<Disks>,
        data: Disks,
        child: DiskFolder,
        attributes: [],
    };
    configfs::Subsystem::new(c"mlx5_ulp_blk", item, try_pin_init!(Disks {}))
}

/// `/sys/kernel/config/mlx5_ulp_blk_target`.
pub(crate) fn exports() -> impl PinInit<configfs::Subsystem<Exports>, Error> {
    let item = configfs_attrs! {
        container: configfs::Subsystem<Exports>,
        data: Exports,
        child: ExportFolder,
        attributes: [],
    };
    configfs::Subsystem::new(c"mlx5_ulp_blk_target", item, try_pin_init!(Exports {}))
}

/// A name of letters, digits, `-` and `_`.
fn name_of(name: &CStr) -> Result<CString> {
    let bytes = name.to_bytes();
    let fits = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_';
    if bytes.len() > MAX_NAME || !bytes.iter().all(fits) {
        return Err(EINVAL);
    }
    Ok(CString::try_from(name)?)
}

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

#[vtable]
impl configfs::GroupOperations for Exports {
    type Child = ExportFolder;

    fn make_group(
        &self,
        name: &CStr,
    ) -> Result<impl PinInit<configfs::Group<ExportFolder>, Error>> {
        let item = configfs_attrs! {
            container: configfs::Group<ExportFolder>,
            data: ExportFolder,
            attributes: [
                device: 0,
                size_mib: 1,
                power: 2,
                port: 3,
                served: 4,
            ],
        };
        let own_name = name_of(name)?;
        Ok(configfs::Group::new(
            name.try_into()?,
            item,
            try_pin_init!(ExportFolder {
                inner <- new_mutex!(
                    ExportInner {
                        name: own_name,
                        device: None,
                        size_mib: 64,
                        port: 0,
                        on: None,
                    },
                    "mlx5_ulp_blk_export"
                ),
            }),
        ))
    }
}

/// The folder of an export.
#[pin_data]
pub(crate) struct ExportFolder {
    #[pin]
    inner: Mutex<ExportInner>,
}

struct ExportInner {
    name: CString,
    device: Option<CString>,
    size_mib: u32,
    port: u32,
    on: Option<Published>,
}

impl ExportInner {
    /// # Errors
    ///
    /// `EBUSY` unless it is off.
    fn off(&self) -> Result {
        only_if(self.on.is_none())
    }
}

/// Shows a value and the end of a line.
fn show(page: &mut [u8; PAGE_SIZE], value: fmt::Arguments<'_>) -> Result<usize> {
    let mut writer = Formatter::new(page);
    writer.write_fmt(value)?;
    writer.write_str("\n")?;
    Ok(writer.bytes_written())
}

/// Shows `power`: whether there is something.
fn show_power<T>(on: &Option<T>, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
    show(page, fmt!("{}", u8::from(on.is_some())))
}

/// What was written, without white space around it.
fn text(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page).map_err(|_| EINVAL)?.trim())
}

/// A name that was written.
fn string(page: &[u8]) -> Result<CString> {
    match text(page)? {
        "" => Err(EINVAL),
        text => Ok(CString::try_from_fmt(fmt!("{text}"))?),
    }
}

/// A number that was written.
fn number(page: &[u8], range: RangeInclusive<u32>) -> Result<u32> {
    let number = text(page)?.parse::<u32>().map_err(|_| EINVAL)?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(ERANGE)
    }
}

/// `EBUSY` unless it is `off`.
fn only_if(off: bool) -> Result {
    off.then_some(()).ok_or(EBUSY)
}

/// A file that may be written while its folder is off.
macro_rules! setting {
    ($folder:ty, $id:literal, |$inner:ident| $field:expr, |$page:ident| $parse:expr, $shown:expr) => {
        #[vtable]
        impl AttributeOperations<$id> for $folder {
            type Data = $folder;

            fn show(this: &$folder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
                let $inner = this.inner.lock();
                let shown = $shown;
                show(page, fmt!("{}", shown(&$field)))
            }

            fn store(this: &$folder, $page: &[u8]) -> Result {
                let value = $parse;
                let mut $inner = this.inner.lock();
                $inner.off()?;
                $field = value;
                Ok(())
            }
        }
    };
}

/// Shows a name that may be missing.
fn name(value: &Option<CString>) -> &str {
    value.as_ref().and_then(|v| v.to_str().ok()).unwrap_or("")
}

/// Shows a number.
fn plain(value: &u32) -> u32 {
    *value
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
setting!(
    ExportFolder,
    0,
    |inner| inner.device,
    |page| Some(string(page)?),
    name
);
setting!(
    ExportFolder,
    3,
    |inner| inner.port,
    |page| number(page, export::PORTS)?,
    plain
);
setting!(
    ExportFolder,
    1,
    |inner| inner.size_mib,
    |page| number(page, export::SIZES_MIB)?,
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

#[vtable]
impl AttributeOperations<2> for ExportFolder {
    type Data = ExportFolder;

    fn show(this: &ExportFolder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        show_power(&this.inner.lock().on, page)
    }

    fn store(this: &ExportFolder, page: &[u8]) -> Result {
        let inner = &mut *this.inner.lock();
        if !kstrtobool_bytes(page)? {
            inner.on = None;
        } else if inner.on.is_none() {
            let device = inner.device.as_ref().ok_or(EINVAL)?;
            let name = CString::try_from(&*inner.name)?;
            let published = Published::new(name, device, inner.size_mib, inner.port as u16)?;
            inner.on = Some(published);
        }
        Ok(())
    }
}

#[vtable]
impl AttributeOperations<4> for ExportFolder {
    type Data = ExportFolder;

    fn show(this: &ExportFolder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let served = this.inner.lock().on.as_ref().map_or(0, Published::serves);
        show(page, fmt!("{served}"))
    }
}
