/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the bindings crate is made from. bindgen wants enums complete before
 * they are used, so hrtimer_types.h comes first.
 */
#include <linux/hrtimer_types.h>
#include <linux/mlx5/cq.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/driver.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <linux/mlx5/qp.h>
#include <mlx5_ulp.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <trace/events/mlx5_ulp.h>

#include "../probes.h"
#include "../shim.h"
