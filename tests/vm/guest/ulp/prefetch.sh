#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A post asks the CPU for the next place in the ring and for the doorbell record when it is to, and else for nothing.
# That changes nothing that a device or a consumer could see.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# places: the addresses of the module's instructions that ask for memory to write to, one a line. The symbols of the
# kernel say where the functions are.
places() {
	objdump -d --no-show-raw-insn "$modules/mlx5_ulp/mlx5_ulp.ko" | python3 -c '
import re, sys
symbols = {}
for line in open("/proc/kallsyms"):
    address, _, name, *module = line.split()
    if module == ["[mlx5_ulp]"]:
        symbols[name] = int(address, 16)
for line in sys.stdin:
    if start := re.match(r"([0-9a-f]+) <(.*)>:", line):
        begin, function = int(start[1], 16), start[2]
    elif at := re.match(r" *([0-9a-f]+):\s+prefetchw", line):
        print(hex(symbols[function] + int(at[1], 16) - begin))
'
}

# passed PLACES: how often 100 posts have come by.
passed() {
	consumer_load prefetch "places=$1"
	rmmod mlx5_ulp_test
	expect "places" "$(dmesg -t | sed -n 's/^mlx5_ulp_test: prefetch: [0-9]* at //p')" "$(tr , '\n' <<< "$1" | wc -l) places"
	dmesg -t | sed -n 's/^mlx5_ulp_test: prefetch: \([0-9]*\) .*/\1/p'
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
places=$(places | paste -sd ,)
expect "prefetches while it is off" "$(passed "$places")" 0
set_param prefetch on
expect "prefetches for 100 posts" "$(passed "$places")" 200

consumer_test wrap lone posters
expect "completed" "$(counted completed)" "$(counted posted)"
rmmod mlx5_ulp
