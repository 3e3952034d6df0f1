// SPDX-License-Identifier: GPL-2.0
/*
 * What other modules have to know. The functions are defined in Rust,
 * EXPORT_SYMBOL_GPL() is C.
 */
#include <linux/export.h>
#include <linux/module.h>

#include <mlx5_ulp_cm.h>

EXPORT_SYMBOL_GPL(mlx5_ulp_cm_param);
EXPORT_SYMBOL_GPL(mlx5_ulp_cm_ready);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_resolve);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_ibdev);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_connect);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_reject_reason);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_disconnect);
EXPORT_SYMBOL_GPL(mlx5_ulp_conn_destroy);
EXPORT_SYMBOL_GPL(mlx5_ulp_listen);
EXPORT_SYMBOL_GPL(mlx5_ulp_unlisten);
