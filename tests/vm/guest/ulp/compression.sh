#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The device compresses completions of our queues: every request completes on its own and in order, also
# when one in the middle fails; a block that cannot be shuts the queue down.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|local protection error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
expect "compression" "$(counted compression cq)" on
blocks=$(device cqe_blocks)
for mode in polling interrupt; do
	set_param cq_moderation $mode
	consumer_test full shapes unsignaled from_completion posters wrap
done
[ "$(counted compressed_blocks cq)" -ge 100 ] || fail "$(counted compressed_blocks cq) blocks"
[ $(($(device cqe_blocks) - blocks)) -ge "$(counted compressed_blocks cq)" ] ||
	fail "$(counted compressed_blocks cq) blocks taken, $(device cqe_blocks) written"
expect "entries that make no sense" "$(counted invalid_cqes cq)" 0

# Three are well, the fourth fails, the rest is flushed.
before=$(counted compressed_blocks cq)
consumer_test bad_rkey bad_lkey silent_before_error
[ "$(counted compressed_blocks cq)" -gt "$before" ] || fail "no block before the error"
rmmod mlx5_ulp
