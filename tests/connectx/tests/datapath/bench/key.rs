// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory keys as the driver makes them.

use connectx::ifc::{self, Field};
use connectx::{field, size};

use super::{command, Refused, Side};

impl Side {
    /// A key of pages of this side's memory with all rights, less those in `without`.
    pub fn create_mkey(&mut self, addr: u64, va: u64, len: u64, without: &[Field]) -> u32 {
        let pd = self.pd;
        self.create_mkey_with(addr, va, len, |context| {
            ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
            for field in without {
                ifc::set(context, *field, 0);
            }
        })
        .expect("CREATE_MKEY")
    }

    pub fn create_mkey_with(
        &mut self,
        addr: u64,
        va: u64,
        len: u64,
        adjust: impl FnOnce(&mut [u8]),
    ) -> Result<u32, Refused> {
        let pages = ((va & 0xfff) + len).div_ceil(4096);
        let octwords = pages.div_ceil(2) as u32;
        let mut context = [0; size!(mlx5_ifc_mkc_bits)];
        for (field, value) in [
            (field!(mlx5_ifc_mkc_bits, access_mode_1_0), 1),
            (field!(mlx5_ifc_mkc_bits, lr), 1),
            (field!(mlx5_ifc_mkc_bits, lw), 1),
            (field!(mlx5_ifc_mkc_bits, rr), 1),
            (field!(mlx5_ifc_mkc_bits, rw), 1),
            (field!(mlx5_ifc_mkc_bits, a), 1),
            (field!(mlx5_ifc_mkc_bits, umr_en), 1),
            (field!(mlx5_ifc_mkc_bits, en_rinval), 1),
            (field!(mlx5_ifc_mkc_bits, qpn), 0xff_ffff),
            (field!(mlx5_ifc_mkc_bits, mkey_7_0), 0x5a),
            (field!(mlx5_ifc_mkc_bits, log_page_size), 12),
            (
                field!(mlx5_ifc_mkc_bits, translations_octword_size),
                octwords,
            ),
        ] {
            ifc::set(&mut context, field, value);
        }
        ifc::set64(&mut context, field!(mlx5_ifc_mkc_bits, start_addr), va);
        ifc::set64(&mut context, field!(mlx5_ifc_mkc_bits, len), len);
        adjust(&mut context);
        let mut input = command(0x200, size!(mlx5_ifc_create_mkey_in_bits));
        let at = field!(mlx5_ifc_create_mkey_in_bits, memory_key_mkey_entry).byte_offset();
        input[at..at + context.len()].copy_from_slice(&context);
        ifc::set(
            &mut input,
            field!(
                mlx5_ifc_create_mkey_in_bits,
                translations_octword_actual_size
            ),
            octwords,
        );
        for page in 0..u64::from(octwords) * 2 {
            let entry = ((addr & !0xfff) + page * 4096) | 3;
            input.extend(entry.to_be_bytes());
        }
        let out = self.cmd(&input, 0x10)?;
        let index = ifc::get(&out, field!(mlx5_ifc_create_mkey_out_bits, mkey_index));
        Ok((index << 8) | 0x5a)
    }
}
