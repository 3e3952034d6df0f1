# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make check`: builds, host tests, and the guest tests on each kernel."""

from __future__ import annotations

import argparse
import fnmatch
import sys

from . import build, cargo, guest_test, packaging, parallel, self_test, step
from .guest_test import GuestTest
from .kernel import Kernel
from .parallel import Job
from .paths import run_logs
from .report import Report
from .suite import Suite


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="check", description=__doc__)
    parser.add_argument("--glob", default="*", help="run the tests whose name matches")
    parser.add_argument("--long", action="store_true", help="run what takes long, too")
    parser.add_argument("--kernel", action="append", default=[], help="a kernel series to test on")
    return parser.parse_args()


def _matches(name: str, glob: str) -> bool:
    return fnmatch.fnmatch(name, glob)


def _selected(kernel: Kernel, glob: str, long: bool) -> list[GuestTest]:
    """The guest tests to run on a kernel. A glob may name them with the kernel or without."""
    return [
        test
        for test in guest_test.find()
        if test.runs_on(kernel.series)
        and (long or not test.is_long(kernel.series))
        and (_matches(test.name, glob) or _matches(f"{kernel.series}/{test.name}", glob))
    ]


def guests(report: Report, selection: dict[Kernel, list[GuestTest]]) -> None:
    """Builds what the guest tests need, and runs them. What lacks its build is not run: the
    build has failed already."""
    tests = [test for kernel in selection for test in selection[kernel]]
    connectx = not any(test.shape.functions for test in tests) or build.connectx(report)
    jobs: list[Job] = []
    for kernel in selection:
        if not kernel.available:
            report.skip(kernel.series, "Debian's archive has this kernel series no longer")
            continue
        wanted = [test for test in selection[kernel] if connectx or not test.shape.functions]
        if any(_needs_modules(test) for test in wanted) and not build.modules(report, kernel):
            wanted = [test for test in wanted if not _needs_modules(test)]
        jobs += Suite(kernel, report).jobs(wanted)
    parallel.run(jobs, parallel.vms_at_once())


def _needs_modules(test: GuestTest) -> bool:
    return test.name.startswith(("ulp/", "blk/"))


def main() -> int:
    """Entry point; returns the exit status."""
    options = _arguments()
    report = Report(run_logs("check"))
    if _matches("runner/unit", options.glob):
        unit = ["-m", "unittest", "discover", "-s", "tests/vm/runner", "-t", "tests/vm"]
        step.run(report, "runner/unit", [sys.executable, *unit])
    cargo.run(report, options.glob, options.long)
    kernels = [Kernel(series) for series in options.kernel]
    for kernel in kernels:
        if kernel.available:
            self_test.run(report, kernel, options.glob)
            break
    if options.long:
        for kernel in kernels:
            packaging.run(report, kernel, options.glob)
    selection = {kernel: _selected(kernel, options.glob, options.long) for kernel in kernels}
    guests(report, {kernel: tests for kernel, tests in selection.items() if tests})
    if report.passed + report.failed + report.skipped == 0:
        print(f"no test matches {options.glob}", file=sys.stderr)
        return 2
    return 0 if report.close() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
