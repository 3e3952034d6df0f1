# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs guest tests on one kernel: groups them by shape, boots, judges, and goes on after a loss."""

from __future__ import annotations

import functools
import threading

from . import dmesg
from .connectx import ConnectXError
from .guest import GRACE_SECONDS, STATUS_TIMEOUT, EmulatorFault, Outcome, VMError
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


# So many VMs that die of the emulator are started again.
_MOST_EMULATOR_FAULTS = 3


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
        self._emulator_faults = 0
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
                for done, test in enumerate(tests):
                    outcome = self._outcome(vm, test)
                    if outcome.emulator_fault:
                        tests = tests[done:]
                        raise EmulatorFault(outcome.lost)
                    if not self._judge(test, outcome):
                        return tests[done + 1 :]
                if self._kernel.finds_leaks:
                    self._find_leaks(vm, boot)
            self._judge_rest(vm, tests)
        except (VMError, ConnectXError) as error:
            if isinstance(error, EmulatorFault) and self._goes_on():
                self._report.note(f"{logs.name}: starting again after a fault of the emulator: {error}")
                return tests
            self._report.not_ok(self._name(tests[0]), 0, str(error), shown(logs))
            return tests[1:]
        return []

    def _goes_on(self) -> bool:
        """Whether one more fault of the emulator is bearable."""
        with self._counting:
            self._emulator_faults += 1
            return self._emulator_faults <= _MOST_EMULATOR_FAULTS

    @staticmethod
    def _outcome(vm: VM, test: GuestTest) -> Outcome:
        identifier = test.name.replace("/", "-")
        outcome = vm.run(identifier, test.script, test.timeout)
        folder = outcome.output.parent
        folder.mkdir(exist_ok=True)
        (folder / "dmesg").write_text("".join(f"{line}\n" for line in outcome.kernel_log))
        if outcome.lost:
            (folder / "console").write_text(vm.console_tail() + "\n")
        return outcome

    def _judge(self, test: GuestTest, outcome: Outcome) -> bool:
        reason = _reason(test, outcome)
        if reason:
            self._report.not_ok(self._name(test), outcome.seconds, reason, shown(outcome.output.parent))
            return False
        self._report.ok(self._name(test), outcome.seconds)
        return True

    def _judge_rest(self, vm: VM, tests: list[GuestTest]) -> None:
        """Reports what the kernel says too late for the test that it comes of, or when the guest is switched off."""
        announced = [pattern for test in tests for pattern in test.dmesg_allow]
        faults = dmesg.faults(vm.outside_tests(), announced)
        if faults:
            reason = f"kernel log outside of the tests: {faults[0].text[:200]}"
            self._report.not_ok(f"{self._kernel.series}/log/{vm.logs.name}", 0, reason, shown(vm.logs / "kmsg"))

    def _find_leaks(self, vm: VM, boot: int) -> None:
        """Reports memory that the tests of this VM have lost as a failure of its own."""
        test = GuestTest(f"leaks/boot{boot}", LEAKS, timeout=60)
        self._judge(test, self._outcome(vm, test))

    def _name(self, test: GuestTest) -> str:
        return f"{self._kernel.series}/{test.name}"
