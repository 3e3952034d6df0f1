# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make install` and DKMS, on a machine that is thrown away."""

from __future__ import annotations

import fnmatch

from . import step
from .kernel import Kernel
from .report import Report

# Most of it goes into preparing the kernel's source, and building the modules twice.
_SECONDS = 2 * 3600


def run(report: Report, kernel: Kernel, glob: str) -> None:
    """Installs for the newest kernel of that series which the archive has; a debug kernel is no package."""
    name = f"{kernel.series}/packaging"
    if kernel.series == "debug" or not kernel.available:
        return
    if fnmatch.fnmatch(name, glob) or fnmatch.fnmatch("packaging", glob):
        step.run(report, name, ["tests/vm/packaging/test", kernel.series], timeout=_SECONDS)
