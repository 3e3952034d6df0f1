#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Handles that were given back already: calls that may sleep refuse them, and the log says which call it was, and whose.
#
# functions: pf,vf
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_ulp(_cm)?: mlx5_ulp_\w+\(\): no such handle, or given back already; called from [\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+ \[mlx5_ulp_(cm_)?test\] \((insmod|mlx5_ulp_test/[01])\[[0-9]+\]\)$

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/cm.sh

# reported: what the log has against callers, `call caller` a line.
reported() {
	dmesg -t | sed -n 's/^mlx5_ulp\(_cm\)\?: \(\w*\)(): no such handle.* from \(\w*\)[.a-z0-9]*+.* \[\(mlx5_ulp_\w*test\)\].*/\2 \3/p'
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

consumer_load stale
rmmod mlx5_ulp_test
device="mlx5_ulp_close mlx5_ulp_queue_create mlx5_ulp_region_create mlx5_ulp_fast_region_create mlx5_ulp_unsafe_global_key"
queue="destroy address connect drain stop disconnect pin unpin"
want=$(
	printf '%s stale_device\n' $device $device
	printf '%s test_stale\n' mlx5_ulp_queue_drain mlx5_ulp_region_destroy
	printf 'mlx5_ulp_queue_%s stale_queue\n' $queue
	printf '%s test_stale\n' mlx5_ulp_region_destroy mlx5_ulp_fast_region_destroy
)
expect "the log" "$(reported)" "$want"
same_objects "$before"
echo "stale: ok"

consumer_load stale_race
rmmod mlx5_ulp_test
want=$(printf 'mlx5_ulp_%s give_back\n' close queue_destroy region_destroy | sort)
expect "the log" "$(reported | sort)" "$want"
same_objects "$before"
echo "stale_race: ok"
rmmod mlx5_ulp

# Connections and listeners.
cm_up
cm_load stale
rmmod mlx5_ulp_cm_test
expect "the log" "$(reported)" "$(printf 'mlx5_ulp_%s test_stale\n' unlisten conn_disconnect conn_connect conn_destroy)"
cm_down
