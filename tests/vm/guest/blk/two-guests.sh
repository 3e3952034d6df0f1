#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A disk whose memory is another guest's, found by rdma_cm: data with checksums, and a file system, each with the link
# lost under load; a disk that goes without a word, a target that ends its export.
#
# functions: pf,vf
# when: long on 7.2
# guests: 2
# boot: own
# timeout: 500
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp_blk: ulpblk_d: the target stays away \((ECONNREFUSED|ETIMEDOUT)\), given up

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh
. /src/tests/vm/guest/lib/filesystem.sh
. /src/tests/vm/guest/lib/two-guests.sh

drivers mlx5_0
netdev=$(netdev mlx5_0)
ip link set "$netdev" up
ip address add "10.0.0.$GUEST/24" dev "$netdev"
until_true 20 active mlx5_0 || fail "the port does not come up"
until_true 20 addressed "10.0.0.$GUEST" || fail "the address has no GID"
blk_load

if [ "$GUEST" = 2 ]; then
	export_on 48 device=mlx5_0 port=7471
	say exported
	hear 400 connected
	[ "$(cat $exports/e/served)" -ge 1 ] || fail "nobody is served"
	say seen
	hear 100 vanished
	forgotten() {
		[ "$(cat $exports/e/served)" = 0 ]
	}
	until_true 100 forgotten || fail "$(cat $exports/e/served) queues of a disk that has vanished are served"
	say forgotten
	hear 300 enough
	export_off
	say gone
	hear 100 over
	blk_unload
	exit
fi

hear 120 exported
mkdir $disks/d
echo mlx5_0 > $disks/d/device
echo 10.0.0.2:7470 > $disks/d/target
! echo 1 2> /dev/null > $disks/d/power || fail "there is a target where nobody waits"
disk_on target=10.0.0.2:7471
verify 512 write      1 16k
verify 512 randrw   128 128k
verify 4k  randrw    32 512k
verify 64k randwrite  8 512k
verify 1m  write    128 4m

through_outage 5 verify 4k randrw 16 512k
cat $disks/d/stats
[ "$(disk_stat reconnects)" -ge 1 ] || fail "the disk was never away"
filesystem_survives 5

# Nothing arrives any more of what the disk sends, its goodbye neither: its target finds out by itself.
say connected
hear 100 seen
silence pf0
disk_off
say vanished
hear 120 forgotten
no_more_faults

# The target says goodbye: noticed without I/O.
disk_on target=10.0.0.2:7471 reconnect_s=1
say enough
hear 60 gone
disk_becomes dead 60
disk_off
blk_unload
say over
