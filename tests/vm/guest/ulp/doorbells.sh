#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What the module counts is what the device counts: WRITEs, doorbells and completions. Readers of
# debugfs don't disturb the traffic.
#
# functions: pf,vf
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp doorbell_mode=each
load mlx5_ulp_demo
head -c 1000000 /dev/urandom > /tmp/file
forget
before=$(device wqes)

# Readers, all the time.
while :; do
	cat $debugfs/mlx5_0/* $debugfs/mlx5_0/queues/*/* > /dev/null 2>&1 || true
done &
reader=$!

posted=0
for size in 4096 65536 1000000; do
	echo "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=$size depth=8" > /sys/kernel/debug/mlx5_ulp_demo/run
	posted=$((posted + (1000000 + size - 1) / size))
done
kill $reader

expect "posted" "$(counted posted)" $posted
expect "completed" "$(counted completed)" $posted
expect "failures" "$(counted errors) $(counted flushed) $(counted invalid_cqes)" "0 0 0"
expect "doorbells in mode each" "$(counted doorbells)" $posted
expect "doorbells that the device has seen" "$(seen 'Doorbell Write')" $posted
expect "WQEs that the device has taken" $(($(device wqes) - before)) $posted
expect "completion entries that the device has written" "$(seen 'CQE Write')" "$(counted cqes)"
expect "queues that are left" "$(counted queues)" 0
rmmod mlx5_ulp_demo mlx5_ulp
