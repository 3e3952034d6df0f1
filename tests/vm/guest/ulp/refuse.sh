#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A device that is not ours is refused with the reason, whichever of the two comes first, and the
# module comes and goes without a trace.

set -eu
. /src/tests/vm/guest/lib/ulp.sh

refusals() {
	dmesg | grep -c 'mlx5_ulp: rxe0: not attached: not an mlx5 device' || true
}

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
modprobe -a mlx5_core rdma_rxe dummy
ip link add dummy0 type dummy
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0
before=$(refusals)

load mlx5_ulp
expect "refusals after loading beside a device" "$(refusals)" $((before + 1))
expect "devices in debugfs" "$(attached)" ""
[ ! -e /sys/class/infiniband/rxe0/params ] || fail "a refused device has parameters"

rdma link delete rxe0
rdma link add rxe0 type rxe netdev dummy0
expect "refusals after a device came" "$(refusals)" $((before + 2))

rmmod mlx5_ulp
[ ! -e $debugfs ] || fail "the folder in debugfs survived the module"
rdma link delete rxe0
ip link delete dummy0
