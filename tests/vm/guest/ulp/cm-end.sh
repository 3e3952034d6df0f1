#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Connections end while work is in flight, by either side, by the consumer's unloading, by the removal of the device in
# either order of the clients: every request ends once, nothing is left behind. Connections are given up before they are
# made.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/cm.sh

# stayed CLOSED STATUS: how the connection that stayed has ended for both sides, before the consumer gave it back.
stayed() {
	local line
	line=$(dmesg -t | sed -n 's/^mlx5_ulp_cm_test: stay: \([ce]\)/\1/p' | tr '\n' ' ')
	expect "the end" "$line" "closed $1 $1 status $2 $2 ended 16 flushed 16 "
}

cm_up
before=$(objects)
cm_run leave_busy left_busy destroy_busy

# Connections that are given up: before the peer is asked, while it answers, and when it does not. It would be asked
# 16 times, over a minute.
cm_run cancel_first cancel_answered
silence pf0 1
cm_run cancel_unanswered
asked=$(hits)
echo "asked $asked times"
[ "$asked" -lt 16 ] || fail "the peer was asked $asked times"
no_more_faults

# The consumer goes.
cm_load stay
! rmmod mlx5_ulp_cm 2> /dev/null || fail "mlx5_ulp_cm could be removed under its consumer"
rmmod mlx5_ulp_cm_test
stayed 0 0
same_objects "$before"

# The RDMA device goes. Clients hear of it in the reverse order of their registration: rdma_cm first here.
cm_load stay
rmmod mlx5_ib
rmmod mlx5_ulp_cm_test
stayed 1 -19
cm_down

# Our module first.
rmmod rdma_cm
modprobe rdma_cm
cm_up
cm_load stay
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
rmmod mlx5_ulp_cm_test
stayed 1 -19
cm_down
rmmod mlx5_ib mlx5_core
