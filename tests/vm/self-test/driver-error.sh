#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Fails by what the driver says in the kernel log; what it says at level info is no fault.

echo "<6>mlx5_core 0000:01:00.0: firmware version: 1.2.3" > /dev/kmsg
echo "<3>mlx5_core 0000:01:00.0: mlx5_cmd_out_err:838:(pid 1): an error" > /dev/kmsg
