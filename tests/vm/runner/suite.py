# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs guest tests on one kernel: groups them by shape, boots, judges, and goes on after a loss."""

from __future__ import annotations

import functools
import threading

from . import dmesg
from .connectx import ConnectXError
from .guest import GRACE_SECONDS, STATUS_TIMEOUT, Outcome, VMError
from .guest_test import GuestTest, boots
from .kernel import Kernel
from .parallel import Job
from .paths import LEAKS, shown
from .report import Report
from .vm import VM


def _reason(test: GuestTest, outcome: Outcome) -> str | None:
    """Why the test failed, or None."""
    if outcome.lost:
        return outcome.lost
    if outcome.status == STATUS_TIMEOUT:
        return f"out of time ({test.timeout} s)"
    if outcome.status:
        lines = outcome.text().strip().splitlines()
        last = f": {lines[-1][:200]}" if lines else ""
        return f"exit status {outcome.status}{last}"
    faults = dmesg.faults(outcome.kernel_log, test.dmesg_allow)
    if faults:
        return f"kernel log: {faults[0].text[:200]}"
    return None


class Suite:
    """The guest tests of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        report: Report,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._grace = grace
        self._kernel = kernel
        self._report = report
        self._boots = 0
        self._counting = threading.Lock()

    def run(self, tests: list[GuestTest]) -> None:
        """Runs all tests that want this kernel, one after the other."""
        for job in self.jobs(tests):
            job()

    def jobs(self, tests: list[GuestTest]) -> list[Job]:
        """The same as jobs that can run side by side: each has a VM of its own."""
        wanted = [test for test in tests if test.runs_on(self._kernel.series)]
        return [functools.partial(self._run_group, group) for group in boots(wanted)]

    def _run_group(self, tests: list[GuestTest]) -> None:
        while tests:
            tests = self._boot(tests)

    def _boot(self, tests: list[GuestTest]) -> list[GuestTest]:
        """Runs tests of one shape in one VM; returns those that need another one.

        A test that failed may leave the guest in any state, so the next one gets a fresh VM.
        """
        with self._counting:
            self._boots += 1
            boot = self._boots
        logs = self._report.logs / f"{self._kernel.series}-boot{boot}"
        try:
            with VM(self._kernel, tests[0].shape, logs, self._grace) as vm:
                faults = dmesg.faults(vm.boot_log(), ())
                if faults:
                    raise VMError(f"kernel log at boot: {faults[0].text[:200]}")
                for done, test in enumerate(tests, 1):
                    if not self._run_one(vm, test):
                        return tests[done:]
                if self._kernel.finds_leaks:
                    self._find_leaks(vm, boot)
        except (VMError, ConnectXError) as error:
            self._report.not_ok(self._name(tests[0]), 0, str(error), shown(logs))
            return tests[1:]
        return []

    def _run_one(self, vm: VM, test: GuestTest) -> bool:
        identifier = test.name.replace("/", "-")
        outcome = vm.run(identifier, test.script, test.timeout)
        folder = outcome.output.parent
        folder.mkdir(exist_ok=True)
        (folder / "dmesg").write_text("".join(f"{line}\n" for line in outcome.kernel_log))
        if outcome.lost:
            (folder / "console").write_text(vm.console_tail() + "\n")
        reason = _reason(test, outcome)
        if reason:
            self._report.not_ok(self._name(test), outcome.seconds, reason, shown(folder))
            return False
        self._report.ok(self._name(test), outcome.seconds)
        return True

    def _find_leaks(self, vm: VM, boot: int) -> None:
        """Reports memory that the tests of this VM have lost as a failure of its own."""
        self._run_one(vm, GuestTest(f"leaks/boot{boot}", LEAKS, timeout=60))

    def _name(self, test: GuestTest) -> str:
        return f"{self._kernel.series}/{test.name}"
