// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that other modules may call. They are defined in Rust (api/),
 * EXPORT_SYMBOL_GPL() is C.
 */
#include <linux/export.h>
