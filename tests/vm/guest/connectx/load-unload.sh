#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock drivers load, bring the port up and unload twenty times in a row, and leave nothing.
#
# functions: pf
# cpus: 2
# connectx: --canary-pages
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0
down
for _ in {2..20}; do
	modprobe mlx5_ib
	until_true 20 test -e /sys/class/infiniband/mlx5_0
	ip link set "$(netdev 0)" up
	down
done
# The device adds up what was left each time.
nothing_left
