#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The module attaches to every mlx5 function that is there or comes, lets go of those that leave, and
# of all when it leaves, in any order and again and again, without leaving an object on the device.
#
# functions: pf,vf
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh

# attached_is NAMES
attached_is() {
	[ "$(attached)" = "$1" ]
}

# What modprobe goes by.
expect "alias" "$(modinfo -F alias $modules/mlx5_ulp/mlx5_ulp.ko)" rdma-ulp-mlx5
expect "what is loaded first" "$(modinfo -F softdep $modules/mlx5_ulp/mlx5_ulp.ko)" "pre: mlx5_ib"

drivers mlx5_0 mlx5_1
before=$(objects)

for round in 1 2 3 4 5; do
	load mlx5_ulp
	expect "devices attached in round $round" "$(attached)" "mlx5_0 mlx5_1 "
	for device in mlx5_0 mlx5_1; do
		grep -qx 'posted 0' "$debugfs/$device/doorbells" || fail "$device counts what nobody posted"
	done
	rmmod mlx5_ulp
	[ ! -e $debugfs ] || fail "the folder in debugfs survived the module"
done
same_objects "$before"

# The RDMA devices go first.
load mlx5_ulp
rmmod mlx5_ib
expect "devices attached without mlx5_ib" "$(attached)" ""
modprobe mlx5_ib
until_true 20 attached_is "mlx5_0 mlx5_1 " || fail "attached to '$(attached)' after mlx5_ib came back"

# One function goes.
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_1/device)")
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
expect "devices attached after an unbind" "$(attached)" "mlx5_0 "
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/bind
until_true 30 attached_is "mlx5_0 mlx5_1 " || fail "attached to '$(attached)' after a bind"

# mlx5_core is in use by us, and free afterwards.
rmmod mlx5_ib
! rmmod mlx5_core 2> /dev/null || fail "mlx5_core could be removed under us"
rmmod mlx5_ulp
rmmod mlx5_core
