/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the bindings are made from, and what Rust cannot reach. bindgen wants enums
 * complete before they are used, so hrtimer_types.h comes first.
 */
#ifndef MLX5_ULP_CM_SHIM_H
#define MLX5_ULP_CM_SHIM_H

#include <linux/hrtimer_types.h>
#include <mlx5_ulp_cm.h>
#include <rdma/ib_cm.h>

/* READs and atomics that a QP of the device of @id can serve at once, and have under way. */
u8 mlx5_ulp_cm_shim_responder(const struct rdma_cm_id *id);
u8 mlx5_ulp_cm_shim_initiator(const struct rdma_cm_id *id);

/* Say, rate-limited, that the function @call was called with a handle that is none, and by whom. */
void mlx5_ulp_cm_shim_stale(const char *call);

#endif /* MLX5_ULP_CM_SHIM_H */
