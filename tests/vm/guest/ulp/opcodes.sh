#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What was posted is told apart by opcode, also while latencies are not measured; many atomics are worth a warning.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|memory window bind error|local QP operation error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# posted OPCODE: how many requests, by the view; nothing if there is no line.
posted() {
	awk -v opcode="$1" '$1 == "opcode" && $2 == opcode && $3 == "posted" { print $4 }' $debugfs/mlx5_0/latency
}

# adds_up: all that was posted has an opcode.
adds_up() {
	local sum
	sum=$(awk '$1 == "opcode" { sum += $4 } END { print sum + 0 }' $debugfs/mlx5_0/latency)
	expect "requests of all opcodes" "$sum" "$(counted posted)"
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
consumer_test from_completion
expect "WRITEs" "$(posted RDMA_WRITE)" 1000
[ "$(awk '$2 == "RDMA_WRITE" && $5 == "per_second" { print $6 }' $debugfs/mlx5_0/latency)" -ge 1 ] || fail "no rate"
expect "a line of what was not posted" "$(posted ATOMIC_CS)" ""
expect "atomics" "$(counted atomics) $(counted atomics_percent)" "0 0.00"

# 2 and 66 of about 1,070 are few; 4 and 132 of about 1,140 are many.
consumer_test atomics
expect "atomics by opcode" "$(posted ATOMIC_CS) $(posted ATOMIC_FA)" "2 66"
expect "atomics" "$(counted atomics)" 68
! grep -q '^warning' $debugfs/mlx5_0/doorbells || fail "a warning of $(counted atomics_percent) %"
consumer_test atomics
expect "atomics, twice" "$(counted atomics)" 136
grep -q '^warning more than 10 % of the requests are atomics: ' $debugfs/mlx5_0/doorbells ||
	fail "no warning of $(counted atomics_percent) %"
adds_up

echo 1 > $debugfs/mlx5_0/reset
expect "after a reset" "$(counted atomics) $(posted RDMA_WRITE)" "0 "
! grep -q '^warning' $debugfs/mlx5_0/doorbells || fail "a warning of nothing"
consumer_test read messages registration registered_source unsignaled
for opcode in RDMA_READ RDMA_WRITE_IMM SEND SEND_IMM SEND_INVAL UMR NOP; do
	[ "$(posted $opcode)" -ge 1 ] || fail "$opcode: '$(posted $opcode)': $(grep opcode $debugfs/mlx5_0/latency)"
done
adds_up
rmmod mlx5_ulp
