#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A physical and a virtual function in one guest: both ports active with a usable GID of their own,
# both idle and gone in the end. One of them leaves and comes back while the other stays.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0 1
ibv_devinfo -v > "$RESULTS/devinfo"
[ "$(grep -c 'state:.*PORT_ACTIVE' "$RESULTS/devinfo")" = 2 ] || fail "not both ports are active"
grep -q 'vendor_part_id:.*4125' "$RESULTS/devinfo" || fail "no physical function"
grep -q 'vendor_part_id:.*4126' "$RESULTS/devinfo" || fail "no virtual function"
[ "$(compgen -G '/sys/class/net/eth*' | wc -l)" = 2 ] || fail "not two netdevs"

pci=$(basename "$(readlink /sys/class/infiniband/mlx5_1/device)")
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
live=$(ask '"cmd":"objects"' '.functions.vf1.live | add // 0')
[ "$live" = 0 ] || fail "$live objects of the unbound function are left"
grep -q ACTIVE /sys/class/infiniband/mlx5_0/ports/1/state || fail "the other function went down"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/bind
up 1

down
nothing_left
