// SPDX-License-Identifier: GPL-2.0
/*
 * What other modules and modprobe have to know. The functions are defined in
 * Rust (api/), EXPORT_SYMBOL_GPL() is C.
 */
#include <linux/export.h>
#include <linux/module.h>

#include <mlx5_ulp.h>

EXPORT_SYMBOL_GPL(mlx5_ulp_open);
EXPORT_SYMBOL_GPL(mlx5_ulp_open_ibdev);
EXPORT_SYMBOL_GPL(mlx5_ulp_close);
EXPORT_SYMBOL_GPL(mlx5_ulp_query_limits);
EXPORT_SYMBOL_GPL(mlx5_ulp_local_key);
EXPORT_SYMBOL_GPL(mlx5_ulp_dma_device);
EXPORT_SYMBOL_GPL(mlx5_ulp_region_create);
EXPORT_SYMBOL_GPL(mlx5_ulp_region_destroy);
EXPORT_SYMBOL_GPL(mlx5_ulp_region_key);
EXPORT_SYMBOL_GPL(mlx5_ulp_region_create_sg);
EXPORT_SYMBOL_GPL(mlx5_ulp_region_address);
EXPORT_SYMBOL_GPL(mlx5_ulp_unsafe_global_key);
EXPORT_SYMBOL_GPL(mlx5_ulp_fast_region_create);
EXPORT_SYMBOL_GPL(mlx5_ulp_fast_region_destroy);
EXPORT_SYMBOL_GPL(mlx5_ulp_fast_region_map);
EXPORT_SYMBOL_GPL(mlx5_ulp_fast_region_key);
EXPORT_SYMBOL_GPL(mlx5_ulp_fast_region_address);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_create);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_qpn);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_address);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_connect);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_connect_verbs);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_disconnect);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_drain);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_stop);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_destroy);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_query_stats);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_find);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_find_qpn);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_prefetch);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_pin);
EXPORT_SYMBOL_GPL(mlx5_ulp_queue_unpin);
EXPORT_SYMBOL_GPL(mlx5_ulp_post_write);
EXPORT_SYMBOL_GPL(mlx5_ulp_post_writes);
EXPORT_SYMBOL_GPL(mlx5_ulp_exclusive_post_writes);
EXPORT_SYMBOL_GPL(mlx5_ulp_post);
EXPORT_SYMBOL_GPL(mlx5_ulp_exclusive_post);
EXPORT_SYMBOL_GPL(mlx5_ulp_reserve);
EXPORT_SYMBOL_GPL(mlx5_ulp_post_reserved);
EXPORT_SYMBOL_GPL(mlx5_ulp_release);
EXPORT_SYMBOL_GPL(mlx5_ulp_post_receives);
EXPORT_SYMBOL_GPL(mlx5_ulp_flush);
EXPORT_SYMBOL_GPL(mlx5_ulp_poll);

/* It makes the RDMA devices, but none of its symbols is used here. */
MODULE_SOFTDEP("pre: mlx5_ib");
