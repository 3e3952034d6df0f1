# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Where things are inside the root tree, and what they are called outside."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path("/src")
BUILD = CHECKOUT / "build"
LOGS = BUILD / "log"
MODULES = BUILD / "modules"
GUEST_TESTS = CHECKOUT / "tests/vm/guest"


def shown(path: Path) -> str:
    """A path as the person outside the root tree knows it: from the top of the checkout."""
    return str(path.relative_to(CHECKOUT)) if path.is_relative_to(CHECKOUT) else str(path)
