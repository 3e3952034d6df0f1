#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# 1,024 queues on one device; what the memory of one comes to.
#
# functions: pf,vf
# when: long on 7.2
# memory: 2048
# timeout: 400

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

# A sender of 256 requests while it is there, by the view.
insmod "$consumer" test=scale &
test=$!
until_true 60 sh -c "[ \$(ls $debugfs/mlx5_0/queues | wc -l) -ge 100 ]" || fail "no queues"
biggest=$(cat $debugfs/mlx5_0/queues/*/state 2> /dev/null | awk '/^depth/ { d = $2 } /^memory/ && d == 256 && $2 > m { m = $2 } END { print m }')
echo "a queue of 256 requests has $biggest bytes"
# 256 blocks of 64 bytes, 512 completion entries of 64, a cookie and a mark of 8 each for every request and block.
least=$((256 * 64 + 512 * 64 + 256 * 8 + 256 * 8))
[ -n "$biggest" ] && [ "$biggest" -ge $least ] && [ "$biggest" -le 65536 ] ||
	fail "a queue of 256 requests has $biggest bytes, should have $least to 65536"
wait $test || fail "$(dmesg -t | grep mlx5_ulp_test | tail -3 | tr '\n' ';')"
rmmod mlx5_ulp_test
expect "queues that are left" "$(sed -n 's/^queues //p' $debugfs/mlx5_0/cq)" 0
expect "failures" "$(sed -n 's/^invalid_cqes //p' $debugfs/mlx5_0/cq)" 0
same_objects "$before"
rmmod mlx5_ulp
