// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/mlx5_ulp/`: a folder per device, a folder per queue in it.
//!
//! Removing a file waits for those who are reading it, and readers take no lock of the data path.

use super::{
    completion_views,
    opcodes::MANY_ATOMICS,
    trace_log::TraceLog, //
};
use crate::{
    device::{
        Device,
        Hold, //
    },
    pcie::{
        audit::audit,
        facts, //
    }, //
};
use kernel::{
    bindings,
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// Name of the module's folder.
const ROOT: &CStr = c"mlx5_ulp";

/// The module's folder.
pub(crate) struct Root(Dir);

impl Root {
    /// Makes it.
    pub(crate) fn new() -> Self {
        Self(Dir::new(ROOT))
    }
}

/// The folder of a device, removed when dropped.
pub(crate) struct DeviceDir {
    // Files before their folder.
    _doorbells: Pin<KBox<File<Arc<Device>>>>,
    _wqe: Pin<KBox<File<Arc<Device>>>>,
    _pcie: Pin<KBox<File<Arc<Device>>>>,
    _cq: Pin<KBox<File<Arc<Device>>>>,
    _qid_cache: Pin<KBox<File<Arc<Device>>>>,
    _latency: Pin<KBox<File<Arc<Device>>>>,
    _reset: Pin<KBox<File<Arc<Device>>>>,
    _trace: Pin<KBox<File<TraceLog>>>,
    queues: Dir,
    _dir: Dir,
}

impl DeviceDir {
    /// Makes it under the device's name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. If debugfs itself fails that goes unnoticed, as everywhere.
    pub(crate) fn new(root: &Root, device: &Arc<Device>) -> Result<Self> {
        let dir = root.0.subdir(&device.name()?);
        Ok(Self {
            _doorbells: KBox::pin_init(
                dir.read_callback_file(c"doorbells", device.clone(), &doorbells),
                GFP_KERNEL,
            )?,
            _wqe: KBox::pin_init(
                dir.read_callback_file(c"wqe", device.clone(), &wqe),
                GFP_KERNEL,
            )?,
            _pcie: KBox::pin_init(
                dir.read_callback_file(c"pcie", device.clone(), &pcie),
                GFP_KERNEL,
            )?,
            _cq: KBox::pin_init(
                dir.read_callback_file(c"cq", device.clone(), &completion_views::cq),
                GFP_KERNEL,
            )?,
            _qid_cache: KBox::pin_init(
                dir.read_callback_file(c"qid_cache", device.clone(), &completion_views::qid_cache),
                GFP_KERNEL,
            )?,
            _latency: KBox::pin_init(
                dir.read_callback_file(c"latency", device.clone(), &completion_views::latency),
                GFP_KERNEL,
            )?,
            _reset: KBox::pin_init(
                dir.write_callback_file(c"reset", device.clone(), &completion_views::reset),
                GFP_KERNEL,
            )?,
            _trace: KBox::pin_init(
                dir.read_write_callback_file(
                    c"trace",
                    TraceLog::new(device)?,
                    &TraceLog::show,
                    &TraceLog::store,
                ),
                GFP_KERNEL,
            )?,
            queues: dir.subdir(c"queues"),
            _dir: dir,
        })
    }

    /// The folder of its queues, for [`Device`] to hand to them.
    pub(crate) fn queues(&self) -> Dir {
        self.queues.clone()
    }
}

/// Sums over all queues since the device was attached.
fn doorbells(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (sum, queues) = device.counters().sum();
    f.write_fmt(fmt!("queues {queues}\n"))?;
    for (name, value) in sum.named() {
        f.write_fmt(fmt!("{name} {value}\n"))?;
    }
    let share = sum.mix.atomics_share();
    let (whole, part) = (share / 100, share % 100);
    f.write_fmt(fmt!(
        "atomics {}\natomics_percent {whole}.{part:02}\n",
        sum.mix.atomics()
    ))?;
    if sum.mix.has_many_atomics() {
        f.write_fmt(fmt!(
            "warning more than {MANY_ATOMICS} % of the requests are atomics: the peer carries them out one after \
             the other, and few can be under way; see opcodes in the file latency\n"
        ))?;
    }
    Ok(())
}

/// What the device had to fetch to get at the WQEs, in all and for each WQE and request.
fn wqe(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (sum, _) = device.counters().sum();
    let values = sum.wqes();
    for (name, value) in values {
        f.write_fmt(fmt!("{name} {value}\n"))?;
    }
    let [(_, requests), _, (_, wqes), _, _, (_, lines), (_, bytes)] = values;
    for (name, sum, count) in [
        ("cache_lines_per_wqe", lines, wqes),
        ("bytes_per_wqe", bytes, wqes),
        ("bytes_per_request", bytes, requests),
    ] {
        // In hundredths; nothing for nothing.
        let each = sum.saturating_mul(100).checked_div(count).unwrap_or(0);
        let (whole, part) = (each / 100, each % 100);
        f.write_fmt(fmt!("{name} {whole}.{part:02}\n"))?;
    }
    Ok(())
}

/// The PCI Express audit; empty while the device is being removed.
fn pcie(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Ok(hold) = device.hold() else {
        return Ok(());
    };
    for finding in audit(&facts(&hold)) {
        writeln!(f, "{finding}")?;
    }
    Ok(())
}

/// Renames the folder of a device.
pub(crate) fn rename(from: &CStr, to: &CStr) {
    // SAFETY: The names are valid strings, and a null parent is the root of debugfs. What
    // `debugfs_lookup` returns is null or a reference, which is given back.
    unsafe {
        let root = bindings::debugfs_lookup(ROOT.as_char_ptr(), core::ptr::null_mut());
        if root.is_null() {
            return;
        }
        let dir = bindings::debugfs_lookup(from.as_char_ptr(), root);
        if !dir.is_null() {
            bindings::debugfs_change_name(dir, c"%s".as_char_ptr(), to.as_char_ptr());
            bindings::dput(dir);
        }
        bindings::dput(root);
    }
}

/// What a queue tells about itself.
pub(crate) trait QueueReport: Send + Sync {
    /// Writes the file `state`. May sleep; must not wait for the data path.
    fn state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The folder of a queue, removed when dropped.
pub(crate) struct QueueDir {
    _state: Pin<KBox<File<Arc<dyn QueueReport>>>>,
    _dir: Dir,
    _hold: Hold,
}

impl QueueDir {
    /// Makes `queues/<qpn>` with what `report` has to tell.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` if the device is being removed.
    pub(crate) fn new(hold: Hold, qpn: u32, report: Arc<dyn QueueReport>) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("{qpn:#x}"))?;
        let dir = hold.queues_dir()?.subdir(&name);
        Ok(Self {
            _state: KBox::pin_init(
                dir.read_callback_file(c"state", report, &queue_state),
                GFP_KERNEL,
            )?,
            _dir: dir,
            _hold: hold,
        })
    }
}

/// The file `state` of a queue.
fn queue_state(report: &Arc<dyn QueueReport>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    report.state(f)
}
