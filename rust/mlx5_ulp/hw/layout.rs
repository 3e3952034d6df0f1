// SPDX-License-Identifier: GPL-2.0

//! Ties what the pure files know of hardware layouts to the kernel's structs, at compile time.
