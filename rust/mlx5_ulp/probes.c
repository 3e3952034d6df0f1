// SPDX-License-Identifier: GPL-2.0
/*
 * See probes.h. Nothing but their callers being in Rust keeps the compiler from
 * taking them out.
 */
#include <linux/compiler.h>

#include "probes.h"

noinline void mlx5_ulp_on_refused(u32 pci, u32 qpn, u32 count, int error)
{
}

noinline void mlx5_ulp_on_held(u32 pci, u32 qpn, u32 wqes)
{
}

noinline void mlx5_ulp_on_batch(u32 pci, u32 qpn, u32 from, u32 to)
{
}

noinline void mlx5_ulp_on_bad_cqe(u32 pci, u32 qpn, u16 counter, u8 opcode, u8 syndrome)
{
}

noinline void mlx5_ulp_on_queue_failed(u32 pci, u32 qpn)
{
}

noinline void mlx5_ulp_on_queue_made(u32 pci, u32 qpn)
{
}

noinline void mlx5_ulp_on_queue_gone(u32 pci, u32 qpn)
{
}
