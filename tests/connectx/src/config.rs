// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a function is: given on the command line, unchanged by a reset.

use crate::pci::Settings;
use crate::timing::Timing;
use crate::wire::Mac;

/// Whether the driver of a function takes it for a physical or a virtual function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Physical function, PCI device id 0x101d (ConnectX-6 Dx).
    Pf,
    /// Virtual function, PCI device id 0x101e.
    Vf,
}

impl Kind {
    /// PCI device id; `mlx5_core` tells physical from virtual functions by it.
    pub fn device_id(self) -> u16 {
        match self {
            Kind::Pf => 0x101d,
            Kind::Vf => 0x101e,
        }
    }
}

/// Settings of one function.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Position on the command line, from 0.
    pub index: u16,
    /// Physical or virtual.
    pub kind: Kind,
    /// Permanent MAC address; GUIDs derive from it.
    pub mac: Mac,
    /// Fill reserved fields of everything the device writes with random bytes, from this seed.
    pub scramble: Option<u64>,
    /// Pages of 4 KiB that the firmware asks for at boot and at initialization.
    pub pages: PageRequest,
    /// How long the stages of a send take.
    pub timing: Timing,
    /// How the function is set up on its bus.
    pub pci: Settings,
    /// How long its driver is told to wait for the answer to a command, in seconds; `None` leaves it the driver's default.
    pub command_timeout: Option<u32>,
}

/// Pages the firmware asks for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Answer to QUERY_PAGES for boot.
    pub boot: u32,
    /// Answer to QUERY_PAGES for initialization.
    pub init: u32,
    /// Fill given pages with a pattern and verify it when they are taken back.
    pub canary: bool,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            boot: 16,
            init: 240,
            canary: false,
        }
    }
}

impl FunctionConfig {
    /// A function with default settings.
    pub fn new(index: u16, kind: Kind) -> Self {
        let [hi, lo] = index.to_be_bytes();
        Self {
            index,
            kind,
            mac: [0x02, 0xc9, 0x00, 0x00, hi, lo.wrapping_add(1)],
            scramble: None,
            pages: PageRequest::default(),
            timing: Timing::default(),
            pci: Settings::default(),
            command_timeout: None,
        }
    }

    /// Name in logs and answers: `pf0`, `vf1`.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Pf => "pf",
            Kind::Vf => "vf",
        };
        format!("{kind}{}", self.index)
    }

    /// `vhca_id`: the number that tells functions of one device apart.
    pub fn vhca_id(&self) -> u16 {
        self.index.wrapping_add(1)
    }
}
