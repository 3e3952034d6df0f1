# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A VM: a software ConnectX, and the guest, or two guests, that have its functions."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from . import dmesg
from .connectx import ConnectX
from .guest import GRACE_SECONDS, Guest, Outcome, Place
from .guest_test import Shape
from .kernel import Kernel


class VM:
    """A running VM. Use it in a `with` statement.

    With two guests, the first has the first function, the second the others. Both run each test's script, at the same
    time, and have one folder for its results. Raises VMError or ConnectXError if something does not come up.
    """

    def __init__(
        self, kernel: Kernel, shape: Shape, logs: Path, grace: float = GRACE_SECONDS
    ) -> None:
        self.logs = logs
        self._closer = contextlib.ExitStack()
        self._guests: list[Guest] = []
        results = logs / "results"
        results.mkdir(parents=True)
        try:
            sockets = Path(self._closer.enter_context(tempfile.TemporaryDirectory(prefix="vm-")))
            connectx = None
            if shape.functions:
                connectx = ConnectX(shape, sockets, logs)
                self._closer.enter_context(connectx.process)
            functions = connectx.sockets if connectx else []
            shares = [functions] if shape.guests == 1 else [functions[:1], functions[1:]]
            for number, share in enumerate(shares, 1):
                place = Place(number, sockets, logs, results, connectx, share)
                if number > 1:
                    folder = f"guest{number}"
                    place = dataclasses.replace(place, sockets=sockets / folder, logs=logs / folder)
                    place.sockets.mkdir()
                    place.logs.mkdir()
                guest = Guest(kernel, shape, place, grace)
                self._guests.append(self._closer.enter_context(guest))
        except BaseException:
            self._closer.close()
            raise

    def run(self, identifier: str, script: Path, timeout: float) -> Outcome:
        """Runs a script; `identifier` names its folder of results.

        Of two guests, the outcome is that of the first one to fail, or of the first guest; the kernel log is of both.
        """
        outcomes: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()

        def work(number: int, guest: Guest) -> None:
            suffix = "" if number == 1 else f".guest{number}"
            outcomes.put((number, guest.run(identifier + suffix, script, timeout)))

        for number, guest in enumerate(self._guests[1:], 2):
            threading.Thread(target=work, args=(number, guest), daemon=True).start()
        work(1, self._guests[0])
        ended = [outcomes.get() for _ in self._guests]
        failed = [outcome for _, outcome in ended if outcome.lost or outcome.status]
        in_order = [outcome for _, outcome in sorted(ended, key=lambda one: one[0])]
        outcome = failed[0] if failed else in_order[0]
        log = [line for one in in_order for line in one.kernel_log]
        return dataclasses.replace(outcome, kernel_log=log)

    def boot_log(self) -> list[dmesg.Line]:
        """What the kernels said before the first test."""
        return [line for guest in self._guests for line in guest.boot_log()]

    def outside_tests(self) -> list[dmesg.Line]:
        """What the kernels have said between tests and after the last one; complete when the VM is left."""
        return [line for guest in self._guests for line in guest.outside_tests()]

    def console_tail(self, lines: int = 60) -> str:
        """The end of the serial consoles, which hold a panic's message."""
        return "\n".join(guest.console_tail(lines) for guest in self._guests)

    def __enter__(self) -> VM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closer.__exit__(kind, error, trace)
