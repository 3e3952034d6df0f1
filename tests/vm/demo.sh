#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# In the guest: the demo. Moves this kernel's image from one function to the other, with one
# setting of the send path after the other, and leaves in /results what the module and the
# software ConnectX say about each.
#
# functions: pf,vf
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

file=/kernels/$KERNEL_SERIES/vmlinuz
run=/sys/kernel/debug/mlx5_ulp_demo/run

# Nothing but the demo is to use the send queues while we count.
ipv6 off
drivers mlx5_0 mlx5_1
network
load mlx5_ulp
load mlx5_ulp_demo

params=/sys/class/infiniband/mlx5_0/params

# move FILE [OPTION...]
move() {
	echo "src=mlx5_0 dst=mlx5_1 file=$1 size=16384 depth=64 ${*:2}" > $run || {
		tr '\n' ' ' < $run
		exit 1
	}
}

# measure NAME [OPTION...]: moves the image, and keeps what was counted.
measure() {
	connectx-ctl '{"cmd":"counters"}' > "$RESULTS/$1.before.json"
	move "$file" "${@:2}"
	connectx-ctl '{"cmd":"counters"}' > "$RESULTS/$1.after.json"
	cat $run > "$RESULTS/$1.run"
}

# The first queue on a device makes the driver try out write combining, by doorbells of
# its own; that is not to be in the account.
move /etc/passwd

for mode in each batch adaptive; do
	echo $mode > $params/doorbell_mode
	measure $mode
done
echo enabled=1 > $params/wqe_compression
measure merge chain=16
echo enabled=0 > $params/wqe_compression
echo each > $params/doorbell_mode
echo on > $params/blueflame
measure blueflame

rmmod mlx5_ulp_demo mlx5_ulp
