#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card is pulled out under load from four CPUs: every request ends exactly once, no memory is given up, and all
# can be unloaded.
#
# functions: pf:command-timeout=20,vf
# cpus: 4
# boot: own
# kernels: 7.3, debug
# timeout: 240
# dmesg-allow-of: card-pulled-out card-silent

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")

pull() {
	inject pf0 '"kind":"remove"'
	echo 1 > "/sys/bus/pci/devices/$pci/remove"
}
mortal pull
dmesg -t | grep -q 'mortal: .*refused -19' || fail "the queue is not gone"
expect "what is left" "$(attached)" "mlx5_1 "
rmmod mlx5_ulp
rmmod mlx5_ib
