// SPDX-License-Identifier: GPL-2.0

#include <linux/device.h>
#include <linux/pci.h>
#include <linux/string.h>

#include "shim.h"

struct mlx5_core_dev *mlx5_ulp_shim_mdev(const struct ib_device *ibdev)
{
	struct device *parent = ibdev->dev.parent;
	struct mlx5_core_dev *mdev;

	/*
	 * Below a sub-function is an auxiliary device, whose driver data is
	 * another struct. Only the driver of the PCI function itself puts its
	 * mlx5_core_dev there.
	 */
	if (!parent || !dev_is_pci(parent) || !parent->driver ||
	    strcmp(parent->driver->name, "mlx5_core"))
		return NULL;

	mdev = pci_get_drvdata(to_pci_dev(parent));
	return mdev && mdev->pdev == to_pci_dev(parent) ? mdev : NULL;
}

struct ib_device *mlx5_ulp_shim_to_ibdev(struct device *dev)
{
	return rdma_device_to_ibdev(dev);
}

void *mlx5_ulp_shim_client_data(struct ib_device *ibdev, struct ib_client *client)
{
	return ib_get_client_data(ibdev, client);
}
