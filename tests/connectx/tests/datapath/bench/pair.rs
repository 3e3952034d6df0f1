// SPDX-License-Identifier: GPL-2.0 OR MIT

use super::{Bench, Endpoint, Link, QpSpec};

/// Two connected queue pairs, and memory with a key on either side.
pub struct Pair {
    pub b: Bench,
    pub a: Endpoint,
    pub c: Endpoint,
    pub src: u64,
    pub dst: u64,
    pub lkey: u32,
    pub rkey: u32,
}

impl Pair {
    /// With so many bytes of memory on either side.
    pub fn new(link: Link, bytes: u64) -> Self {
        let mut b = Bench::new();
        let [a, c] = b.connect(QpSpec::default(), link);
        let (src, dst) = (b.sides[0].alloc(bytes), b.sides[1].alloc(bytes));
        let lkey = b.sides[0].create_mkey(src, src, bytes, &[]);
        let rkey = b.sides[1].create_mkey(dst, dst, bytes, &[]);
        Pair {
            b,
            a,
            c,
            src,
            dst,
            lkey,
            rkey,
        }
    }
}
