# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the headers of the interface promise of each function, beyond what kernel-doc asks for.

Each says in which context it may be called, and has its place in the table of Documentation/api.rst
that says what it is in Rust.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .sources import with_suffix

_DESCRIPTION = re.compile(r"/\*\*\n \* (\w+)\(\) - .*?\*/", re.DOTALL)
_DECLARATION = re.compile(r"^[a-z][\w *]*?\b(mlx5_ulp_\w+)\(", re.MULTILINE)
_OTHER_LINE = re.compile(r"^(mlx5_ulp_\w+)\(", re.MULTILINE)
_TABLE = re.compile(r"^What is where\n-+\n(.*?)\n\nIn C only", re.DOTALL | re.MULTILINE)


def _complaints(headers: list[str], table: str) -> Iterator[str]:
    in_rust = set(re.findall(r"``(\w+)\(\)``", table))
    functions = set()
    for header in headers:
        text = Path(header).read_text()
        described = {match[1]: match[0] for match in _DESCRIPTION.finditer(text)}
        declared = {match[1] for p in (_DECLARATION, _OTHER_LINE) for match in p.finditer(text)}
        functions |= declared
        for name in sorted(declared):
            if name not in described:
                yield f"{header}: {name}() is not described"
            elif "\n * Context: " not in described[name]:
                yield f"{header}: {name}() does not say in which context it may be called"
    if not functions:
        yield "there are no functions"
    for name in sorted(functions - in_rust):
        yield f"Documentation/api.rst does not say what {name}() is in Rust"
    for name in sorted(name for name in in_rust - functions if name.startswith("mlx5_ulp_")):
        yield f"Documentation/api.rst: there is no {name}()"


def main() -> int:
    """Checks all headers; prints what is wrong."""
    headers = [file for file in with_suffix(".h") if file.startswith("include/mlx5")]
    table = _TABLE.search(Path("Documentation/api.rst").read_text())
    complaints = list(_complaints(headers, table[1] if table else ""))
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
