/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Rust cannot reach: inline functions and macros of the kernel's headers,
 * each made callable by a function of the same meaning.
 */
#ifndef MLX5_ULP_SHIM_H
#define MLX5_ULP_SHIM_H

#include <linux/mlx5/driver.h>
#include <rdma/ib_verbs.h>

/* The mlx5 device below @ibdev, or NULL if there is none or it isn't a PCI function. */
struct mlx5_core_dev *mlx5_ulp_shim_mdev(const struct ib_device *ibdev);

/* The RDMA device to which a sysfs attribute's @dev belongs. */
struct ib_device *mlx5_ulp_shim_to_ibdev(struct device *dev);

void *mlx5_ulp_shim_client_data(struct ib_device *ibdev, struct ib_client *client);

#endif /* MLX5_ULP_SHIM_H */
