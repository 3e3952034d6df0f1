#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The measurement of `make bench`, its short cases: the clock counts instructions, and as many
# as single steps find.
#
# functions: pf,vf
# cpus: 4
# clock: instructions
# dmesg-allow: mlx5_ulp_bench: enabling unsafe global rkey
# boot: own
# when: long
# kernels: 7.3
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/bench.sh

bench_begin
bench_measure "$RESULTS/cases" --quick
bench_end

python3 - "$RESULTS/cases" << 'END'
import json, sys

clock, *records = map(json.loads, open(sys.argv[1]))
clock = clock["clock"]
assert (clock["nops"], clock["loop"]) == (1000, 201), clock

# By the case that is measured, and the part that is stepped through.
measured = {(r["case"]["interface"], r["case"]["chain"]): r["result"]
            for r in records if not r["case"]["steps"] and r["case"]["queues"] == 1
            and r["case"]["burst"] == 0 and not r["case"]["params"]}
stepped = 0
for r in records:
    case, part = r["case"], r["case"]["steps"]
    if not part:
        continue
    result = measured[case["interface"], case["chain"]]
    counted = result[part] + (result["dispatch"] if part == "complete" else 0)
    steps = sum("[mlx5_ulp_bench]" not in step for step in r["steps"])
    # What is left is the call in the test module itself, and what it does for each completion.
    assert 0 <= counted - steps <= 20 + 20 * case["chain"], (case, counted, steps)
    assert steps >= 20, (case, steps)
    stepped += 1
assert stepped == 8, stepped
END
