// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The initialization segment: the first 8 KiB of BAR0 (`struct mlx5_init_seg`,
//! `include/linux/mlx5/device.h`). All registers are big endian.

/// Length of the segment in bytes.
pub const SIZE: u64 = 0x2010;
/// Register whose write makes the device look at the command queue.
pub const CMD_DBELL: u64 = 0x18;

/// log2 of the number of command queue entries.
pub const LOG_CMDQ_SIZE: u32 = 5;
/// log2 of the distance between command queue entries.
pub const LOG_CMDQ_STRIDE: u32 = 6;

const CMDQ_ADDR_H: u64 = 0x10;
const CMDQ_ADDR_L_SZ: u64 = 0x14;
/// Major 22, minor 35; the sub-minor stands in the next register.
const FW_REV: u32 = (35 << 16) | 22;
/// Command interface revision 5, which the driver insists on, and firmware sub-minor.
const CMDIF_REV_FW_SUB: u32 = (5 << 16) | 1000;
/// `health_buffer.fw_ver`; all ones would mean a dead device.
const HEALTH_FW_VER: u32 = 0x1600_23e8;
const HEALTH_HW_ID: u32 = 0x212;
/// `health_buffer.rfr_severity`: request for reset; a severity is given, and it is "critical".
const FATAL: u32 = (1 << 7) | (1 << 3) | 2;

/// Unit of a time-out: seconds (`tout_convert_iseg_to_ms()` in `lib/tout.c`).
const SECONDS: u32 = 1 << 29;
/// Longest time-out in its unit.
pub const MAX_TIMEOUT: u32 = (1 << 20) - 1;
/// `cmd_q_init_to` in seconds: the driver's own default. That it is not zero says that there are time-outs here.
const INIT_TIMEOUT: u32 = 2;

/// State behind the segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitSegment {
    addr_h: u32,
    addr_l: u32,
    /// How long drivers wait for the answer to a command, in seconds, if it tells them.
    command_timeout: Option<u32>,
    /// The firmware has died: health syndrome, and when.
    dead: Option<(u8, u64)>,
}

impl InitSegment {
    /// The segment after a reset. Drivers wait `command_timeout` seconds for the answer to a command, at most
    /// [`MAX_TIMEOUT`], or as long as they do by themselves (`tout_def_sw_val`: a minute).
    pub fn new(command_timeout: Option<u32>) -> Self {
        Self {
            command_timeout,
            ..Self::default()
        }
    }

    /// Address of the command queue as the driver wrote it.
    pub fn command_queue(&self) -> u64 {
        (u64::from(self.addr_h) << 32) | u64::from(self.addr_l & !0xfff)
    }

    /// The firmware dies of a health syndrome at the time `now`.
    pub fn die(&mut self, syndrome: u8, now: u64) {
        self.dead = Some((syndrome, now));
    }

    /// Whether the firmware has died.
    pub fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// The register at `offset`, a multiple of 4. `now` is in nanoseconds.
    fn register(&self, offset: u64, now: u64) -> u32 {
        match offset {
            0x0 => FW_REV,
            0x4 => CMDIF_REV_FW_SUB,
            CMDQ_ADDR_H => self.addr_h,
            // The driver writes the low bits as zero; they keep telling the geometry.
            CMDQ_ADDR_L_SZ => self.addr_l | (LOG_CMDQ_SIZE << 4) | LOG_CMDQ_STRIDE,
            0x22c => (now / 1_000_000_000) as u32,
            0x230 => HEALTH_FW_VER,
            0x234 => HEALTH_HW_ID,
            // cmd_exec_to and cmd_q_init_to.
            0xff8 => self.command_timeout.map_or(0, |time| SECONDS | time),
            0xffc => self.command_timeout.map_or(0, |_| SECONDS | INIT_TIMEOUT),
            // The free running clock runs at device_frequency_khz = 1 GHz.
            0x1000 => (now >> 32) as u32,
            0x1004 => now as u32,
            0x238 if self.is_dead() => FATAL << 24,
            0x23c => u32::from(self.dead.map_or(0, |(syndrome, _)| syndrome)) << 16,
            // health_counter: a standstill over three polls means a dead device.
            0x1010 => {
                let now = self.dead.map_or(now, |(_, since)| since);
                (now / 100_000_000) as u32 & 0xff_ffff
            }
            // initializing and health syndromes among others: nothing to tell.
            _ => 0,
        }
    }

    /// Reads bytes at any offset of the segment.
    pub fn read(&self, offset: u64, buf: &mut [u8], now: u64) {
        for (at, byte) in (offset..).zip(buf) {
            let register = self.register(at & !3, now).to_be_bytes();
            *byte = register[(at & 3) as usize];
        }
    }

    /// Writes a register. The command doorbell is not kept here: its vector is returned.
    pub fn write(&mut self, offset: u64, value: u32) -> Option<u32> {
        match offset {
            CMDQ_ADDR_H => self.addr_h = value,
            // Bits 10:8 are the NIC interface state, the rest of the low bits is read-only.
            CMDQ_ADDR_L_SZ => self.addr_l = value & !0xff,
            CMD_DBELL => return Some(value),
            _ => log::debug!("init segment: write of {value:#x} to {offset:#x} ignored"),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometry_survives_the_address() {
        let mut iseg = InitSegment::default();
        assert_eq!(iseg.write(0x10, 1), None);
        assert_eq!(iseg.write(0x14, 0x1234_5000), None);
        assert_eq!(iseg.command_queue(), 0x1_1234_5000);
        let mut buf = [0; 4];
        iseg.read(0x14, &mut buf, 0);
        assert_eq!(u32::from_be_bytes(buf), 0x1234_5056);
        assert_eq!(iseg.write(0x18, 0x8000_0001), Some(0x8000_0001));
    }

    #[test]
    fn a_dead_firmware_says_so_and_stands_still() {
        let mut iseg = InitSegment::default();
        let read = |iseg: &InitSegment, offset, now| {
            let mut word = [0; 4];
            iseg.read(offset, &mut word, now);
            u32::from_be_bytes(word)
        };
        assert_ne!(read(&iseg, 0x1010, 1 << 30), read(&iseg, 0x1010, 1 << 40));
        assert_eq!(read(&iseg, 0x238, 0) | read(&iseg, 0x23c, 0), 0);
        iseg.die(1, 1 << 30);
        assert_eq!(read(&iseg, 0x1010, 1 << 30), read(&iseg, 0x1010, 1 << 40));
        assert_eq!(read(&iseg, 0x238, 0) >> 31, 1, "request for reset");
        assert_eq!(read(&iseg, 0x23c, 0), 0x0001_0000);
    }

    #[test]
    fn time_outs_are_told_if_they_are_set() {
        let read = |timeout| {
            let mut words = [0; 8];
            InitSegment::new(timeout).read(0xff8, &mut words, 0);
            words
        };
        assert_eq!(read(None), [0; 8]);
        assert_eq!(read(Some(20)), [0x20, 0, 0, 20, 0x20, 0, 0, 2]);
    }

    #[test]
    fn bytes_can_be_read_alone_and_across() {
        let iseg = InitSegment::default();
        let mut word = [0xff; 1];
        iseg.read(0x23d, &mut word, 0);
        assert_eq!(word, [0]);
        let mut two = [0; 8];
        iseg.read(0x1000, &mut two, 0x1_0000_0002);
        assert_eq!(two, [0, 0, 0, 1, 0, 0, 0, 2]);
    }
}
