# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Shows that the runner sees each kind of failure: scripts that must fail, and how."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import time
from pathlib import Path

from . import guest_test
from .guest_test import GuestTest
from .kernel import Kernel
from .paths import CHECKOUT, shown
from .report import Report
from .suite import Suite

# The one guest that hangs need not be waited for as long as one that may still come back.
_GRACE_SECONDS = 20

SCRIPTS = CHECKOUT / "tests/vm/self-test"

# The reason that each script must fail for; None: it must pass.
EXPECTED: dict[str, str | None] = {
    "announced": None,
    "exit-status": r"exit status 3: the last line says why",
    "kernel-warning": r"kernel log: WARNING: CPU: 0 PID: 1 at ",
    "driver-error": r"kernel log: mlx5_core 0000:01:00\.0: .* error",
    "test-hangs": r"out of time \(3 s\)",
    "survivors": None,
    "panic": r"Kernel panic - not syncing: sysrq triggered crash",
    "guest-hangs": r"the guest hangs",
}


@dataclasses.dataclass
class _Result:
    seconds: float
    reason: str | None


class _Recorder(Report):
    """Keeps the results instead of printing them."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logs)
        self.results: dict[str, _Result] = {}

    def ok(self, name: str, seconds: float) -> None:
        self.results[name.rsplit("/", 1)[1]] = _Result(seconds, None)

    def not_ok(self, name: str, seconds: float, reason: str, log: str) -> None:
        self.results[name.rsplit("/", 1)[1]] = _Result(seconds, reason)


def _tests(glob: str) -> list[GuestTest]:
    return [
        guest_test.parse(f"runner/{name}", SCRIPTS / f"{name}.sh")
        for name in EXPECTED
        if fnmatch.fnmatch(f"runner/{name}", glob)
    ]


def run(report: Report, kernel: Kernel, glob: str) -> None:
    """Runs the scripts on `kernel`, in this order, and judges what the runner made of them."""
    tests = _tests(glob)
    if not tests:
        return
    logs = report.logs / "self-test"
    logs.mkdir()
    recorder = _Recorder(logs)
    start = time.monotonic()
    Suite(kernel, recorder, grace=_GRACE_SECONDS).run(tests)
    for test in tests:
        name = test.script.stem
        expected = EXPECTED[name]
        result = recorder.results.get(name)
        if result is None:
            report.not_ok(test.name, time.monotonic() - start, "it was not run", shown(logs))
        elif expected is None and result.reason is not None:
            report.not_ok(test.name, result.seconds, f"should pass: {result.reason}", shown(logs))
        elif expected is not None and not re.search(expected, result.reason or ""):
            reason = f"should fail for {expected}, not: {result.reason}"
            report.not_ok(test.name, result.seconds, reason, shown(logs))
        else:
            report.ok(test.name, result.seconds)
