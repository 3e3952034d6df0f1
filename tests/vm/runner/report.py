# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Result lines for people: one per test, and a closing line."""

from __future__ import annotations

import threading
from pathlib import Path


class Report:
    """Prints results as they come, from any thread, and counts them. `logs` is where the run's logs go."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self._lock = threading.Lock()

    def ok(self, name: str, seconds: float) -> None:
        """A test that passed."""
        with self._lock:
            self.passed += 1
            self._print(f"ok {name} ({seconds:.1f} s)")

    def not_ok(self, name: str, seconds: float, reason: str, log: str) -> None:
        """A test that failed, why, and where to read more."""
        reason = " ".join(reason.split())
        with self._lock:
            self.failed += 1
            self._print(f"not ok {name} ({seconds:.1f} s): {reason}; log: {log}")

    def skip(self, name: str, reason: str) -> None:
        """A test, or a group of tests, that could not be run here."""
        with self._lock:
            self.skipped += 1
            self._print(f"skip {name}: {reason}")

    def note(self, text: str) -> None:
        """What is to be known of the run itself."""
        with self._lock:
            self._print(f"# {text}")

    def close(self) -> bool:
        """Prints the closing line; returns whether nothing failed."""
        line = f"{self.passed} passed, {self.failed} failed"
        if self.skipped:
            line += f", {self.skipped} skipped"
        self._print(line)
        return self.failed == 0

    @staticmethod
    def _print(line: str) -> None:
        print(line, flush=True)
