// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The PCI side of a function: configuration space and BAR layout.
//!
//! QEMU emulates the BARs' addresses and MSI-X; what it asks for is the static rest. [`Settings`] say how well the
//! function has been set up.

mod settings;

pub use settings::Settings;

use crate::config::Kind;

/// Bytes of configuration space: a PCI Express function.
pub const CONFIG_SIZE: usize = 4096;
/// Bytes of BAR0.
pub const BAR0_SIZE: u64 = 1 << (20 + crate::caps::LOG_UAR_MIB);
/// Most MSI-X vectors.
pub const MSIX_VECTORS: u16 = 64;

/// Where the pending bits of MSI-X stand in BAR0. They and the table are between the initialization segment and the
/// first UAR page.
const MSIX_PBA: u32 = 0xc000;

const VENDOR: u16 = 0x15b3;
const SUBSYSTEM: u16 = 0x0016;

/// Where the capabilities stand.
const CAP_PCIE: u8 = 0x40;
const CAP_MSIX: u8 = 0x9c;
const CAP_VENDOR: u8 = 0xc0;

/// Device control in the PCI Express capability, and its highest byte's bit that resets the function.
const DEVICE_CONTROL: usize = 0x08;
const INITIATE_RESET: u8 = 0x80;

/// The command register, and its bit that lets the function access memory.
const COMMAND: u64 = 0x04;
const BUS_MASTER: u8 = 1 << 2;

/// Writable bits of the command register: memory space, bus master, parity, SERR, INTx disable.
const COMMAND_WRITABLE: u16 = 0x0546;

/// Configuration space of a function.
#[derive(Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
    /// The VMM has written "initiate function-level reset".
    reset_wanted: bool,
}

impl ConfigSpace {
    /// Configuration space after reset.
    pub fn new(kind: Kind, settings: &Settings) -> Self {
        let mut space = Self {
            bytes: vec![0; CONFIG_SIZE],
            writable: vec![0; CONFIG_SIZE],
            reset_wanted: false,
        };
        space.set16(0x00, VENDOR);
        space.set16(0x02, kind.device_id());
        // Status: a list of capabilities.
        space.set16(0x06, 0x10);
        // Class: Ethernet controller.
        space.set16(0x0a, 0x0200);
        // BAR0: 64 bits, prefetchable.
        space.set32(0x10, 0xc);
        space.set16(0x2c, VENDOR);
        space.set16(0x2e, SUBSYSTEM);
        space.set8(0x34, CAP_PCIE);
        space.allow(COMMAND as usize, &COMMAND_WRITABLE.to_le_bytes());
        space.allow(0x10, &(!(BAR0_SIZE as u32 - 1)).to_le_bytes());
        space.allow(0x14, &[0xff; 4]);
        // Cache line size, interrupt line.
        space.allow(0x0c, &[0xff]);
        space.allow(0x3c, &[0xff]);
        space.pcie_capability(CAP_PCIE.into(), CAP_MSIX, settings);
        space.msix_capability(CAP_MSIX.into(), CAP_VENDOR, settings);
        // Vendor specific, all zero: the driver looks for it on a physical function.
        space.set8(CAP_VENDOR.into(), 0x09);
        space.set8(usize::from(CAP_VENDOR) + 2, 0x18);
        space
    }

    /// PCI Express capability, version 2: an endpoint that can run a link of 16 lanes at 16 GT/s.
    fn pcie_capability(&mut self, at: usize, next: u8, settings: &Settings) {
        self.set8(at, 0x10);
        self.set8(at + 1, next);
        self.set16(at + 2, 0x0002);
        // Device capabilities: payload up to 512 bytes, extended tags, function-level reset.
        self.set32(at + 0x04, 0x1000_8022);
        // Device control: relaxed ordering, no snoop, and the sizes.
        let sizes = settings.max_payload_code() << 5 | settings.max_read_request_code() << 12;
        self.set16(at + DEVICE_CONTROL, 0x0810 | sizes);
        self.allow(at + DEVICE_CONTROL, &[0xff, 0x7f]);
        // Link capabilities: 16 lanes at 16 GT/s, and the power-saving states that are switched on.
        let aspm = settings.aspm_code();
        self.set32(at + 0x0c, 0x0000_0104 | u32::from(aspm) << 10);
        self.set16(at + 0x10, aspm | settings.boundary_code() << 3);
        self.allow(at + 0x10, &[0x43, 0x00]);
        // Link status: the clock of the slot, lanes and speed.
        self.set16(
            at + 0x12,
            0x1000 | settings.width << 4 | settings.generation,
        );
        // Device capabilities 2 and control 2: completion time-out ranges.
        self.set32(at + 0x24, 0x0000_001f);
        self.allow(at + 0x28, &[0x1f]);
        self.set32(at + 0x2c, 0x0000_001e);
        self.set16(at + 0x30, 0x0004);
    }

