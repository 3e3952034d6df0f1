#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# As verify, with more block sizes and depths; then the cable out for a while in the middle of the load.
#
# functions: pf,vf
# when: long
# timeout: 1800
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh

# size BLOCK: what a job writes in blocks of so many bytes.
size() {
	echo $(($1 * 32 > (4 << 20) ? 4 << 20 : $1 * 32))
}

drivers mlx5_0 mlx5_1
network
blk_load
export_on 32
disk_on
for block in 512 4096 65536 1048576; do
	for depth in 1 16 128; do
		for pattern in write randwrite randrw; do
			verify $block $pattern $depth "$(size $block)"
		done
	done
done
expect "retries" "$(disk_stat retries)" 0

for block in 4096 262144; do
	through_outage 5 verify $block randrw 32 4m
done
cat $disks/d/stats
[ "$(disk_stat reconnects)" -ge 2 ] || fail "the disk was not away twice"
disk_off
export_off
blk_unload
