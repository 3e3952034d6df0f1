/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the bindings of a consumer in Rust with an rdma_cm event handler of its own are
 * made from. bindgen wants enums complete before they are used, so hrtimer_types.h
 * comes first.
 */
#ifndef MLX5_ULP_API_CM_HANDLER_BINDINGS_H
#define MLX5_ULP_API_CM_HANDLER_BINDINGS_H

#include <linux/hrtimer_types.h>
#include <mlx5_ulp_cm.h>
#include "bindings.h"

#endif /* MLX5_ULP_API_CM_HANDLER_BINDINGS_H */
