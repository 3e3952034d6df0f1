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

# counted NAME: what the module has counted.
counted() {
	sed -n "s/^$1 //p" $debugfs/mlx5_0/doorbells
}

# seen TEXT: how many of these events the device has seen on queue pairs; the network device's
# queues have numbers from 0x40000 on.
seen() {
	connectx-ctl '{"cmd":"events","function":"pf0","limit":1000000}' | python3 -c '
import json, re, sys
answer = json.load(sys.stdin)
assert answer["ok"], answer
events = [re.search(r"QP(\d+) .*: " + sys.argv[1], e) for e in answer["events"]]
print(sum(1 for e in events if e and 0x101 <= int(e[1]) < 0x40000))
' "$1"
}

# How many WQEs of queue pairs the device has taken.
wqes() {
	connectx-ctl '{"cmd":"counters"}' | python3 -c '
import json, sys
print(json.load(sys.stdin)["functions"]["pf0"]["wqes"])
'
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp doorbell_mode=each
load mlx5_ulp_demo
head -c 1000000 /dev/urandom > /tmp/file
connectx-ctl '{"cmd":"reset-events"}' > /dev/null
before=$(wqes)

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
expect "WQEs that the device has taken" $(($(wqes) - before)) $posted
expect "completion entries that the device has written" "$(seen 'CQE Write')" "$(counted cqes)"
expect "queues that are left" "$(counted queues)" 0
rmmod mlx5_ulp_demo mlx5_ulp
