// SPDX-License-Identifier: GPL-2.0

//! How disks and exports are set up: a folder each, under `/sys/kernel/config/mlx5_ulp_blk` and
//! `/sys/kernel/config/mlx5_ulp_blk_target`. `Documentation/ABI/testing/configfs-mlx5_ulp_blk` has the files
//! one by one.

// With the prelude, and with `THIS_MODULE`, which `configfs_attrs` looks for in some kernel series.
use crate::*;
use disk::DiskFolder;
use export::ExportFolder;
use kernel::{
    configfs,
    configfs_attrs,
    str::CString, //
};

mod attribute;
mod disk;
mod export;

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
