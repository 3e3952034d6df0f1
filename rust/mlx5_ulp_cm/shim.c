// SPDX-License-Identifier: GPL-2.0
/*
 * See shim.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/minmax.h>

#include "../mlx5_ulp/api/stale.h"
#include "shim.h"

void mlx5_ulp_cm_shim_stale(const char *call)
{
	mlx5_ulp_report_stale(call);
}

u8 mlx5_ulp_cm_shim_responder(const struct rdma_cm_id *id)
{
	return id->device ? clamp(id->device->attrs.max_qp_rd_atom, 0, U8_MAX) : 0;
}

u8 mlx5_ulp_cm_shim_initiator(const struct rdma_cm_id *id)
{
	return id->device ? clamp(id->device->attrs.max_qp_init_rd_atom, 0, U8_MAX) : 0;
}
