#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card is pulled out under load: every request ends, the consumer is told, and all can be unloaded.
#
# functions: pf,vf
# boot: own
# kernels: 7.3, debug
# timeout: 240
# dmesg-allow: mlx5_(core|ib|ulp).*
# dmesg-allow: infiniband mlx5_0.*
# dmesg-allow: pcieport .*

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
consumer_load steady
sleep 0.2
inject pf0 '"kind":"remove"'
echo 1 > "/sys/bus/pci/devices/$pci/remove"
steady_end
expect "what is left" "$(attached)" "mlx5_1 "
rmmod mlx5_ulp
rmmod mlx5_ib
