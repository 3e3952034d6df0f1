#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Adjacent WRITEs become one WQE, and each of them completes by itself, in order, also on error.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: remote access error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# costs BYTES WQES: for 16 pages and for 16 that fail.
costs() {
	forget
	local bytes wqes
	bytes=$(counted bytes_fetched wqe)
	wqes=$(counted wqes wqe)
	consumer_test merged
	expect "bytes to fetch" "$(($(counted bytes_fetched wqe) - bytes))" "$1"
	expect "WQEs" "$(($(counted wqes wqe) - wqes))" "$2"
	expect "doorbells that the device has seen" "$(seen 'Doorbell Write')" 2
}

# each LINES BYTES BYTES-OF-A-REQUEST: what a WQE costs the device since the module was loaded.
each() {
	expect "cache lines of a WQE" "$(counted cache_lines_per_wqe wqe)" "$1"
	expect "bytes of a WQE" "$(counted bytes_per_wqe wqe)" "$2"
	expect "bytes of a request" "$(counted bytes_per_request wqe)" "$3"
}

# as_counted: the device has fetched what we say. Now and then the network device sends a frame meanwhile.
as_counted() {
	local try counted fetched
	for try in {1..10}; do
		counted=$(counted bytes_fetched wqe) fetched=$(device dma_reads.wqe_fetch.bytes)
		consumer_test merged
		counted=$(($(counted bytes_fetched wqe) - counted))
		fetched=$(($(device dma_reads.wqe_fetch.bytes) - fetched))
		[ $fetched -ge $counted ] || break
		[ $fetched -gt $counted ] || return 0
	done
	fail "try $try: counted $counted bytes, the device has fetched $fetched"
}

ipv6 off
drivers mlx5_0 mlx5_1
network
load mlx5_ulp

each 0.00 0.00 0.00
costs $((2 * 16 * 64)) 32
each 1.00 64.00 64.00
set_param wqe_compression 'enabled=1'
# 18 segments of 16 bytes are five basic blocks: 20 bytes for a page.
costs $((2 * 5 * 64)) 2
expect "merged" "$(counted merged wqe)" 30
# 32 of one line and 2 of five, for 64 requests.
each 1.23 79.05 42.00
as_counted
# WRITEs that are too small are left alone.
set_param wqe_compression 'min_send_size=4097'
costs $((2 * 16 * 64)) 32
set_param wqe_compression 'min_send_size=0'
consumer_test shapes wrap exclusive unsignaled
expect "completed" "$(counted completed)" "$(counted posted)"
rmmod mlx5_ulp