    fn msix_capability(&mut self, at: usize, next: u8, settings: &Settings) {
        self.set8(at, 0x11);
        self.set8(at + 1, next);
        self.set16(at + 2, settings.vectors - 1);
        self.allow(at + 2, &0xc000u16.to_le_bytes());
        self.set32(at + 4, settings.msix_table);
        self.set32(at + 8, MSIX_PBA);
    }

    fn set8(&mut self, at: usize, value: u8) {
        self.put(at, &[value]);
    }

    fn set16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        for (to, from) in self.writable.iter_mut().skip(at).zip(mask) {
            *to = *from;
        }
    }

    /// Reads bytes; those beyond the end read as zero.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        buf.fill(0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (to, from) in buf.iter_mut().zip(self.bytes.iter().skip(start)) {
            *to = *from;
        }
    }

    /// Writes bytes; read-only bits keep their value.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let places = self.bytes.iter_mut().zip(&self.writable).skip(start);
        for ((to, mask), from) in places.zip(data) {
            *to = *to & !mask | from & mask;
        }
        let control = usize::from(CAP_PCIE) + DEVICE_CONTROL + 1;
        let written = control.checked_sub(start).and_then(|at| data.get(at));
        self.reset_wanted |= written.is_some_and(|byte| byte & INITIATE_RESET != 0);
    }

    /// Whether the function may access memory and send interrupts.
    pub fn is_bus_master(&self) -> bool {
        let mut command = [0];
        self.read(COMMAND, &mut command);
        command[0] & BUS_MASTER != 0
    }

    /// Whether a function-level reset was initiated. It starts with a new configuration space.
    pub fn wants_reset(&self) -> bool {
        self.reset_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(kind: Kind) -> ConfigSpace {
        ConfigSpace::new(kind, &Settings::default())
    }

    fn read32(space: &ConfigSpace, offset: u64) -> u32 {
        let mut buf = [0; 4];
        space.read(offset, &mut buf);
        u32::from_le_bytes(buf)
    }

    #[test]
    fn the_device_id_tells_the_kind() {
        assert_eq!(read32(&space(Kind::Pf), 0), 0x101d_15b3);
        assert_eq!(read32(&space(Kind::Vf), 0), 0x101e_15b3);
    }

    #[test]
    fn sizing_the_bar_gives_its_size() {
        let mut space = space(Kind::Pf);
        space.write(0x10, &[0xff; 8]);
        let low = read32(&space, 0x10);
        assert_eq!(low & 0xf, 0xc);
        assert_eq!(u64::from(!(low & !0xf)) + 1, BAR0_SIZE);
        assert_eq!(read32(&space, 0x14), u32::MAX);
    }

    #[test]
    fn the_capability_list_ends() {
        let space = space(Kind::Vf);
        let mut ids = Vec::new();
        let mut at = read32(&space, 0x34) as u8;
        while at != 0 && ids.len() < 16 {
            let head = read32(&space, at.into());
            ids.push(head as u8);
            at = (head >> 8) as u8;
        }
        assert_eq!(ids, [0x10, 0x11, 0x09]);
    }

    #[test]
    fn accesses_beyond_the_end_do_nothing() {
        let mut space = space(Kind::Vf);
        space.write(u64::MAX, &[1; 4]);
        space.write(4094, &[1; 4]);
        assert_eq!(read32(&space, u64::MAX), 0);
    }

    #[test]
    fn settings_stand_where_they_are_looked_for() {
        let mut settings = Settings::default();
        let good = ConfigSpace::new(Kind::Pf, &settings);
        // Payload 256, read requests 512; 16 lanes, 16 GT/s; 64 vectors.
        assert_eq!(read32(&good, 0x48) & 0xffff, 0x2830);
        assert_eq!(read32(&good, 0x4c), 0x104);
        assert_eq!(read32(&good, 0x50), 0x1104_0000);
        assert_eq!(read32(&good, 0x9c) >> 16, 63);
        for setting in [
            "aspm=l1", "mrrs=128", "mps=128", "rcb=128", "width=4", "speed=8",
        ] {
            let (name, value) = setting.split_once('=').unwrap();
            settings.set(name, value).unwrap();
        }
        settings.set("msix", "2").unwrap();
        settings.set("msix-table", "0x8800").unwrap();
        let bad = ConfigSpace::new(Kind::Pf, &settings);
        assert_eq!(read32(&bad, 0x48) & 0xffff, 0x0810);
        assert_eq!(read32(&bad, 0x4c), 0x904);
        assert_eq!(read32(&bad, 0x50), 0x1043_000a);
        assert_eq!(read32(&bad, 0x9c) >> 16, 1);
        assert_eq!(read32(&bad, 0xa0), 0x8800);
    }

    #[test]
    fn a_function_level_reset_is_noticed() {
        let mut space = space(Kind::Pf);
        space.write(0x48, &[0x30, 0x28]);
        assert!(!space.wants_reset());
        space.write(0x48, &[0x30, 0xa8]);
        assert!(space.wants_reset());
        assert_eq!(read32(&space, 0x48) & 0xffff, 0x2830, "reads as zero");
    }
}
