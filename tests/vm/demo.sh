#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# In the guest: the demo. Moves this kernel's image from one function to the other, and
# leaves in /results what the module and the software ConnectX say about that.
#
# functions: pf,vf
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

file=/kernels/$KERNEL_SERIES/vmlinuz
run=/sys/kernel/debug/mlx5_ulp_demo/run

# Nothing but the demo is to use the send queues while we count.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
drivers mlx5_0 mlx5_1
network
load mlx5_ulp
load mlx5_ulp_demo

# move FILE
move() {
	echo "src=mlx5_0 dst=mlx5_1 file=$1 size=65536 depth=32" > $run || {
		tr '\n' ' ' < $run
		exit 1
	}
}

# The first queue on a device makes the driver try out write combining, by doorbells of
# its own; that is not to be in the account.
move /etc/passwd
connectx-ctl '{"cmd":"counters"}' > "$RESULTS/before.json"
move "$file"
connectx-ctl '{"cmd":"counters"}' > "$RESULTS/after.json"
cat $run > "$RESULTS/run"

rmmod mlx5_ulp_demo mlx5_ulp
