// SPDX-License-Identifier: GPL-2.0
/*
 * See shim.h.
 */
#include <linux/minmax.h>

#include "shim.h"

u8 mlx5_ulp_cm_shim_responder(const struct rdma_cm_id *id)
{
	return id->device ? clamp(id->device->attrs.max_qp_rd_atom, 0, U8_MAX) : 0;
}

u8 mlx5_ulp_cm_shim_initiator(const struct rdma_cm_id *id)
{
	return id->device ? clamp(id->device->attrs.max_qp_init_rd_atom, 0, U8_MAX) : 0;
}
