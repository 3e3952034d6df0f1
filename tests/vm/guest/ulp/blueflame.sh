#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A lone WRITE with inline payload goes to the device in the doorbell itself: it fetches neither a WQE nor
# payload. Prefetching changes nothing that a device or a consumer could see.
#
# functions: pf,vf
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# reads: WQEs of queue pairs that the device has fetched from memory, and its reads of payload.
reads() {
	echo "$(($(device wqes) - $(device wqes_from_blueflame))) $(device dma_reads.payload.accesses)"
}

# posted TEST WQES PAYLOADS: runs it, and compares what the device had to read.
posted() {
	local before now
	read -ra before <<< "$(reads)"
	consumer_test "$1"
	read -ra now <<< "$(reads)"
	expect "WQE fetches" $((now[0] - before[0])) "$2"
	expect "payload reads" $((now[1] - before[1])) "$3"
}

# Nothing but the tests is to use send queues.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

# The first queue on a device makes the driver try out write combining, by WQEs of its own.
consumer_test full
copies=$(device mmio.blueflame_wqes)
fetched=$(counted bytes_fetched wqe)
posted lone_inline 0 0
expect "WQEs that the device got whole" "$(($(device mmio.blueflame_wqes) - copies))" 50
expect "WQEs that went whole" "$(counted blueflame wqe)" 50
expect "bytes that the device had to fetch" "$(counted bytes_fetched wqe)" "$fetched"

# Longer than the parameter allows, or switched off: by memory, two blocks each.
for setting in 'max_inline 63' 'blueflame off'; do
	set_param max_inline 220
	set_param $setting
	bytes=$(counted bytes_fetched wqe)
	posted lone_inline 50 0
	expect "bytes to fetch with $setting" "$(($(counted bytes_fetched wqe) - bytes))" $((50 * 128))
done
expect "WQEs that went whole" "$(counted blueflame wqe)" 50

# Without inline payload: when asked for. The payload is read then.
set_param blueflame on
posted lone 0 100
set_param blueflame auto
posted lone 100 100
expect "WQEs that went whole" "$(counted blueflame wqe)" 150

set_param prefetch on
consumer_test wrap lone posters
expect "completed" "$(counted completed)" "$(counted posted)"
rmmod mlx5_ulp
