# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The barriers of the data path are in the object code: the device and the emulator would not miss them.

A doorbell has a fence before the register, so that the record is seen first, and one behind it, so that the next write
to the register does not pass this one; so has the arming of a completion queue. Who leaves requests waiting, and who
completes, has a full barrier between what it writes and what it reads of the other ("Memory ordering" in
Documentation/design.rst). What x86 keeps in order by itself cannot be seen here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import listing

_FENCE = re.compile(r"\bsfence\b")
_FULL = re.compile(r"\block or")
# The ways that end at a register.
_RING = (
    "mlx5_ulp_post_write",
    "mlx5_ulp_post_writes",
    "mlx5_ulp_exclusive_post_writes",
    "SendQueue>::ring_with",
    "CompletionHandler>::completion",
)
# Those of the other pair.
_MEET = ("mlx5_ulp_poll", "SendQueue>::poll_run", "SendQueue>::complete_all", "SendQueue>::wait")


def _complaints(disassembly: str) -> list[str]:
    fences = listing.count(disassembly, _FENCE)
    full = listing.count(disassembly, _FULL)
    said = [f"{name}: {n} fences, not two for each doorbell" for name, n in fences.items() if n % 2]
    for what, found, ways in (("fence", fences, _RING), ("full barrier", full, _MEET)):
        said += [f"{way}: no {what}" for way in ways if not any(name.endswith(way) for name in found)]
    return said


def main() -> int:
    """Checks the object file named on the command line."""
    name = sys.argv[1]
    if not Path(name).exists():
        print(f"{name} is not built")
        return 1
    said = _complaints(listing.disassembled(name))
    print("".join(f"{line}\n" for line in said), end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
