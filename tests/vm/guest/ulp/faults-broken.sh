#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A completion queue breaks, the device works: what is in flight ends by itself, and the device has let go of its memory
# by then.
#
# functions: pf,vf
# kernels: 7.3, debug
# timeout: 300
# dmesg-allow: mlx5_core [0-9a-f:.]+: cq_err_event_notifier:[0-9]+:\(pid [0-9]+\): CQ error on CQN 0x[0-9a-f]+, syndrome 0x0
# dmesg-allow: mlx5_ulp: completion queue 0x[0-9a-f]+ is broken
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh
. /src/tests/vm/guest/lib/faults.sh

# MLX5_EVENT_TYPE_CQ_ERROR
CQ_ERROR=4
# The event queue of mlx5_core for such events: behind that of commands.
ASYNC=1

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
consumer_load broken
inject vf1 "\"kind\":\"eqe\",\"eqn\":$ASYNC,\"event\":$CQ_ERROR,\"number\":$(connection vf1 receive_cq)"
rmmod mlx5_ulp_test
dmesg -t | grep -q 'broken, at the end: ok' || fail "$(dmesg -t | grep mlx5_ulp_test | tail -4 | tr '\n' ';')"
same_objects "$before"
rmmod mlx5_ulp
