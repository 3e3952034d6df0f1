// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands that ask for what the capabilities do not offer, or for what is not there.

use connectx::ifc::{self, Field};
use connectx::wqe::opcode::Opcode;
use connectx::{field, size};

use crate::bench::*;

/// Status bytes of refusals.
const BAD_PARAM: u8 = 0x3;
const BAD_RES: u8 = 0x5;
const BAD_RES_STATE: u8 = 0x9;
const BAD_INDEX: u8 = 0xa;
const NO_RESOURCES: u8 = 0xf;
const BAD_SIZE: u8 = 0x40;

macro_rules! qpc {
    ($($name:ident).+) => {
        field!(mlx5_ifc_create_qp_in_bits, qpc.$($name).+)
    };
}

/// CREATE_QP of a queue pair without queues, with some fields changed.
fn create_qp(side: &mut Side, fields: &[(Field, u32)]) -> Result<u32, Refused> {
    let page = side.alloc(4096);
    let mut input = command(0x500, size!(mlx5_ifc_create_qp_in_bits));
    let plain = [
        (qpc!(pd), side.pd),
        (qpc!(uar_page), side.uar),
        (qpc!(no_sq), 1),
        (qpc!(rq_type), 3),
    ];
    for (field, value) in plain.iter().chain(fields) {
        ifc::set(&mut input, *field, *value);
    }
    push_pages(&mut input, page, 1);
    let out = side.cmd(&input, 0x10)?;
    Ok(ifc::get(&out, field!(mlx5_ifc_create_qp_out_bits, qpn)))
}

#[test]
fn a_queue_pair_asks_for_what_there_is() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let xrcd = side.alloc_object(0x80e);
    let shared = shared_queue(side, xrcd);
    create_qp(side, &[]).expect("CREATE_QP");
    let own = [(qpc!(rq_type), 0), (qpc!(cqn_rcv), shared.cq.cqn)];
    let with_stride = |log| [own[0], own[1], (qpc!(log_rq_stride), log)];
    create_qp(side, &with_stride(5)).expect("WQEs of 512 bytes");
    assert_eq!(create_qp(side, &with_stride(6)), Err(BAD_SIZE));
    // It completes on a CQ of its own: only an XRC queue pair serves it.
    let xrc_srq = [
        (qpc!(rq_type), 1),
        (qpc!(cqn_rcv), shared.cq.cqn),
        (qpc!(srqn_rmpn_xrqn), shared.number),
    ];
    assert_eq!(create_qp(side, &xrc_srq), Err(BAD_RES));
    for (field, most) in [
        (qpc!(log_msg_max), 30),
        (qpc!(log_sra_max), 4),
        (qpc!(log_rra_max), 4),
        (qpc!(atomic_mode), 3),
        (qpc!(cs_req), 0),
        (qpc!(cs_res), 0),
        (qpc!(rq_type), 3),
    ] {
        create_qp(side, &[(field, most)]).expect("the most there is");
        let more = create_qp(side, &[(field, most + 1)]);
        assert_eq!(more, Err(BAD_PARAM), "{field:?}");
    }
    assert_eq!(create_qp(side, &[(qpc!(rq_type), 2)]), Err(BAD_PARAM));
}

#[test]
fn a_state_change_asks_for_what_there_is() {
    macro_rules! given {
        ($($name:ident).+) => {
            field!(mlx5_ifc_rst2init_qp_in_bits, qpc.$($name).+)
        };
    }
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let qpn = create_qp(side, &[]).expect("CREATE_QP");
    let pd = side.pd;
    let set = side.alloc_object(0x771);
    let mut change = |opcode, fields: &[(Field, u32)]| {
        side.modify(opcode, qpn, 0, |input| {
            for (field, value) in [(given!(pd), pd), (given!(mtu), 3)].iter().chain(fields) {
                ifc::set(input, *field, *value);
            }
        })
    };
    let pkey = given!(primary_address_path.pkey_index);
    let counters = given!(counter_set_id);
    for index in [1, 127, 128] {
        assert_eq!(change(0x502, &[(pkey, index)]), Err(BAD_INDEX));
    }
    assert_eq!(change(0x502, &[(counters, 0xff)]), Err(BAD_RES));
    change(0x502, &[(counters, set & 0xff)]).expect("RST2INIT");
    assert_eq!(change(0x503, &[(given!(log_msg_max), 31)]), Err(BAD_PARAM));
    assert_eq!(change(0x503, &[(given!(log_rra_max), 5)]), Err(BAD_PARAM));
    change(0x503, &[]).expect("INIT2RTR");
}

