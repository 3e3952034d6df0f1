#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The device compresses completions of our queues: every request completes on its own and in order, also
# when one in the middle fails; a block that cannot be shuts the queue down.
#
# functions: pf,vf
# cpus: 2
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|local protection error)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

# counted NAME: what the completion side has counted.
counted() {
	sed -n "s/^$1 //p" $debugfs/mlx5_0/cq
}

# written WHAT: what the device has counted.
written() {
	connectx-ctl '{"cmd":"counters"}' | python3 -c '
import json, sys
print(json.load(sys.stdin)["functions"]["pf0"][sys.argv[1]])
' "$1"
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
expect "compression" "$(counted compression)" on
blocks=$(written cqe_blocks)
for mode in polling interrupt; do
	echo $mode > /sys/class/infiniband/mlx5_0/params/cq_moderation
	consumer_test full shapes unsignaled from_completion posters wrap
done
[ "$(counted compressed_blocks)" -ge 100 ] || fail "$(counted compressed_blocks) blocks"
[ $(($(written cqe_blocks) - blocks)) -ge "$(counted compressed_blocks)" ] ||
	fail "$(counted compressed_blocks) blocks taken, $(written cqe_blocks) written"
expect "entries that make no sense" "$(counted invalid_cqes)" 0

# Three are well, the fourth fails, the rest is flushed.
before=$(counted compressed_blocks)
consumer_test bad_rkey bad_lkey silent_before_error
[ "$(counted compressed_blocks)" -gt "$before" ] || fail "no block before the error"
rmmod mlx5_ulp
