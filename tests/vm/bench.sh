#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# In the guest: what posting and completing cost. Leaves a JSON object per line for each
# case in the folder of results. Run as `bench-quick` without the large table.
#
# functions: pf,vf
# cpus: 4
# clock: instructions
# dmesg-allow: mlx5_ulp_bench: enabling unsafe global rkey
# timeout: 600

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/bench.sh

bench_begin
case $RESULTS in
*/bench-quick) bench_measure "$RESULTS/cases" --quick ;;
*) bench_measure "$RESULTS/cases" ;;
esac
bench_end
