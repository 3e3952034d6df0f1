# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Where things are inside the root tree, and what they are called outside."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

CHECKOUT = Path("/src")
BUILD = CHECKOUT / "build"
LOGS = BUILD / "log"
MODULES = BUILD / "modules"
GUEST_TESTS = CHECKOUT / "tests/vm/guest"
LEAKS = CHECKOUT / "tests/vm/boot/leaks"


# How many runs' logs are kept. A run that is under way is never that old.
_KEEP = 40


def run_logs(name: str) -> Path:
    """Makes a directory for the logs of a run; runs at the same time have one each."""
    LOGS.mkdir(parents=True, exist_ok=True)
    runs = [path for path in LOGS.iterdir() if path.is_dir()]
    for path in sorted(runs, key=lambda path: path.stat().st_mtime, reverse=True)[_KEEP:]:
        shutil.rmtree(path, ignore_errors=True)
    prefix = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-"
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=LOGS))
    directory.chmod(0o755)
    return directory


def shown(path: Path) -> str:
    """A path as the person outside the root tree knows it: from the top of the checkout."""
    return str(path.relative_to(CHECKOUT)) if path.is_relative_to(CHECKOUT) else str(path)
