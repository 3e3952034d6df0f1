#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A lone WRITE with inline payload goes to the device in the doorbell itself: it fetches neither a WQE nor
# payload.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# reads: WQEs of queue pairs that the device has fetched from memory, and its reads of payload.
reads() {
	echo "$(($(device wqes) - $(device wqes_from_blueflame))) $(device dma_reads.payload.accesses)"
}

# observe TEST: runs it; `observed` is what the device had to read, and how many WQEs it got whole.
observe() {
	local before now
	read -ra before <<< "$(reads) $(device mmio.blueflame_wqes)"
	consumer_test "$1"
	read -ra now <<< "$(reads) $(device mmio.blueflame_wqes)"
	observed="$((now[0] - before[0])) $((now[1] - before[1])) $((now[2] - before[2]))"
}

# posted TEST WQES PAYLOADS WHOLE: what the device had to read, and how many WQEs it got whole. Where it
# was let down before, and where this machine stops the guest in the middle of a copy, the device does not
# wait for the rest: so one round of five has to be as it should.
posted() {
	local round
	for round in 1 2 3 4 5; do
		observe "$1"
		[ "$observed" != "$2 $3 $4" ] || return 0
		echo "$1, round $round: $observed"
	done
	fail "$1: WQE fetches, payload reads, whole WQEs are '$observed', should be '$2 $3 $4'"
}

# Nothing but the tests is to use send queues; the tests behind this one are free to.
trap 'ipv6 on' EXIT
ipv6 off

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

fetched=$(counted bytes_fetched wqe)
posted lone_inline 0 0 50
[ "$(counted blueflame wqe)" -ge 50 ] || fail "WQEs that went whole: $(counted blueflame wqe)"
expect "bytes that the device had to fetch" "$(counted bytes_fetched wqe)" "$fetched"

# Longer than the parameter allows, or switched off: by memory, two blocks each.
went=$(counted blueflame wqe)
for setting in 'max_inline 63' 'blueflame off'; do
	set_param max_inline 220
	set_param $setting
	bytes=$(counted bytes_fetched wqe)
	observe lone_inline
	expect "what the device had to read with $setting" "$observed" "50 0 0"
	expect "bytes to fetch with $setting" "$(($(counted bytes_fetched wqe) - bytes))" $((50 * 128))
done
expect "WQEs that went whole when they must not" "$(counted blueflame wqe)" "$went"

# Without inline payload: when asked for. The payload is read then.
set_param blueflame on
posted lone 0 100 100
[ "$(counted blueflame wqe)" -ge $((went + 100)) ] || fail "WQEs did not go whole"
set_param blueflame auto
went=$(counted blueflame wqe)
observe lone
expect "what the device had to read by auto" "$observed" "100 100 0"
expect "WQEs that went whole by auto" "$(counted blueflame wqe)" "$went"
rmmod mlx5_ulp
