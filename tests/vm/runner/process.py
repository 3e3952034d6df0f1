# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Child processes that end when we end.

The whole runner lives in a PID namespace (tests/vm/enter), so the kernel ends what is left;
here is the orderly way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class Process:
    """A child process in a session of its own, whose output goes to a file."""

    def __init__(self, command: Sequence[str], log: Path, cwd: Path | None = None) -> None:
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
            )
        self.name = Path(command[0]).name
        self.log = log

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal, or None while it runs."""
        return self._child.poll()

    def wait(self, seconds: float) -> bool:
        """Waits for the process to end by itself; returns whether it did."""
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, grace: float = 5) -> None:
        """Ends the process: asks, and after `grace` seconds insists."""
        if self.status is None:
            self._child.terminate()
            if not self.wait(grace):
                self._child.kill()
                self._child.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
