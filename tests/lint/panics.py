# SPDX-License-Identifier: GPL-2.0 OR MIT
"""No panic on the data path: a panic in the kernel is a BUG.

Looks at the object code for calls of what Rust panics by: failed indexing, overflow, unwrap.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import listing

_PANIC = re.compile(
    r"core::panicking|unwrap_failed|expect_failed|slice_\w*index\w*_fail|len_mismatch_fail"
)
# What runs for each request or completion: by module in Rust, by name in C.
_DATA_PATH = re.compile(
    r"\bmain::(wqe|doorbell|cq|queue|qid)::|\bTraceLog>::log\b"
    r"|^mlx5_ulp_(queue_)?(post|write|send|read|recv|flush|poll|complete)"
)
# What a queue is set up by may: there the kernel crate's collections check their arithmetic.
_SET_UP = re.compile(r"\bmain::queue::queue::Queue>::(new|enroll|join)\b")


def main() -> int:
    """Checks the object files named on the command line."""
    bad = 0
    for name in sys.argv[1:]:
        if not Path(name).exists():
            print(f"{name} is not built")
            return 1
        calls_of = listing.count(listing.disassembled(name), _PANIC)
        for function, calls in sorted(calls_of.items()):
            if _DATA_PATH.search(function) and not _SET_UP.search(function):
                print(f"{function} can panic ({calls} places)")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
