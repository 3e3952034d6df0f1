# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Checks of plain text: licence lines, and words that have no place in finished work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from .sources import files

_LICENCES = {"GPL-2.0", "GPL-2.0 OR MIT", "GPL-2.0 OR Linux-OpenIB", "GPL-2.0 WITH Linux-syscall-note"}
_SPDX = re.compile(r"SPDX-License-Identifier: ([A-Za-z0-9.() -]*[A-Za-z0-9.)])")
# Licence texts, and a file that cargo writes.
_WITHOUT_SPDX = re.compile(r"^(LICENSES/.*|COPYING|.*/Cargo\.lock|.*\.(json|log))$")
_LICENCE_LINES = 5

# Spelled so that this file is not one that holds them.
_UNFINISHED = re.compile(r"\b(" + "|".join(("FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK")) + r")\b")


def licences(path: Path, lines: list[str]) -> Iterator[str]:
    """Each file says its licence near its top, and it is one of ours."""
    if _WITHOUT_SPDX.match(str(path)) or not lines:
        return
    for line in lines[:_LICENCE_LINES]:
        match = _SPDX.search(line)
        if match:
            if match[1] not in _LICENCES:
                yield f"{path}: licence {match[1]} is not one of this project's"
            return
    yield f"{path}: no SPDX-License-Identifier in the first {_LICENCE_LINES} lines"


def unfinished(path: Path, lines: list[str]) -> Iterator[str]:
    """No notes to self."""
    if str(path).startswith("LICENSES/"):
        return
    for number, line in enumerate(lines, 1):
        match = _UNFINISHED.search(line)
        if match:
            yield f"{path}:{number}: {match[0]}"


def whitespace(path: Path, lines: list[str]) -> Iterator[str]:
    """No blanks at the end of a line, in code."""
    if path.suffix not in {".rs", ".c", ".h", ".py", ".sh", ".toml", ".rst", ".md"}:
        return
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"{path}:{number}: blank at the end of the line"


CHECKS: dict[str, Callable[[Path, list[str]], Iterator[str]]] = {
    "licences": licences,
    "unfinished": unfinished,
    "whitespace": whitespace,
}


def main() -> int:
    """Runs the check named on the command line; prints what it finds."""
    check = CHECKS[sys.argv[1]]
    found = 0
    for path in files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for complaint in check(path, lines):
            print(complaint)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
