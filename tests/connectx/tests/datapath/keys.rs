// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory key commands.

use connectx::{field, ifc, size};

use crate::bench::*;

const BAD_PARAM: u8 = 3;
const BAD_RES: u8 = 5;
const RES_BUSY: u8 = 6;
const EXCEED_LIM: u8 = 8;

#[test]
fn a_key_is_queried_as_it_was_created() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let page = side.alloc(8192);
    let key = side.create_mkey(page, 0x1_2345, 4096, &[]);
    let mut input = command(0x201, size!(mlx5_ifc_query_mkey_in_bits));
    ifc::set(
        &mut input,
        field!(mlx5_ifc_query_mkey_in_bits, mkey_index),
        key >> 8,
    );
    let out = side
        .cmd(&input, size!(mlx5_ifc_query_mkey_out_bits))
        .expect("QUERY_MKEY");
    let start = field!(
        mlx5_ifc_query_mkey_out_bits,
        memory_key_mkey_entry.start_addr
    );
    assert_eq!(ifc::get64(&out, start), 0x1_2345);
    let first = field!(mlx5_ifc_query_mkey_out_bits, bsf0_klm0_pas_mtt0_1).byte_offset();
    assert_eq!(out[first..first + 8], (page | 3).to_be_bytes());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let mode = field!(mlx5_ifc_mkc_bits, access_mode_4_2);
    let room = field!(mlx5_ifc_mkc_bits, translations_octword_size);
    let pd = field!(mlx5_ifc_mkc_bits, pd);
    let own = side.pd;
    let mut create = |field, value| {
        side.create_mkey_with(0, 0, 4096, |c| {
            ifc::set(c, pd, own);
            ifc::set(c, field, value);
        })
    };
    assert_eq!(create(mode, 1).err(), Some(BAD_PARAM));
    assert_eq!(create(room, u32::MAX).err(), Some(EXCEED_LIM));
    assert_eq!(create(room, 0).err(), Some(EXCEED_LIM));
    assert_eq!(create(pd, 0xff_ffff).err(), Some(BAD_RES));
    create(pd, own).expect("a key that is in order");
}

#[test]
fn a_domain_with_keys_stays() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let page = side.alloc(4096);
    let key = side.create_mkey(page, 0, 4096, &[]);
    assert_eq!(side.simple(0x801, side.pd).err(), Some(RES_BUSY));
    side.simple(0x202, key >> 8).expect("DESTROY_MKEY");
    assert_eq!(side.simple(0x202, key >> 8).err(), Some(BAD_RES));
    side.simple(0x801, side.pd).expect("DEALLOC_PD");
}
