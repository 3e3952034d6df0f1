# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make modules` and `make connectx`: builds, in short lines for people."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from . import build
from .kernel import Kernel
from .paths import MODULES, run_logs, shown


def _build(title: str, name: str, command: list[str]) -> bool:
    """Runs a build; says what it does, how long that took, and if it failed, why and where."""
    log = run_logs(name) / "log"
    print(f"{title} ...", flush=True)
    start = time.monotonic()
    with log.open("wb") as output:
        status = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    if status:
        print(build.errors(text), file=sys.stderr)
        print(f"failed after {seconds:.0f} s; log: {shown(log)}", file=sys.stderr)
        return False
    complaint = build.complaints(text)
    if complaint:
        print(f"warning: {complaint}; log: {shown(log)}", file=sys.stderr)
    print(f"done in {seconds:.0f} s", flush=True)
    return True


def modules(kernel: Kernel) -> bool:
    """Builds the modules for a kernel."""
    title = f"building the modules for {kernel.release}"
    command = ["tests/vm/build-modules", kernel.series]
    if not _build(title, f"modules-{kernel.series}", command):
        return False
    for module in sorted((MODULES / kernel.series).rglob("*.ko")):
        print(f"  {shown(module)}")
    return True


def connectx() -> bool:
    """Builds the software ConnectX."""
    return _build("building the software ConnectX", "connectx", ["tests/vm/build-connectx"])


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    parser.add_argument("target", choices=["modules", "connectx"])
    parser.add_argument("--kernel")
    options = parser.parse_args()
    done = modules(Kernel(options.kernel)) if options.target == "modules" else connectx()
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
