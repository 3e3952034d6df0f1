#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The address of a connection is that of a bond, and moves with it from one device to the other: both sides hear of it,
# and connect anew by the other device.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 180
# boot: own

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/cm.sh

# linked NETDEV: whether the bond knows that its link is up.
linked() {
	grep -qsx up "/sys/class/net/$1/bonding_slave/mii_status"
}

drivers mlx5_0 mlx5_1
first=$(netdev mlx5_0)
second=$(netdev mlx5_1)
modprobe bonding
ip link set lo up
# The bond has the MAC address of the one that is active.
ip link add bond7 type bond mode active-backup miimon 100 fail_over_mac active
for slave in "$first" "$second"; do
	ip link set "$slave" down
	ip link set "$slave" master bond7
done
ip link set bond7 up
for slave in "$first" "$second"; do
	until_true 30 linked "$slave" || fail "the bond does not see the link of $slave"
done
ip link set bond7 type bond active_slave "$first"
ip address add "$address/24" dev bond7
until_true 30 addressed "$address" mlx5_0 || fail "mlx5_0 has no GID of the address"
load mlx5_ulp
modprobe rdma_cm
load mlx5_ulp_cm
before=$(objects)

cm_run connect
cm_mortal readdressed ip link set bond7 type bond active_slave "$second"
until_true 30 addressed "$address" mlx5_1 || fail "mlx5_1 has no GID of the address"
cm_run connect
same_objects "$before"

cm_down
ip link del bond7
