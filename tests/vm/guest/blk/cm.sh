#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A disk finds its target by rdma_cm, at an address: data with checksums; one that is not there is refused; the
# target's end is noticed without I/O; a target that comes back with other memory is not taken for the old one.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120
# dmesg-allow: mlx5_ulp_blk: ulpblk_d: the target has lost the data of the disk

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/blk.sh

drivers mlx5_0 mlx5_1
network
ip link set lo up
blk_load
before=$(objects)
export_on 4 device=mlx5_0 port=7471

mkdir $disks/d
echo mlx5_0 > $disks/d/device
for target in 10.7.0.1:7470 10.7.0.1:x 10.7.0.1.1:7471; do
	echo $target > $disks/d/target
	! echo 1 2> /dev/null > $disks/d/power || fail "there is a target at $target"
done
# Something else answers.
insmod "/src/build/modules/$KERNEL_SERIES/tests/rping/mlx5_ulp_rping.ko" server=1 address=10.7.0.1
echo 10.7.0.1:7174 > $disks/d/target
! said=$({ echo 1 > $disks/d/power; } 2>&1) || fail "there is a target at the port of rping"
case $said in
*": Protocol error") ;;
*) fail "a server of rping is no target: $said" ;;
esac
rmmod mlx5_ulp_rping

disk_on target=10.7.0.1:7471 reconnect_s=60
verify 4k randrw 16 256k
expect "retries, reconnects" "$(disk_stat retries) $(disk_stat reconnects)" "0 0"

echo 0 > $exports/e/power
disk_becomes away 20
echo 1 > $exports/e/power
disk_becomes dead 60

disk_off
export_off
same_objects "$before"
blk_unload
