// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Formats: what is encoded decodes to the same, and any bytes decode without a panic.

use mlx5_ulp_host_tests::cq::cqe::{Cqe, Failure, Opcode as CqeOpcode, Success, Tail};
use mlx5_ulp_host_tests::cq::syndrome::Syndrome;
use mlx5_ulp_host_tests::wqe::atomic::{Atomic, MaskedAtomic};
use mlx5_ulp_host_tests::wqe::av::AddressVector;
use mlx5_ulp_host_tests::wqe::ctrl::{Ctrl, Flags, Head};
use mlx5_ulp_host_tests::wqe::data::{self, Data, Segment, Segments};
use mlx5_ulp_host_tests::wqe::opcode::Opcode;
use mlx5_ulp_host_tests::wqe::rdma::RemoteAddr;
use mlx5_ulp_host_tests::wqe::umr::{Mkey, UmrCtrl};
use proptest::collection::vec;
use proptest::prelude::*;

/// What is left of all ones: the bits that are not reserved. Reserved ones are zero when they are written.
fn written(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[test]
fn reserved_bits_are_zero() {
    // mlx5_wqe_ctrl_seg: two bits beside the length, two bytes behind the signature.
    let ctrl = Ctrl::decode(&[0xff; 16]).encode();
    assert_eq!(written(&ctrl), "ffffffffffffff3fff0000ffffffffff");
    // mlx5_wqe_raddr_seg
    let remote = RemoteAddr::decode(&[0xff; 16]).encode();
    assert_eq!(written(&remote), "ffffffffffffffffffffffff00000000");
    // mlx5_wqe_umr_ctrl_seg: flags, 3 reserved, counts and mask, offset, 28 reserved
    let umr = UmrCtrl::decode(&[0xff; 48]).encode();
    let want = format!("ff000000{}{}", "ff".repeat(16), "00".repeat(28));
    assert_eq!(written(&umr), want);
    // mlx5_mkey_seg: status, pcie_control, flags, version, qpn_mkey7_0, 4 reserved, flags_pd, start, length, 20 without a
    // meaning here, xlt_oct_size, 3 reserved, log2_page_size, 4 reserved
    let mkey = Mkey::decode(&[0xff; 64]).encode();
    let (ones, zeroes) = ("ff".repeat(20), "00".repeat(20));
    let want = format!("4000ff00ffffffff00000000{ones}{zeroes}ffffffff000000ff00000000");
    assert_eq!(written(&mkey), want);
}

proptest! {
    #[test]
    fn control_segment(opmod: u8, index: u16, op: u8, qpn in 0u32..1 << 24, ds in 0u8..64,
                       signature: u8, flags: u8, imm: u32) {
        let c = Ctrl {
            head: Head { opmod, index, opcode: Opcode(op), qpn, ds },
            signature, flags: Flags(flags), imm,
        };
        prop_assert_eq!(Ctrl::decode(&c.encode()), c);
        prop_assert_eq!(c.encode()[..8].to_vec(), c.head.encode().to_vec());
    }

    /// Decoding loses nothing but reserved bits: encoding again gives the same bytes.
    #[test]
    fn any_segment_bytes(b: [u8; 16], wide: [u8; 32]) {
        let again = Ctrl::decode(&b).encode();
        let reserved = [0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0xff, 0xff, 0, 0, 0, 0, 0];
        for i in 0..16 {
            prop_assert_eq!(again[i], b[i] & !reserved[i]);
        }
        prop_assert_eq!(RemoteAddr::decode(&b).encode()[..12].to_vec(), b[..12].to_vec());
        prop_assert_eq!(Data::decode(&b).encode(), b);
        prop_assert_eq!(Atomic::decode(&b).encode(), b);
        prop_assert_eq!(MaskedAtomic::decode(&wide).encode(), wide);
    }

    #[test]
    fn long_segments_are_stable(av in vec(any::<u8>(), 48), mkey in vec(any::<u8>(), 64)) {
        let av: [u8; 48] = av.try_into().unwrap();
        let mkey: [u8; 64] = mkey.try_into().unwrap();
        let v = AddressVector::decode(&av);
        prop_assert_eq!(AddressVector::decode(&v.encode()), v);
        let u = UmrCtrl::decode(&av);
        prop_assert_eq!(UmrCtrl::decode(&u.encode()), u);
        let m = Mkey::decode(&mkey);
        prop_assert_eq!(Mkey::decode(&m.encode()), m);
    }

    /// Whatever stands in the ring, the walk ends, and never goes beyond the bytes that it was given.
    #[test]
    fn data_segments_of_any_bytes(b in vec(any::<u8>(), 0..1024)) {
        let mut total = 0;
        for segment in Segments::new(&b) {
            match segment {
                Ok(Segment::Inline(p)) => total += p.len() + data::INLINE_HEADER,
                Ok(Segment::Pointer(_)) => total += data::SIZE,
                Err(_) => break,
            }
            prop_assert!(total <= b.len());
        }
    }

    #[test]
    fn completion_entry(op in 0u8..5, qpn in 0u32..1 << 24, counter: u16, srqn in 0u32..1 << 24,
                        imm: u32, byte_cnt: u32, timestamp: u64, flags_rqpn: u32, slid: u16,
                        ml_path: u8, pi: u32, log in 0u8..23, se: bool) {
        let tail = |opcode| Tail {
            wqe_opcode: 8, qpn, wqe_counter: counter, signature: 0,
            op_own: Tail::op_own(opcode, se, pi, log),
        };
        let s = Success {
            tail: tail(CqeOpcode(op)), srqn, imm, byte_cnt, timestamp, flags_rqpn, slid, ml_path,
        };
        prop_assert_eq!(Cqe::decode(&s.encode()), Cqe::Success(s));
        let f = Failure {
            tail: tail(CqeOpcode::REQ_ERR), srqn, syndrome: Syndrome(ml_path), vendor_syndrome: op,
        };
        prop_assert_eq!(Cqe::decode(&f.encode()), Cqe::Failure(f));
    }

    #[test]
    fn any_completion_bytes(b in vec(any::<u8>(), 64)) {
        let b: [u8; 64] = b.try_into().unwrap();
        let tail = match Cqe::decode(&b) {
            Cqe::Success(s) => s.tail,
            Cqe::Failure(f) => f.tail,
            Cqe::Other(t) => t,
        };
        prop_assert_eq!(tail.encode().to_vec(), b[56..].to_vec());
    }
}
