#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# No completion is lost between the last look and the arming, when the device holds completions back and
# writes them in bunches, at any moment.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

# delay NANOSECONDS BUNCH: completions of the function wait in the device.
delay() {
	no_more_faults
	rule pf0 "\"kind\":\"cqe-delay\",\"ns\":$1,\"bunch\":$2" '"count":0'
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

for mode in interrupt hybrid polling; do
	echo $mode > $params/cq_moderation
	# One at a time: who misses one waits for ever.
	for ns in 1000 100000 1000000; do
		delay $ns 3
		consumer_test from_completion
	done
	delay 300000 7
	consumer_test posters
done
no_more_faults
rmmod mlx5_ulp
