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
	ask '"cmd":"events","function":"pf0","limit":1000000' \
		'[.events[] | capture("QP(?<qpn>\\d+) .*: " + $text).qpn | tonumber | select(. > 256 and . < 262144)] |
		length' --arg text "$1"
}

forget() {
	connectx-ctl '{"cmd":"reset-events"}' > /dev/null
}

# device COUNTER: one of the device's counters of its first function, such as mmio.blueflame_wqes.
device() {
	ask '"cmd":"counters"' ".functions.pf0.$1"
}
