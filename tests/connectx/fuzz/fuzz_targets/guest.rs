// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A hostile guest, with coverage feedback.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    connectx::fuzz::guest(data);
});
