# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the interface in Rust is to refuse does not compile, for the reason that is meant.

Each file of tests/consumer_rust/refused is a crate that says by which error it is refused. It is
compiled as the kernel compiles tests/consumer_rust, and again without what is refused: without
`--cfg refused` it must compile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_CRATE = "tests/consumer_rust"
_REASON = re.compile(r"^//! Refused by (E\d{4}):", re.MULTILINE)
_ERROR = re.compile(r"^error(?:\[(E\d{4})\])?: (?!aborting)", re.MULTILINE)


def _command(directory: Path) -> str:
    """The command that compiled the crate, up to what it writes and reads."""
    text = (directory / _CRATE / ".main.o.cmd").read_text()
    line = text.splitlines()[0].split(":= ", 1)[1]
    return line.split("--out-dir")[0].replace("clippy-driver", "rustc", 1)


def _errors(directory: Path, source: str, cfg: str) -> set[str]:
    """The codes of the errors."""
    with tempfile.TemporaryDirectory() as out:
        command = f"{_command(directory)} {cfg} -Aunexpected_cfgs --out-dir {out} --emit=metadata"
        run = subprocess.run(
            ["sh", "-c", f"{command} {source}"],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "RUSTC_BOOTSTRAP": "1"},
        )
    found = {match[1] or "without a code" for match in _ERROR.finditer(run.stderr)}
    return found or ({"of the compiler"} if run.returncode else set())


def main() -> int:
    """Checks all, with the modules built in the directory named on the command line."""
    directory = Path(sys.argv[1])
    sources = sorted((directory / _CRATE / "refused").glob("*.rs"))
    if not sources or not (directory / _CRATE / ".main.o.cmd").exists():
        print(f"{_CRATE} is not built")
        return 1
    bad = 0
    for path in sources:
        reason = _REASON.search(path.read_text())
        source = str(path.relative_to(directory))
        refused = _errors(directory, source, "--cfg refused")
        accepted = _errors(directory, source, "")
        if not reason or refused != {reason[1]} or accepted:
            print(f"{source}: errors {refused}; without what is refused: {accepted}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
