// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the PCI Express and MSI-X registers of a function or a port say.
//!
//! Bit places are those of the PCI Express Base Specification (`PCI_EXP_*`, `PCI_MSIX_*` in
//! `<uapi/linux/pci_regs.h>`).

/// Registers of the PCI Express capability of one end of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Express {
    /// Device capabilities.
    pub dev_cap: u32,
    /// Device control.
    pub dev_ctl: u16,
    /// Link capabilities.
    pub link_cap: u32,
    /// Link control.
    pub link_ctl: u16,
    /// Link status.
    pub link_sta: u16,
}

impl Express {
    /// Largest payload that it could take, bytes.
    pub fn payload_supported(&self) -> u32 {
        128 << (self.dev_cap & 7)
    }

    /// Largest payload in use, bytes.
    pub fn payload(&self) -> u32 {
        128 << ((self.dev_ctl >> 5) & 7)
    }

    /// Largest read request in use, bytes.
    pub fn read_request(&self) -> u32 {
        128 << ((self.dev_ctl >> 12) & 7)
    }

    /// Generation of the fastest link that it could run.
    pub fn speed_supported(&self) -> u32 {
        self.link_cap & 0xf
    }

    /// Most lanes that it could run.
    pub fn width_supported(&self) -> u32 {
        (self.link_cap >> 4) & 0x3f
    }

    /// Generation of the link as it runs; 0 where the register is not implemented.
    pub fn speed(&self) -> u32 {
        u32::from(self.link_sta & 0xf)
    }

    /// Lanes as they run; 0 where the register is not implemented.
    pub fn width(&self) -> u32 {
        u32::from((self.link_sta >> 4) & 0x3f)
    }

    /// Power-saving states that are allowed: bit 0 L0s, bit 1 L1.
    pub fn aspm(&self) -> u16 {
        self.link_ctl & 3
    }

    /// Read completion boundary, bytes.
    pub fn boundary(&self) -> u32 {
        if self.link_ctl & 8 != 0 {
            128
        } else {
            64
        }
    }
}

/// The MSI-X capability.
#[derive(Clone, Copy, Debug)]
pub struct Msix {
    /// Message control.
    pub control: u16,
    /// Offset of the table, and the BAR it is in.
    pub table: u32,
}

impl Msix {
    /// Vectors in the table.
    pub fn vectors(&self) -> u32 {
        u32::from(self.control & 0x7ff) + 1
    }

    /// Where the table begins in its BAR, bytes.
    pub fn offset(&self) -> u32 {
        self.table & !7
    }
}
