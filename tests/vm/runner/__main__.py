# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Command line of tests/vm/run."""

from __future__ import annotations

import argparse
import shutil
import sys

from . import guest_test
from .connectx import ConnectXError
from .guest import STATUS_TIMEOUT, VMError
from .guest_test import Shape
from .kernel import Kernel
from .paths import run_logs, shown
from .report import Report
from .suite import Suite
from .vm import VM


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/vm/run",
        description="Boot a VM with software ConnectX functions, and run guest tests or one command in it.",
    )
    parser.add_argument("--kernel", default="7.3", help="kernel series: 7.3, 7.2 or debug")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--test", metavar="GLOB", help="run the guest tests whose name (area/name) matches")
    what.add_argument("--shell", metavar="COMMAND", help="run one command line, print its output, power off")
    what.add_argument("--list", action="store_true", help="list the guest tests")
    shell = parser.add_argument_group("the VM for --shell (tests declare their own)")
    shell.add_argument("--functions", default="", help="ConnectX functions, for instance pf,vf")
    shell.add_argument("--cpus", type=int, default=2)
    shell.add_argument("--memory", type=int, default=2048, help="in MiB")
    shell.add_argument("--timeout", type=int, default=600, help="in seconds")
    shell.add_argument("--connectx", default="", help="more arguments for the software ConnectX")
    shell.add_argument("--count-instructions", action="store_true", help="the guest's clock counts them")
    shell.add_argument("--dmesg", action="store_true", help="print the kernel log, too")
    return parser.parse_args()


def _shell(kernel: Kernel, options: argparse.Namespace) -> int:
    """Runs one command line; its exit status is ours. Logs are kept if it fails."""
    shape = Shape(
        functions=guest_test.split_list(options.functions),
        cpus=options.cpus,
        memory=options.memory,
        connectx=tuple(options.connectx.split()),
        counts_instructions=options.count_instructions,
    )
    logs = run_logs("shell")
    script = logs / "script"
    script.write_text(f"#!/bin/bash\n{options.shell}\n")
    script.chmod(0o755)
    with VM(kernel, shape, logs) as vm:
        outcome = vm.run("shell", script, options.timeout)
        sys.stdout.write(outcome.text())
        if options.dmesg:
            for line in vm.boot_log() + outcome.kernel_log:
                print(line)
        if outcome.lost:
            print(vm.console_tail())
            print(f"tests/vm/run: {outcome.lost}; logs: {shown(logs)}", file=sys.stderr)
            return 1
        if outcome.status == STATUS_TIMEOUT:
            print(f"tests/vm/run: out of time ({options.timeout} s)", file=sys.stderr)
    if outcome.status == 0:
        shutil.rmtree(logs)
    return outcome.status or 0


def main() -> int:
    """Entry point; returns the exit status."""
    options = _arguments()
    kernel = Kernel(options.kernel)
    if options.list:
        for test in guest_test.find():
            print(test.name)
        return 0
    try:
        if options.shell is not None:
            return _shell(kernel, options)
    except (VMError, ConnectXError) as error:
        print(f"tests/vm/run: {error}", file=sys.stderr)
        return 1
    report = Report(run_logs("test"))
    tests = guest_test.find(glob=options.test)
    if not tests:
        print(f"tests/vm/run: no guest test matches {options.test}", file=sys.stderr)
        return 2
    Suite(kernel, report).run(tests)
    return 0 if report.close() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
