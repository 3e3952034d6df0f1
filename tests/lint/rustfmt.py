# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Rust is formatted as rustfmt has it, by the kernel's configuration.

Each file by itself, through a pipe: given a name, rustfmt follows `mod` to files that exist only
while a module is built.
"""

from __future__ import annotations

import subprocess
import sys

from .sources import with_suffix


def main() -> int:
    """Checks all files by the configuration named on the command line; prints the differences."""
    command = ["rustfmt", "--check", "--color", "never", "--edition", "2021"]
    command += ["--config-path", sys.argv[1]]
    bad = 0
    for name in with_suffix(".rs"):
        with open(name, "rb") as file:
            check = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
        # Its exit status says nothing about differences in what comes through a pipe.
        output = (check.stdout + check.stderr).replace("<stdin>", name).strip()
        if check.returncode or output:
            print(output or f"{name}: rustfmt fails")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
