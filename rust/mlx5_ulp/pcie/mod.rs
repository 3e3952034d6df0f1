// SPDX-License-Identifier: GPL-2.0

//! The PCI Express side of a device: reads what [`audit`] judges.

use crate::{
    device::Hold,
    hw::cq, //
};
use audit::{
    Facts,
    Role, //
};
use mlx5_ulp_bindings as bindings;
use registers::{
    Express,
    Msix, //
};

// Pure files: also compiled on the host.
#[allow(unreachable_pub)]
pub(crate) mod audit;
#[allow(unreachable_pub)]
mod registers;

/// A configuration space that nothing answers from reads as ones.
const ABSENT: u32 = u32::MAX;

/// Everything that can be read about the function of `hold`. Sleeps.
pub(crate) fn facts(hold: &Hold) -> Facts {
    // SAFETY: `hold` keeps the device alive, and with it its PCI function.
    let pdev = unsafe { (*hold.mdev()).pdev };
    // SAFETY: As above.
    let (physical, port) = unsafe {
        (
            bindings::mlx5_ulp_shim_physfn(pdev),
            bindings::mlx5_ulp_shim_upstream(pdev),
        )
    };
    // SAFETY: As above.
    let kind = unsafe { (*hold.mdev()).coredev_type };
    let is_virtual = kind == bindings::mlx5_coredev_type_MLX5_COREDEV_VF;
    let role = match (is_virtual, core::ptr::eq(physical, pdev)) {
        (true, true) => Role::PassedThrough,
        (true, false) => Role::Virtual,
        // SAFETY: As above.
        (false, _) => Role::Physical(unsafe { bindings::pci_num_vf(pdev) } as u16),
    };
    let (_, queues) = hold.counters().sum();
    Facts {
        // SAFETY: As above: the physical function of a virtual one stays as long as that, and
        // the port above is held by its bus.
        function: unsafe { express(physical) },
        // SAFETY: As above.
        port: unsafe { express(port) },
        // SAFETY: As above.
        msix: unsafe { msix(pdev) },
        role,
        vectors_used: cq::vectors(hold).into(),
        // SAFETY: Reads a number.
        cpus: unsafe { bindings::mlx5_ulp_shim_online_cpus() },
        queues: u32::try_from(queues).unwrap_or(u32::MAX),
    }
}

/// Reads the PCI Express capability of a function or a port.
///
/// # Safety
///
/// `pdev` must be null or valid.
unsafe fn express(pdev: *mut bindings::pci_dev) -> Option<Express> {
    if pdev.is_null() {
        return None;
    }
    let word = |at: u32| {
        let mut value = 0u16;
        // SAFETY: The caller guarantees a valid device. What is not there reads as 0.
        unsafe { bindings::pcie_capability_read_word(pdev, at as i32, &mut value) };
        value
    };
    let dword = |at: u32| {
        let mut value = 0u32;
        // SAFETY: As above.
        unsafe { bindings::pcie_capability_read_dword(pdev, at as i32, &mut value) };
        value
    };
    let dev_cap = dword(bindings::PCI_EXP_DEVCAP);
    let link_cap = dword(bindings::PCI_EXP_LNKCAP);
    if dev_cap == ABSENT || link_cap == ABSENT || link_cap == 0 {
        return None;
    }
    Some(Express {
        dev_cap,
        dev_ctl: word(bindings::PCI_EXP_DEVCTL),
        link_cap,
        link_ctl: word(bindings::PCI_EXP_LNKCTL),
        link_sta: word(bindings::PCI_EXP_LNKSTA),
    })
}

/// Reads the MSI-X capability of a function.
///
/// # Safety
///
/// `pdev` must be valid.
unsafe fn msix(pdev: *mut bindings::pci_dev) -> Option<Msix> {
    // SAFETY: The caller guarantees a valid device.
    let at = unsafe { bindings::pci_find_capability(pdev, bindings::PCI_CAP_ID_MSIX as i32) };
    let at = i32::from(at);
    if at == 0 {
        return None;
    }
    let (mut control, mut table) = (0, 0);
    // SAFETY: As above; the capability has these registers.
    unsafe {
        bindings::pci_read_config_word(pdev, at + bindings::PCI_MSIX_FLAGS as i32, &mut control);
        bindings::pci_read_config_dword(pdev, at + bindings::PCI_MSIX_TABLE as i32, &mut table);
    }
    (table != ABSENT).then_some(Msix { control, table })
}
