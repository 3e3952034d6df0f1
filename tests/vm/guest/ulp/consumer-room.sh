#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Room in a queue, through the interface in C: what is reserved can be posted when the queue is full, and who
# has found it full hears once that there is room again. Callbacks that sleep.
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
consumer_test reservation exclusive_reservation space space_released drained_full

# Work is done on the module's own workqueue, which has a thread that is there when memory is short.
grep -qx 'kworker/R-mlx5_ulp' /proc/[0-9]*/comm || fail "there is no rescuer of mlx5_ulp"
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs tracefs $tracing
echo > $tracing/trace
echo 1 > $tracing/events/workqueue/workqueue_queue_work/enable
consumer_test in_work
echo 0 > $tracing/events/workqueue/workqueue_queue_work/enable
grep 'function=.*\[mlx5_ulp\]' $tracing/trace > /tmp/queued || fail "no work of mlx5_ulp was seen"
! grep -v 'workqueue=mlx5_ulp ' /tmp/queued || fail "work of mlx5_ulp is on another queue"

same_objects "$before"
rmmod mlx5_ulp
! grep -qx 'kworker/R-mlx5_ulp' /proc/[0-9]*/comm || fail "the workqueue is left behind"
