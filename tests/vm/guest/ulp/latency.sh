#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Latencies are measured stage by stage while that is on, and not while it is off; the device's clock and
# ours agree; what the device delays shows in the stage where it was delayed.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 240

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

# value LINE NAME: a number of a line of the view.
value() {
	awk -v line="$1" -v name="$2" '
		index($0, line " ") == 1 { for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }
	' $debugfs/mlx5_0/latency
}

stages='fill_to_doorbell doorbell_to_device device_to_poll poll_to_callback'
drivers mlx5_0 mlx5_1
network
load mlx5_ulp

consumer_test from_completion
for stage in $stages; do
	expect "samples of $stage while it is off" "$(value $stage count)" 0
done

echo on > $params/latency_stats
consumer_test from_completion posters
cat $debugfs/mlx5_0/latency
for stage in $stages 'opcode RDMA_WRITE'; do
	[ "$(value "$stage" count)" -ge 1000 ] || fail "$stage has $(value "$stage" count) samples"
	expect "samples of $stage" "$(value "$stage" count)" "$(value fill_to_doorbell count)"
done
# A request takes as long as its stages, on the whole: the clocks agree. Stages end at zero, and the reading
# of a clock is not exact.
sum=0
for stage in $stages; do
	sum=$((sum + $(value $stage mean)))
done
whole=$(value 'opcode RDMA_WRITE' mean)
[ $sum -ge $((whole / 2)) ] && [ $sum -le $((whole * 2)) ] || fail "stages add up to $sum ns of $whole"

# The device stamps an entry when the WQE was carried out and writes it 3 ms later.
echo 1 > $debugfs/mlx5_0/reset
expect "samples after a reset" "$(value fill_to_doorbell count)" 0
rule pf0 '"kind":"cqe-delay","ns":3000000,"bunch":64' '"count":0'
consumer_test from_completion
no_more_faults
cat $debugfs/mlx5_0/latency
late=$(($(value doorbell_to_device p50) + $(value device_to_poll p50)))
[ $late -ge 3000000 ] || fail "a delay of 3 ms shows as $late ns"
# It is the second of the two, as far as the clocks agree.
[ "$(value device_to_poll p50)" -ge 2000000 ] || fail "$(value device_to_poll p50) ns of 3 ms are behind the stamp"

echo off > $params/latency_stats
before=$(value fill_to_doorbell count)
consumer_test from_completion
expect "samples after it was turned off" "$(value fill_to_doorbell count)" "$before"
rmmod mlx5_ulp
