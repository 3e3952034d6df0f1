# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make bench`: what posting and completing cost, side by side with mlx5_ib.

Writes build/bench.json; says what has changed since the last result,
Documentation/bench.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .. import dmesg, guest_test, make
from ..connectx import ConnectXError
from ..guest import VMError
from ..kernel import Kernel
from ..paths import BUILD, CHECKOUT, MODULES, run_logs, shown
from ..vm import VM
from . import cases, figures, functions, records, table

_SCRIPT = CHECKOUT / "tests/vm/bench.sh"
_LAST = CHECKOUT / "Documentation/bench.json"
_DOCUMENT = CHECKOUT / "Documentation/bench.rst"
# What follows it in the document is the last result.
_MARK = ".. The rest is written by `make bench KEEP=1`.\n"


class BenchError(Exception):
    """The measurement did not come to its end."""


def _measure(kernel: Kernel, logs: Path, quick: bool) -> Path:
    """Runs the cases in a VM. Returns where the guest has left the records."""
    test = guest_test.parse("bench", _SCRIPT)
    print(f"measuring on {kernel.release}, all instructions one by one ...", flush=True)
    with VM(kernel, test.shape, logs) as vm:
        outcome = vm.run("bench-quick" if quick else "bench", test.script, test.timeout)
        if outcome.lost:
            raise BenchError(f"{outcome.lost}\n{vm.console_tail(20)}")
        if outcome.status:
            raise BenchError(f"exit status {outcome.status}: {outcome.text().strip()}")
        faults = dmesg.faults(outcome.kernel_log, test.dmesg_allow)
        if faults:
            raise BenchError(f"the kernel log says: {faults[0].text}")
        return outcome.output.parent / "cases"


def _functions(run: records.Records, kernel: Kernel) -> dict[str, dict[str, dict[str, int]]]:
    """For each figure that was stepped through, the instructions of each side by function."""
    module = MODULES / kernel.series / "rust/mlx5_ulp/mlx5_ulp.ko"
    answer: dict[str, dict[str, dict[str, int]]] = {}
    for name, case in cases.STEPS.items():
        for side in (case, case.beside(cases.VERBS)):
            record = run.find(side)
            if record:
                answer.setdefault(name, {})[side.interface] = functions.count(record.steps, module)
    return answer


def _result(run: records.Records, kernel: Kernel) -> dict[str, Any]:
    """What stands in bench.json."""
    return {
        "kernel": kernel.release,
        "clock": run.clock,
        "figures": {figure.name: figure.json() for figure in figures.figures(run)},
        "functions": _functions(run, kernel),
    }


def _tables(run: records.Records, result: dict[str, Any]) -> str:
    """The tables, as reStructuredText."""
    clock = run.clock
    parts = [
        f"On {result['kernel']}. The clock: {clock['nops']} for 1000 nops, {clock['loop']} for a loop of "
        f"201 instructions, {clock['empty']} for the reading itself, which is subtracted; "
        f"{clock['differing']} of {3 * clock['repetitions']} readings differed.\n{table.differing(run)}",
        table.title("Figures"),
        table.of_figures(figures.figures(run)),
        table.title("Aims that are not reached"),
        "\n".join(f"* {sentence}" for sentence in figures.judgements(figures.figures(run))) or "None.",
        table.title("Side by side"),
        table.of_matrix(run),
        table.title("Where the instructions go"),
    ]
    for name, counts in result["functions"].items():
        for side, by_name in counts.items():
            parts += [f"{name}, {side}, one call:", table.of_functions(by_name)]
    return "\n\n".join(parts) + "\n"


def _keep(result: dict[str, Any], tables: str) -> None:
    """Makes this the last result."""
    _LAST.write_text(json.dumps(result, indent=1) + "\n")
    text = _DOCUMENT.read_text()
    _DOCUMENT.write_text(text[: text.index(_MARK) + len(_MARK)] + "\n" + tables)


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--cases", type=Path, help="report this file of records, measure nothing")
    parser.add_argument("--keep", action="store_true", help="make it the last result, under Documentation/")
    parser.add_argument("--quick", action="store_true", help="leave out the large table")
    options = parser.parse_args()
    if options.keep and options.quick:
        parser.error("a quick result is not kept")
    kernel = Kernel(options.kernel)
    if not options.cases and not (make.modules(kernel) and make.connectx()):
        return 1
    logs = run_logs("bench")
    try:
        path = options.cases or _measure(kernel, logs, options.quick)
        run = records.read(path)
    except (BenchError, VMError, ConnectXError) as error:
        print(f"bench: not ok: {error}; logs: {shown(logs)}")
        return 1
    result = _result(run, kernel)
    tables = _tables(run, result)
    (BUILD / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{tables}")
    changed = figures.changes(figures.figures(run), _LAST)
    print("changes above 3 % since the last result:" if changed else "no change above 3 % since the last result")
    print("".join(f"  {change}\n" for change in changed), end="")
    if options.keep:
        _keep(result, tables)
    print(f"bench: ok: {shown(BUILD / 'bench.json')}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
