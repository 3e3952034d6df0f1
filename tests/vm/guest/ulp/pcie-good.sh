#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Functions that are set up well on their bus have no warning in `pcie`.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/pcie.sh

drivers mlx5_0 mlx5_1
load mlx5_ulp
warnings mlx5_0
# The root port of the VM has a payload of 128 bytes, and the kernel gives the function below it the same.
warnings mlx5_1 mps
rmmod mlx5_ulp
