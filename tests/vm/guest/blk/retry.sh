#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A request that loses its connection is sent again on the next one, eight times and no more, with a second between two
# that are lost at once; each request starts to count at zero.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 150
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: local protection error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh

# A read is one READ; each new connection is tried by another one. So each second READ is the one of the request.

# lose TIMES: so often the read that follows loses its connection. 4: local protection error.
lose() {
	no_more_faults
	rule pf0 '"kind":"send-error","syndrome":4' "\"every\":2,\"count\":$1"
	retries=$(disk_stat retries) reconnects=$(disk_stat reconnects)
}

# lost TIMES
lost() {
	expect "losses" "$(hits)" "$1"
}

# again TIMES: so often a request was sent again.
again() {
	expect "requests sent again" $(($(disk_stat retries) - retries)) "$1"
}

back() {
	disk_state live && [ "$(disk_stat reconnects)" = $((reconnects + $1)) ]
}

drivers mlx5_0 mlx5_1
network
blk_load
export_on 4
# One request at a time, always the same.
disk_on queues=1 queue_depth=1
echo none > /sys/block/ulpblk_d/queue/scheduler
read_block

for _ in 1 2; do
	lose 8
	start=$SECONDS
	read_block || fail "a request was given up too soon"
	# New connections that are lost at once are not followed by others as fast as can be.
	[ $((SECONDS - start)) -ge 6 ] || fail "eight connections were made and lost in $((SECONDS - start)) s"
	lost 8
	again 8
	back 8 || fail "$(disk_stat reconnects) reconnects"
done

lose 9
! read_block || fail "a request is sent again for ever"
lost 9
again 8
# The disk is none the worse for that.
until_true 60 back 9 || fail "the disk is $(cat $disks/d/state), $(disk_stat reconnects) reconnects"
lose 1
read_block || fail "a request was given up too soon"
again 1

disk_off
export_off
blk_unload
