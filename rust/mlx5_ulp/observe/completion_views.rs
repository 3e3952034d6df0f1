// SPDX-License-Identifier: GPL-2.0

//! What the completion side shows in debugfs: `cq`, `qid_cache`, `latency`; and `reset`.

use crate::device::Device;
use kernel::{
    fmt,
    prelude::*,
    sync::Arc,
    uaccess::UserSliceReader, //
};

/// The file `cq`: settings, counts over all queues, and a line for each queue.
pub(super) fn cq(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_fmt(format_args!("settings {}\n", device.params().moderation()))?;
    f.write_fmt(fmt!(
        "compression {}\n",
        if device.caps().cqe_compression {
            "on"
        } else {
            "not offered by the device"
        }
    ))?;
    let (sum, queues) = device.counters().sum();
    f.write_fmt(fmt!("queues {queues}\n"))?;
    for (name, value) in [
        ("completed", sum.completed),
        ("cqes", sum.entries),
        ("compressed_blocks", sum.blocks),
        ("invalid_cqes", sum.invalid),
        ("interrupts", sum.events),
        ("polls", sum.polls),
        ("arms", sum.arms),
        ("mode_switches", sum.switches),
    ] {
        f.write_fmt(fmt!("{name} {value}\n"))?;
    }
    device.counters().completions(f)
}

/// The file `qid_cache`.
pub(super) fn qid_cache(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_fmt(fmt!("{}", device.registry().report()))
}

/// The file `latency`.
pub(super) fn latency(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (sum, _) = device.counters().sum();
    device
        .latency()
        .show(&sum.mix, device.counters().age_ms(), f)
}

/// The file `reset`: whatever is written, the sums of the device's views start from zero.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn reset(device: &Arc<Device>, _reader: &mut UserSliceReader) -> Result {
    device.reset_views()
}
