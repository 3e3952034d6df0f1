// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters that are words: the kernel crate has numbers only. They are
 * looked at once, when the module is loaded (params.rs), and are the values of
 * all devices that are attached then and later.
 */
#include <linux/moduleparam.h>

#include "shim.h"

char *mlx5_ulp_param_doorbell_mode = "each";
module_param_named(doorbell_mode, mlx5_ulp_param_doorbell_mode, charp, 0444);
MODULE_PARM_DESC(doorbell_mode, "When doorbells are rung: each (after every post)");
