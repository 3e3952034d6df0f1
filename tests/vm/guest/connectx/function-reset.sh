#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A function-level reset, which the kernel chooses by itself, brings a function with dead firmware back.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/faults.sh

up 0
device=$(readlink -f /sys/class/infiniband/mlx5_0/device)
pci=$(basename "$device")
grep -qw flr "$device/reset_method" || fail "ways to reset: $(cat "$device/reset_method")"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
inject pf0 '"kind":"fatal","syndrome":1'
echo 1 > "$device/reset"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/bind
up 0
down
nothing_left
