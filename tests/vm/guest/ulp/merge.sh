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

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

costs $((2 * 16 * 64)) 32
set_param wqe_compression 'enabled=1'
# 18 segments of 16 bytes are five basic blocks: 20 bytes for a page.
costs $((2 * 5 * 64)) 2
expect "merged" "$(counted merged wqe)" 30
# WRITEs that are too small are left alone.
set_param wqe_compression 'min_send_size=4097'
costs $((2 * 16 * 64)) 32
set_param wqe_compression 'min_send_size=0'
consumer_test shapes wrap exclusive unsignaled
expect "completed" "$(counted completed)" "$(counted posted)"
rmmod mlx5_ulp
