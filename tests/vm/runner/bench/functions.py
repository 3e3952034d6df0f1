# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Where the instructions go, function by function.

The guest gives the address of each instruction that was executed, as a symbol and an
offset. In our module nearly everything is inlined into a few symbols, so debug information
tells which function of the source an instruction is of; what the standard library and the
kernel's crate inline belongs to the function of ours that calls it.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
from pathlib import Path

_STEP = re.compile(r"(?P<symbol>[^+ ]+)\+(?P<offset>0x[0-9a-f]+)/0x[0-9a-f]+(?: \[(?P<module>\w+)\])?")
# The measurement itself: from the call of steps_begin() to that of steps_end().
_OURSELVES = "mlx5_ulp_bench"


def _symbols(module: Path) -> dict[str, int]:
    """Addresses of the functions in a module."""
    listing = subprocess.run(["nm", module], check=True, capture_output=True, text=True)
    words = (line.split() for line in listing.stdout.splitlines())
    return {word[2]: int(word[0], 16) for word in words if len(word) == 3 and word[1] in "tT"}


def _plain(name: str) -> str:
    """A Rust path without generic arguments, traits and closures.

    >>> _plain("<main::queue::ring::Ring<T> as core::ops::Deref>::deref::<u8>")
    'main::queue::ring::Ring::deref'
    """
    if name.startswith("<"):
        depth = 0
        for end, character in enumerate(name):
            # An arrow is no bracket.
            depth += {"<": 1, ">": -(name[end - 1] != "-")}.get(character, 0)
            if depth == 0:
                break
        subject = name[1:end].split(" as ")[0]
        return _plain(subject) + _plain(name[end + 1 :])
    return re.sub(r"(::)?<.*|::\{closure.*", "", name)


def own(names: list[str]) -> str:
    """Of a chain of inlined functions, innermost first, the first one of the module's own."""
    plain = (_plain(name) for name in names)
    own = next((name for name in plain if name.startswith("main::")), names[-1])
    return own.removeprefix("main::")


def _inlined(module: Path, places: list[tuple[str, int]]) -> list[str]:
    """The function of the source for each place in a module, a symbol and an offset."""
    symbols = _symbols(module)
    addresses = [hex(symbols[symbol] + offset) for symbol, offset in places]
    if not addresses:
        return []
    answer = subprocess.run(
        ["llvm-symbolizer-19", f"--obj={module}", "--output-style=JSON", *addresses],
        check=True,
        capture_output=True,
        text=True,
    )
    return [
        own([frame["FunctionName"] for frame in place["Symbol"]]) for place in json.loads(answer.stdout)
    ]


def count(steps: list[str], module: Path) -> dict[str, int]:
    """Executed instructions by function, most first; `module` is mlx5_ulp.ko."""
    counts: collections.Counter[str] = collections.Counter()
    ours: collections.Counter[tuple[str, int]] = collections.Counter()
    for step in steps:
        match = _STEP.fullmatch(step)
        if not match:
            counts["unknown"] += 1
        elif match["module"] == module.stem:
            ours[match["symbol"], int(match["offset"], 16)] += 1
        elif match["module"] == _OURSELVES:
            counts["the caller, and the measurement"] += 1
        else:
            counts[match["symbol"]] += 1
    for function, number in zip(_inlined(module, list(ours)), ours.values()):
        counts[function] += number
    return dict(counts.most_common())
