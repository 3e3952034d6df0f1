/* SPDX-License-Identifier: GPL-2.0 */
/* What the demo needs of the kernel beyond the kernel crate. */
#include <crypto/sha2.h>
#include <mlx5_ulp.h>
