# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The files of the checkout that people write."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

_GENERATED = ("*_generated.rs", "ulp_bindings.rs", "*.list", "*.mod.c", "*.o", "*.a", "*.ko", "*.mod", "*.rmeta")
_NOT_TEXT = {".pcap", ".png", ".bin"}
_DIRECTORIES = {".git", "build", "target", "__pycache__", ".mypy_cache"}


def files() -> Iterator[Path]:
    """All files, from the working directory down, in a stable order."""
    command = ["find", ".", "(", "-false"]
    for directory in sorted(_DIRECTORIES):
        command += ["-o", "-name", directory]
    command += [")", "-prune", "-o", "-type", "f"]
    for pattern in (*_GENERATED, ".*.cmd", ".*.d", "Module.symvers", "modules.order"):
        command += ["!", "-name", pattern]
    command.append("-print")
    listing = subprocess.run(command, check=True, capture_output=True, text=True)
    for name in sorted(listing.stdout.splitlines()):
        path = Path(name)
        if path.suffix not in _NOT_TEXT:
            yield path


def with_suffix(*suffixes: str) -> list[str]:
    """The files whose names end so."""
    return [str(path) for path in files() if path.suffix in suffixes]


def shell_scripts() -> list[str]:
    """Scripts for bash: by name or by their first line."""
    scripts = []
    for path in files():
        with path.open("rb") as file:
            start = file.readline(80)
        if start.startswith((b"#!/bin/bash", b"#!/bin/sh")) or path.suffix == ".sh":
            scripts.append(str(path))
    return scripts
