#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock drivers do not care what stands in reserved fields of what the device writes.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# connectx: --scramble-reserved --canary-pages
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

for round in 1 2; do
	up 0 1
	ibv_devinfo -v > "$RESULTS/devinfo-$round"
	down
	nothing_left || fail "after round $round"
done
