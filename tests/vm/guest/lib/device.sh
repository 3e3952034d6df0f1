# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash disable=SC2154
#
# For guest tests of the module: what it has counted, and what the device has seen. Source lib/ulp.sh first.

# counted NAME [FILE]: what the module has counted on mlx5_0.
counted() {
	sed -n "s/^$1 //p" "$debugfs/mlx5_0/${2:-doorbells}"
}

# seen TEXT: how many of these events the device has seen on queue pairs of its first function since
# `forget`; the network device's queues have numbers from 0x40000 on.
seen() {
	connectx-ctl '{"cmd":"events","function":"pf0","limit":1000000}' | python3 -c '
import json, re, sys
answer = json.load(sys.stdin)
assert answer["ok"], answer
events = [re.search(r"QP(\d+) .*: " + sys.argv[1], e) for e in answer["events"]]
print(sum(1 for e in events if e and 0x101 <= int(e[1]) < 0x40000))
' "$1"
}

forget() {
	connectx-ctl '{"cmd":"reset-events"}' > /dev/null
}

# device COUNTER: one of the device's counters of its first function, such as mmio.blueflame_wqes.
device() {
	connectx-ctl '{"cmd":"counters"}' | python3 -c '
import functools, json, sys
counters = json.load(sys.stdin)["functions"]["pf0"]
print(functools.reduce(lambda value, name: value[name], sys.argv[1].split("."), counters))
' "$1"
}