#[test]
fn a_completion_queue_is_changed_in_ways_there_are() {
    let mut b = Bench::new();
    let [mut a, _c] = b.endpoints(QpSpec::default());
    let side = &mut b.sides[0];
    let small = side.create_cq(0, 64);
    let link = Link::default();
    side.move_to_init(&a.qp, (small.cqn, small.cqn), &link)
        .unwrap();
    side.move_to_rtr(&a.qp, (1, 0x100), &link).unwrap();
    side.move_to_rts(&a.qp, &link).unwrap();
    let new = side.alloc(4096);
    let mode = field!(mlx5_ifc_modify_cq_in_bits, cq_context.cq_period_mode);
    let modify = |side: &mut Side, op_mod: u8, select: u32, period_mode| {
        let mut input = command(0x403, size!(mlx5_ifc_modify_cq_in_bits));
        input[7] = op_mod;
        let cqn = field!(mlx5_ifc_modify_cq_in_bits, cqn);
        ifc::set(&mut input, cqn, small.cqn);
        ifc::set(&mut input, mode, period_mode);
        input[0xc..0x10].copy_from_slice(&select.to_be_bytes());
        input.extend(new.to_be_bytes());
        side.cmd(&input, 0x10).map(|_| ())
    };
    assert_eq!(modify(side, 0, 1 << 4, 1), Ok(()));
    assert_eq!(modify(side, 0, 1 << 4, 2), Err(BAD_PARAM));
    assert_eq!(modify(side, 0, 1 << 5, 0), Err(BAD_PARAM));
    assert_eq!(modify(side, 2, 1, 0), Err(BAD_PARAM));
    // A new buffer without its size.
    assert_eq!(modify(side, 1, 6, 0), Err(BAD_PARAM));
    let fields = |side: &mut Side| {
        let mut input = command(0x402, size!(mlx5_ifc_query_cq_in_bits));
        let cqn = field!(mlx5_ifc_query_cq_in_bits, cqn);
        ifc::set(&mut input, cqn, small.cqn);
        let out = side.cmd(&input, 0x200).expect("QUERY_CQ");
        let get = |field| ifc::get(&out, field);
        (
            get(field!(mlx5_ifc_query_cq_out_bits, cq_context.status)),
            get(field!(mlx5_ifc_query_cq_out_bits, cq_context.st)),
        )
    };
    assert_eq!(fields(side), (0, 0xa), "not armed");
    side.arm(&small, 0, true);
    assert_eq!(fields(side), (0, 0x6), "armed for solicited ones");
    side.arm(&small, 0, false);
    assert_eq!(fields(side), (0, 0x9), "armed");
    // Two completions are one too many.
    for _ in 0..2 {
        side.post(&mut a.qp, Opcode::NOP, 0, &[]);
    }
    b.settle();
    let side = &mut b.sides[0];
    assert_eq!(fields(side).0, 0x9, "overflow");
    // It would have room now, but has failed.
    side.write(small.record, &1u32.to_be_bytes());
    assert_eq!(modify(side, 1, 7, 0), Err(BAD_RES_STATE));
}

