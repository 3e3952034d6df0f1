#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The cable is pulled out under load: each request ends, the first with a time-out. With the cable, all works again.
#
# functions: pf,vf
# kernels: 7.3, debug
# timeout: 180
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

consumer_load steady
inject pf0 '"kind":"port","up":false'
sleep 5
inject pf0 '"kind":"port","up":true'
steady_end
expect "failed requests, syndrome" "${load[failed]} ${load[syndrome]}" "1 0x15"

until_true 20 active mlx5_0 || fail "the port does not come back"
consumer_load steady
sleep 1
steady_end
all_well
same_objects "$before"
rmmod mlx5_ulp
