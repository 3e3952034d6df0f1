// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Access registers: settings of the port and of the host interface.
//!
//! A register is read or written as a whole by ACCESS_REG; the layouts are `*_reg` in
//! `mlx5_ifc.h`, the numbers `MLX5_REG_*` in `include/linux/mlx5/driver.h`.

use super::{bad_param, op_mod, CmdError, CmdResult, Command, Input, OutputBox, Status};
use crate::eq::AsyncEvent;
use crate::hca::Hca;
use crate::ifc;
use crate::{field, size};

pub(super) const COMMANDS: &[Command] = &[Command {
    opcode: 0x805,
    name: "ACCESS_REG",
    min_in: 0x10,
    min_out: 0x10,
    handler: access_reg,
}];

/// Where the register starts in input and output.
const DATA: usize = 0x10;
/// Bytes of PFCC (`mlx5_ifc_pfcc_reg_bits`).
const PFCC: usize = 0x20;
/// Bytes of DTOR (`mlx5_ifc_dtor_reg_bits`).
const DTOR: usize = 0x3c;
/// Longest register: PPCNT.
const MAX_REGISTER: usize = 0x100;

/// 100GBASE-CR4 and 100GBASE-KR4 (`MLX5E_100GBASE_*`, `include/linux/mlx5/port.h`).
const SUPPORTED_LINK_MODES: u32 = (1 << 20) | (1 << 23);
/// The link mode in use: 100GBASE-CR4.
const LINK_MODE: u32 = 1 << 20;
/// Protocol mask of Ethernet in PTYS.
const PROTO_ETHERNET: u32 = 4;
/// Largest frame of the port in bytes.
const MAX_PORT_MTU: u32 = 10000;

fn access_reg(hca: &mut Hca, input: Input<'_>, out: &mut OutputBox) -> CmdResult {
    let id = input.get(field!(mlx5_ifc_access_register_in_bits, register_id));
    let write = match op_mod(input) {
        0 => true,
        1 => false,
        _ => return bad_param("neither query nor write of a register"),
    };
    let size = match id {
        0x5003 => size!(mlx5_ifc_pmtu_reg_bits),
        0x5004 => size!(mlx5_ifc_ptys_reg_bits),
        0x5006 => size!(mlx5_ifc_paos_reg_bits),
        0x5007 => PFCC,
        0x5008 => MAX_REGISTER,
        0x6001 => 0x40,
        0x7004 => 0x10,
        0xc00e if !write => DTOR,
        0xc00e => return bad_param("DTOR is read-only"),
        _ => return bad_param("unknown register"),
    };
    if input.0.len() < DATA + size {
        return Err(CmdError::new(Status::BadInputLen, "register is cut"));
    }
    let mut reg = input.0.get(DATA..DATA + size).unwrap_or(&[]).to_vec();
    match id {
        0x5003 => pmtu(hca, &mut reg, write)?,
        0x5004 => ptys(&mut reg, write)?,
        0x5006 => paos(hca, &mut reg, write)?,
        0x5007 => pfcc(&mut reg, write)?,
        // Counters of the physical port: the group asked for is echoed, all are zero.
        0x5008 => {}
        0x6001 => node_description(hca, &mut reg, write)?,
        // No time-out but the driver's own.
        0xc00e => reg.fill(0),
        // Host endianness: little endian is all there is.
        _ => {}
    }
    out.put(DATA, &reg);
    Ok(())
}

/// PMTU: MTU of the port, in bytes of the whole frame.
fn pmtu(hca: &mut Hca, reg: &mut [u8], write: bool) -> CmdResult {
    let admin = field!(mlx5_ifc_pmtu_reg_bits, admin_mtu);
    if write {
        let mtu = ifc::get(reg, admin);
        if mtu == 0 || mtu > MAX_PORT_MTU {
            return bad_param("MTU out of range");
        }
        hca.port.mtu = mtu as u16;
    }
    ifc::set(reg, field!(mlx5_ifc_pmtu_reg_bits, max_mtu), MAX_PORT_MTU);
    ifc::set(reg, admin, hca.port.mtu.into());
    ifc::set(
        reg,
        field!(mlx5_ifc_pmtu_reg_bits, oper_mtu),
        hca.port.mtu.into(),
    );
    Ok(())
}