#[test]
fn a_smaller_buffer_holds_the_completions_that_wait() {
    let mut b = Bench::new();
    let [mut a, _c] = b.connect(QpSpec::default(), Link::default());
    for _ in 0..3 {
        b.sides[0].post(&mut a.qp, Opcode::NOP, 0, &[]);
    }
    b.settle();
    let side = &mut b.sides[0];
    let new = side.alloc(4096);
    let mut input = command(0x403, size!(mlx5_ifc_modify_cq_in_bits));
    input[7] = 1;
    let cqn = field!(mlx5_ifc_modify_cq_in_bits, cqn);
    ifc::set(&mut input, cqn, a.send.cqn);
    let log_size = field!(mlx5_ifc_modify_cq_in_bits, cq_context.log_cq_size);
    ifc::set(&mut input, log_size, 1);
    input[0xc..0x10].copy_from_slice(&7u32.to_be_bytes());
    push_pages(&mut input, new, 1);
    assert_eq!(side.cmd(&input, 0x10).err(), Some(BAD_SIZE));
    success(side.poll(&mut a.send));
    side.cmd(&input, 0x10).expect("room for two");
}

#[test]
fn a_shared_queue_is_armed_by_its_kind() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let xrcd = side.alloc_object(0x80e);
    let shared = shared_queue(side, xrcd);
    for (kind, result) in [(1, Ok(())), (0, Err(BAD_PARAM)), (2, Err(BAD_PARAM))] {
        let mut input = command(0x708, size!(mlx5_ifc_arm_xrc_srq_in_bits));
        input[7] = kind;
        let number = field!(mlx5_ifc_arm_xrc_srq_in_bits, xrc_srqn);
        ifc::set(&mut input, number, shared.number);
        assert_eq!(side.cmd(&input, 0x10).map(|_| ()), result, "{kind}");
    }
}

#[test]
fn a_receive_queue_for_many_is_of_a_kind_there_is() {
    macro_rules! rmpc {
        ($($name:ident).+) => {
            field!(mlx5_ifc_create_rmp_in_bits, ctx.$($name).+)
        };
    }
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let ring = side.alloc(4096);
    let pd = side.pd;
    let mut create = |state, wq_type, limit| {
        let mut input = command(0x90c, size!(mlx5_ifc_create_rmp_in_bits));
        for (field, value) in [
            (rmpc!(state), state),
            (rmpc!(wq.wq_type), wq_type),
            (rmpc!(wq.lwm), limit),
            (rmpc!(wq.pd), pd),
            (rmpc!(wq.log_wq_stride), 5),
            (rmpc!(wq.log_wq_sz), 2),
        ] {
            ifc::set(&mut input, field, value);
        }
        push_pages(&mut input, ring, 1);
        side.cmd(&input, 0x10).map(|_| ())
    };
    assert_eq!((create(1, 0, 0), create(1, 1, 4)), (Ok(()), Ok(())));
    assert_eq!(create(0, 0, 0), Err(BAD_PARAM), "in reset");
    assert_eq!(create(1, 0, 5), Err(BAD_PARAM), "a limit beyond its size");
    for striding in [2, 3] {
        assert_eq!(create(1, striding, 0), Err(BAD_PARAM));
    }
}

#[test]
fn a_key_has_no_signature() {
    let mut b = Bench::new();
    let side = &mut b.sides[0];
    let pd = side.pd;
    for field in [
        field!(mlx5_ifc_mkc_bits, bsf_en),
        field!(mlx5_ifc_mkc_bits, bsf_octword_size),
    ] {
        let refused = side.create_mkey_with(0, 0, 4096, |context| {
            ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
            ifc::set(context, field, 1);
        });
        assert_eq!(refused, Err(BAD_PARAM));
    }
}

#[test]
fn keys_have_room_for_so_many_entries_together() {
    let mut b = Bench::new();
    let longest = |side: &mut Side| {
        let pd = side.pd;
        side.create_mkey_with(0, 0, 4096, |context| {
            ifc::set(context, field!(mlx5_ifc_mkc_bits, pd), pd);
            let room = field!(mlx5_ifc_mkc_bits, translations_octword_size);
            ifc::set(context, room, 1 << 20);
        })
    };
    let side = &mut b.sides[0];
    let keys: Vec<u32> = (0..64).map(|_| longest(side).expect("room")).collect();
    assert_eq!(longest(side), Err(NO_RESOURCES));
    longest(&mut b.sides[1]).expect("room of the other function");
    let side = &mut b.sides[0];
    side.simple(0x202, keys[0] >> 8).expect("DESTROY_MKEY");
    longest(side).expect("room again");
}
