#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Packets are lost, doubled and overtaken, requests are put off, doorbells get lost: every WRITE is carried out.
#
# functions: pf,vf
# kernels: 7.3, debug
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
for fault in '"kind":"frame-loss"' '"kind":"frame-double"' '"kind":"frame-delay","frames":3' \
	'"kind":"nak","code":"not-ready"' '"kind":"nak","code":"sequence"' '"kind":"doorbell-loss"'; do
	echo "$fault"
	consumer_load steady
	for function in pf0 vf1; do
		rule $function "$fault" '"after":2,"every":9,"count":5'
	done
	# Doorbells are rung and requests made on one side only.
	until_true 60 struck 5 || fail "$fault struck $(hits) times"
	steady_end
	no_more_faults
	all_well
done
same_objects "$before"
rmmod mlx5_ulp
