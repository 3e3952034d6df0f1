// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One function and its driver.

use connectx::cmd;
use connectx::config::{FunctionConfig, Kind as FunctionKind};
use connectx::dma::{GuestMemory, Kind};
use connectx::hca::{Hca, State};
use connectx::vport::RoceAddress;
use connectx::wire::net::map_ipv4;
use connectx::wire::RoceVersion;
use connectx::{field, ifc, size};

use super::Eq;

/// Bytes of memory of each function.
const MEMORY: usize = 96 << 20;

/// Status byte of a refused command.
pub type Refused = u8;

/// One function and its driver.
pub struct Side {
    pub hca: Hca,
    pub pd: u32,
    pub uar: u32,
    pub async_eq: Eq,
    pub completion_eq: Eq,
    brk: u64,
}

impl Side {
    pub fn new(index: u16, scramble: Option<u64>) -> Self {
        let kind = if index == 0 {
            FunctionKind::Pf
        } else {
            FunctionKind::Vf
        };
        let mut config = FunctionConfig::new(index, kind);
        config.scramble = scramble;
        let mac = config.mac;
        let mut hca = Hca::new(config);
        hca.io.memory = GuestMemory::anonymous(0, MEMORY);
        hca.state = State::Initialized;
        // Room for the largest path MTU.
        hca.port.mtu = 4096 + 128;
        let address = RoceAddress {
            gid: gid(index),
            mac,
            vlan: None,
            version: RoceVersion::V2,
        };
        assert!(hca.gids.set(&mut hca.io, 0, Some(address)));
        let mut side = Side {
            hca,
            pd: 0,
            uar: 0,
            async_eq: Eq::default(),
            completion_eq: Eq::default(),
            brk: 0x10_0000,
        };
        side.set_roce(true);
        side.uar = side.alloc_object(0x802);
        side.pd = side.alloc_object(0x800);
        side.async_eq = side.create_eq(!(1 << 0xa));
        side.completion_eq = side.create_eq(0);
        side
    }

    /// Switches RoCE on the virtual port on or off, as `mlx5_nic_vport_enable_roce` does.
    pub fn set_roce(&mut self, on: bool) {
        macro_rules! modify {
            ($($name:ident).+) => {
                field!(mlx5_ifc_modify_nic_vport_context_in_bits, $($name).+)
            };
        }
        let mut input = command(0x755, size!(mlx5_ifc_modify_nic_vport_context_in_bits));
        ifc::set(&mut input, modify!(field_select.roce_en), 1);
        ifc::set(&mut input, modify!(nic_vport_context.roce_en), on.into());
        self.cmd(&input, 0x10).expect("MODIFY_NIC_VPORT_CONTEXT");
    }

    /// Memory of whole pages.
    pub fn alloc(&mut self, len: u64) -> u64 {
        let addr = self.brk;
        self.brk += len.next_multiple_of(4096);
        assert!(self.brk <= MEMORY as u64, "out of memory");
        addr
    }

    pub fn write(&mut self, addr: u64, bytes: &[u8]) {
        self.hca
            .io
            .memory
            .write(Kind::Command, addr, bytes)
            .unwrap();
    }

    pub fn read(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.hca
            .io
            .memory
            .read(Kind::Command, addr, &mut out)
            .unwrap();
        out
    }

    /// Fills memory with a pattern that differs at every place, and returns it.
    pub fn pattern(&mut self, addr: u64, len: usize, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..len)
            .map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8 ^ seed)
            .collect();
        self.write(addr, &bytes);
        bytes
    }

    /// Executes a command and returns its output.
    pub fn cmd(&mut self, input: &[u8], out_len: usize) -> Result<Vec<u8>, Refused> {
        let out = cmd::execute(&mut self.hca, input, out_len);
        match out[0] {
            0 => Ok(out),
            status => Err(status),
        }
    }

    /// A command without parameters beyond one number.
    pub fn simple(&mut self, opcode: u16, number: u32) -> Result<Vec<u8>, Refused> {
        let mut input = vec![0; 0x110];
        input[..2].copy_from_slice(&opcode.to_be_bytes());
        input[8..12].copy_from_slice(&number.to_be_bytes());
        self.cmd(&input, 0x600)
    }

    /// One of the ALLOC commands.
    pub fn alloc_object(&mut self, opcode: u16) -> u32 {
        let out = self.simple(opcode, 0).expect("ALLOC");
        ifc::get(&out, field!(mlx5_ifc_alloc_pd_out_bits, pd))
    }
}

/// Input of a command with its opcode.
pub fn command(opcode: u16, len: usize) -> Vec<u8> {
    let mut input = vec![0; len];
    input[..2].copy_from_slice(&opcode.to_be_bytes());
    input
}

pub fn push_pages(input: &mut Vec<u8>, base: u64, count: u64) {
    for page in 0..count {
        input.extend((base + page * 4096).to_be_bytes());
    }
}

/// The address of a function.
pub fn gid(index: u16) -> [u8; 16] {
    map_ipv4([10, 0, 0, index as u8 + 1])
}
