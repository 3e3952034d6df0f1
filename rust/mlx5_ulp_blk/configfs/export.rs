// SPDX-License-Identifier: GPL-2.0

//! The folder of an export.

use super::{
    attribute::*,
    name_of,
    Exports, //
};
// With the prelude, and with `THIS_MODULE`, which `configfs_attrs` looks for in some kernel series.
use crate::export::{
    self,
    Published, //
};
use crate::*;
use kernel::{
    configfs::{
        self,
        AttributeOperations, //
    },
    configfs_attrs,
    new_mutex,
    page::PAGE_SIZE,
    str::{
        kstrtobool_bytes,
        CString, //
    },
    sync::Mutex, //
};

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
