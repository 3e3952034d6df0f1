#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Each queue has a doorbell register of its own, whose halves are used in turn: as the device sees it.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
consumer_load registers

# One line for each of the four queues: page, register in it, doorbells in its first and in its second half.
rung=$(ask '"cmd":"counters"' '[.functions.pf0.qps[] | select(.service == "Rc") | .uar as $uar | .stats.halves |
	[range(0; length; 2) as $half | select(.[$half] + .[$half + 1] > 0) |
		"\($uar) \($half / 2) \(.[$half]) \(.[$half + 1])"] | .[]] | join("\n")')
echo "$rung"
expect "registers" "$(sort -u <<< "$rung" | cut -d' ' -f1,2 | uniq | wc -l)" 4
expect "doorbells in each half" "$(cut -d' ' -f3,4 <<< "$rung" | sort -u)" "5 5"
rmmod mlx5_ulp_test
same_objects "$before"
rmmod mlx5_ulp
