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

cd /src/tests/vm
python3 -B - "$RESULTS/cases" << 'END'
import sys
from pathlib import Path
from runner.bench import cases, figures, records

run = records.read(Path(sys.argv[1]))
assert (run.clock["nops"], run.clock["loop"]) == (1000, 201), run.clock

stepped = 0
for name, case in cases.STEPS.items():
    for side in (case, case.beside(cases.VERBS)):
        steps = sum("[mlx5_ulp_bench]" not in step for step in run.find(side).steps)
        measured = run.find({"post_single": cases.SINGLE, "complete_single": cases.SINGLE}.get(name, cases.BATCH16)
                            .beside(side.interface))
        counted = measured.cost(case.steps).instructions
        if case.steps == "complete":
            counted += measured.cost("dispatch").instructions
        # What is left is the call in the test module itself, and what it does for each completion.
        assert 0 <= counted - steps <= 20 + 20 * case.chain, (name, side.interface, counted, steps)
        assert steps >= 20, (name, side.interface, steps)
        stepped += 1
assert stepped == 8, stepped

every = figures.figures(run)
missing = {definition.name for definition in figures.DEFINITIONS} - {figure.name for figure in every}
assert not missing, missing
missed = figures.judgements(every)
assert not missed, missed
END
