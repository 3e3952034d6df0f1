#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A device that is renamed, as udev does it, is found under its new name, and its folder with it.
#
# functions: pf,vf
# when: long on 7.2

set -eu
. /src/tests/vm/guest/lib/ulp.sh

drivers mlx5_0 mlx5_1
load mlx5_ulp
rdma dev set mlx5_0 name rocep1s0
expect "devices in debugfs" "$(attached)" "mlx5_1 rocep1s0 "
grep -qx 'posted 0' $debugfs/rocep1s0/doorbells || fail "the renamed folder has no counters"
expect "a parameter under the new name" "$(cat /sys/class/infiniband/rocep1s0/params/doorbell_mode)" adaptive
rdma dev set rocep1s0 name mlx5_0
expect "devices in debugfs after renaming back" "$(attached)" "mlx5_0 mlx5_1 "
rmmod mlx5_ulp