/// PTYS: link modes.
fn ptys(reg: &mut [u8], write: bool) -> CmdResult {
    let admin = field!(mlx5_ifc_ptys_reg_bits, eth_proto_admin);
    if write && ifc::get(reg, admin) & !SUPPORTED_LINK_MODES != 0 {
        return bad_param("link mode that the port cannot do");
    }
    let mut set = |field, value| ifc::set(reg, field, value);
    set(field!(mlx5_ifc_ptys_reg_bits, proto_mask), PROTO_ETHERNET);
    set(
        field!(mlx5_ifc_ptys_reg_bits, eth_proto_capability),
        SUPPORTED_LINK_MODES,
    );
    set(admin, SUPPORTED_LINK_MODES);
    set(field!(mlx5_ifc_ptys_reg_bits, eth_proto_oper), LINK_MODE);
    Ok(())
}

/// PAOS: administrative and operational state of the port; 1 up, 2 down.
fn paos(hca: &mut Hca, reg: &mut [u8], write: bool) -> CmdResult {
    let admin = field!(mlx5_ifc_paos_reg_bits, admin_status);
    if write {
        let up = match ifc::get(reg, admin) {
            1 => true,
            2 => false,
            _ => return bad_param("unknown state of the port"),
        };
        if hca.port.set_admin(hca.config.kind, up) {
            hca.eqs.asynchronous(&mut hca.io, AsyncEvent::Port { up });
        }
    }
    let code = |up| if up { 1 } else { 2 };
    ifc::set(reg, admin, code(hca.port.admin_up));
    let oper = field!(mlx5_ifc_paos_reg_bits, oper_status);
    ifc::set(reg, oper, code(hca.port.link_up()));
    Ok(())
}

/// PFCC: flow control, which the port neither sends nor obeys: it can be asked for, and stays off.
fn pfcc(reg: &mut [u8], write: bool) -> CmdResult {
    // A double word for each direction: the policy of the whole port in the topmost bit (pptx and
    // pprx), those of the priorities in the second byte (pfctx and pfcrx).
    let on = [8, 12].iter().any(|&at| {
        reg.get(at..at + 2)
            .is_some_and(|policy| policy[0] & 0x80 != 0 || policy[1] != 0)
    });
    if write && on {
        return bad_param("the port has no flow control");
    }
    // The number of the port stays.
    for (at, byte) in reg.iter_mut().enumerate() {
        if at != 1 {
            *byte = 0;
        }
    }
    Ok(())
}

/// Node description: 64 bytes of text.
fn node_description(hca: &mut Hca, reg: &mut [u8], write: bool) -> CmdResult {
    if write {
        return bad_param("node description is read-only");
    }
    let text = format!("software ConnectX {}", hca.name());
    reg.fill(0);
    for (to, from) in reg.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_control_stays_off() {
        let off = {
            let mut reg = [0; PFCC];
            reg[1] = 1;
            reg
        };
        for (at, value) in [(8, 0x80), (9, 1), (12, 0x80), (13, 0x80)] {
            let mut reg = off;
            reg[at] = value;
            assert!(pfcc(&mut reg, true).is_err());
            assert!(pfcc(&mut reg, false).is_ok());
            assert_eq!(reg, off);
        }
        // Asking not to send pauses, with both masks set, is granted.
        let mut reg = off;
        reg[8] = 0x20;
        reg[12] = 0x20;
        assert!(pfcc(&mut reg, true).is_ok());
        assert_eq!(reg, off);
    }
}
