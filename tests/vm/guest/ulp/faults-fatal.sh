#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The firmware dies under load: every request ends, the consumer is told, and all can be unloaded.
#
# functions: pf,vf
# boot: own
# kernels: 7.3, debug
# timeout: 240
# dmesg-allow-of: firmware-died

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
consumer_load steady
sleep 0.2
inject pf0 '"kind":"fatal","syndrome":1'
until_true 60 sh -c 'dmesg | grep -q "mlx5_core.*\(error state\|Fatal\|fatal\|health\)"' ||
	fail "mlx5_core does not notice"
sleep 2
steady_end
expect "a post to the dead device" "${load[refused]}" -19
expect "a queue on the dead device" "${load[another]}" -19
rmmod mlx5_ulp
rmmod mlx5_ib
# What the driver tries with the card is not to go on under what follows.
recovered() {
	dmesg | grep -q 'mlx5_core.* health recovery \(failed\|succeeded\)'
}
until_true 60 recovered || fail "mlx5_core does not come to an end"
