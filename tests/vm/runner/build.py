# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Builds what the guest tests need."""

from __future__ import annotations

import re

from . import step
from .kernel import Kernel
from .report import Report


def complaints(output: str) -> str | None:
    """The first warning in a kernel build's output: compiler, objtool, modpost, all count.

    BTF cannot be made for modules of a kernel whose vmlinux is not at hand; kbuild says so.
    """
    for line in output.splitlines():
        if re.search(r"\bwarning\b|\bWARNING\b", line) and "Skipping BTF" not in line:
            return line.strip()[:200]
    return None


def errors(output: str, most: int = 20) -> str:
    """The lines of a build's output that explain its failure, or the end of it."""
    lines = output.strip().splitlines()
    for number, line in enumerate(lines):
        if re.search(r"\berror\b", line, re.IGNORECASE):
            return "\n".join(lines[number : number + most])
    return "\n".join(lines[-most:])


def modules(report: Report, kernel: Kernel) -> bool:
    """The modules for a kernel, without any warning."""
    return step.run(
        report,
        f"{kernel.series}/build/modules",
        ["tests/vm/build-modules", kernel.series],
        explain=step.first_error,
        forbid=complaints,
    )


def connectx(report: Report) -> bool:
    """The software ConnectX."""
    return step.run(
        report, "build/connectx", ["tests/vm/build-connectx"], explain=step.first_error
    )
