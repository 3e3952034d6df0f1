// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters: the values of all devices that are attached from then on,
 * in the words of the files in /sys/class/infiniband/<dev>/params/. They are
 * text, looked at once when the module is loaded (params.rs), so that both are
 * read by the same code and refused for the same reasons. What is given here is
 * the default.
 */
#include <linux/moduleparam.h>

#include "shim.h"

char *mlx5_ulp_param_doorbell_mode = "adaptive";
module_param_named(doorbell_mode, mlx5_ulp_param_doorbell_mode, charp, 0444);
MODULE_PARM_DESC(doorbell_mode, "When doorbells are rung: each (after every post), batch, adaptive");

char *mlx5_ulp_param_doorbell_batch = "4";
module_param_named(doorbell_batch, mlx5_ulp_param_doorbell_batch, charp, 0444);
MODULE_PARM_DESC(doorbell_batch, "WQEs for one doorbell in mode batch, 1 to 64");

char *mlx5_ulp_param_doorbell_max_batch = "16";
module_param_named(doorbell_max_batch, mlx5_ulp_param_doorbell_max_batch, charp, 0444);
MODULE_PARM_DESC(doorbell_max_batch, "Most WQEs for one doorbell in mode adaptive, 1 to 16");

char *mlx5_ulp_param_doorbell_max_hold_us = "50";
module_param_named(doorbell_max_hold_us, mlx5_ulp_param_doorbell_max_hold_us, charp, 0444);
MODULE_PARM_DESC(doorbell_max_hold_us,
		 "Longest time that a WQE waits for the doorbell, 1 to 10000 us");
