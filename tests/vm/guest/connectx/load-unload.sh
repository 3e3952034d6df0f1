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

for round in {1..20}; do
	up 0
	down
	nothing_left || fail "after round $round"
done
