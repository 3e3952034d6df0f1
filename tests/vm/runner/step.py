# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A step outside a VM: a command that succeeds or not, with its output in a log."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .paths import shown
from .report import Report

Explain = Callable[[str], str]


def last_line(output: str) -> str:
    """What explains a failure where nothing better is known."""
    lines = output.strip().splitlines()
    return lines[-1].strip()[:200] if lines else "no output"


def first_error(output: str) -> str:
    """The first line of a build's output that speaks of an error."""
    for line in output.splitlines():
        if re.search(r"\berror\b", line, re.IGNORECASE):
            return line.strip()[:200]
    return last_line(output)


def run(
    report: Report,
    name: str,
    command: Sequence[str],
    *,
    explain: Explain = last_line,
    forbid: Callable[[str], str | None] = lambda output: None,
    timeout: float = 1800,
    cwd: Path | None = None,
) -> bool:
    """Runs a command and reports it as a test called `name`; returns whether it passed.

    `explain` makes the reason out of the output of a command that failed; `forbid` may find
    a reason in that of one that did not.
    """
    log = report.logs / (name.replace("/", "-") + ".log")
    start = time.monotonic()
    reason: str | None
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
        )
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            status = None
    text = log.read_text(errors="replace")
    if status is None:
        reason = f"out of time ({timeout:.0f} s)"
    elif status:
        reason = explain(text)
    else:
        reason = forbid(text)
    seconds = time.monotonic() - start
    if reason:
        report.not_ok(name, seconds, reason, shown(log))
        return False
    report.ok(name, seconds)
    return True
