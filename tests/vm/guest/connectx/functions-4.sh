#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A physical function and three virtual ones in one guest: each has addresses, objects and counters of its own, and two
# virtual ones talk to each other while the others hear nothing.
#
# functions: pf,vf,vf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

up 0 1 2 3
until_true 30 settled || fail "the link-local addresses stay tentative"
until_true 30 gid_index 2 && until_true 30 gid_index 3 || fail "no link-local GIDs"
[ "$(sort -u /sys/class/infiniband/mlx5_*/node_guid | wc -l)" = 4 ] || fail "functions share a GUID"
[ "$(sort -u /sys/class/infiniband/mlx5_*/device/net/*/address | wc -l)" = 4 ] || fail "functions share an address"
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_1/device)")
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
between 18515 "ibv_rc_pingpong -c -d mlx5_2 -g $(gid_index 2) -n 200" \
	"ibv_rc_pingpong -c -d mlx5_3 -g $(gid_index 3) -n 200 127.0.0.1"
sent=$(ask '"cmd":"counters"' '[.functions | to_entries[] | "\(.key) \(.value.dma_reads.payload.bytes > 200 * 4096)"] | join(",")')
[ "$sent" = "pf0 false,vf1 false,vf2 true,vf3 true" ] || fail "who has read payload: $sent"
left=$(ask '"cmd":"objects"' '.functions.vf1.live | add // 0')
[ "$left" = 0 ] || fail "$left objects of the unbound function are left"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/bind
until_true 20 test -e /sys/class/infiniband/mlx5_1 || fail "the unbound function does not come back"
down
nothing_left
