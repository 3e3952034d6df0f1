# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Posting prefetches what `prefetch` says: the next slot and the doorbell record, for writing.

Nothing that a consumer or a device could see depends on it, so the object code is looked at. Whether it is passed as the
parameter says, tests/vm/guest/ulp/prefetch.sh sees.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import listing

_PREFETCH = re.compile(r"\bprefetchw\b")
# The ways that chains, requests with anything special and requests of other kinds take.
_WAYS = ("mlx5_ulp_post_writes", "SendQueue>::post_any", "SendQueue>::post_works_at")
_PREFETCHES = 2


def main() -> int:
    """Checks the object file named on the command line."""
    name = sys.argv[1]
    if not Path(name).exists():
        print(f"{name} is not built")
        return 1
    found = listing.count(listing.disassembled(name), _PREFETCH)
    bad = 0
    for way in _WAYS:
        count = sum(n for function, n in found.items() if function.endswith(way))
        if count != _PREFETCHES:
            print(f"{way} has {count} prefetches, not {_PREFETCHES}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
