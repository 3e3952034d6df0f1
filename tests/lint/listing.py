# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the compiler made of the module: lines of a disassembly, by function."""

from __future__ import annotations

import re
import subprocess

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")


def disassembled(name: str) -> str:
    """The code of an object file, with what is to be filled in."""
    run = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", "--demangle=rust", name],
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout


def count(listing: str, pattern: re.Pattern[str]) -> dict[str, int]:
    """How many lines with the pattern each function of a disassembly has, for those that have any."""
    found: dict[str, int] = {}
    function = ""
    for line in listing.splitlines():
        header = _FUNCTION.match(line)
        if header:
            function = header[1]
        elif pattern.search(line):
            found[function] = found.get(function, 0) + 1
    return found
