// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The program: see the library for what it is made of.

fn main() {}
