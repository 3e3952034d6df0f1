# SPDX-License-Identifier: GPL-2.0 OR MIT
"""In the guest: runs the cases, and prints a JSON object per line for each.

The counters of the software ConnectX are passed on as they came, because the guest is
slow at reading them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from .cases import Case, cases

MODULE = Path("/sys/kernel/debug/mlx5_ulp_bench")
PARAMS = Path("/sys/class/infiniband/mlx5_0/params")


class Device:
    """The software ConnectX, for questions. Nobody else may ask it meanwhile."""

    def __init__(self) -> None:
        self._port = open("/dev/virtio-ports/connectx", "r+b", buffering=0)
        self._buffer = b""

    def ask(self, command: str) -> str:
        """The answer to a command without arguments."""
        self._port.write(json.dumps({"cmd": command}).encode() + b"\n")
        while b"\n" not in self._buffer:
            self._buffer += self._port.read(1 << 16)
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode()


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def _measure(case: Case, device: Device) -> dict[str, Any]:
    usual = {name: (PARAMS / name).read_text() for name, _ in case.params}
    for name, value in case.params:
        (PARAMS / name).write_text(value)
    try:
        # Queues take commands, and the first of them a test of write combining.
        (MODULE / "run").write_text(case.preparation().words())
        before = device.ask("counters")
        (MODULE / "run").write_text(case.words())
        record: dict[str, Any] = {"result": _numbers((MODULE / "run").read_text())}
        record["before"], record["after"] = before, device.ask("counters")
        if case.steps:
            record["steps"] = (MODULE / "steps").read_text().splitlines()
    finally:
        for name, value in usual.items():
            (PARAMS / name).write_text(value)
    return record


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the large table")
    quick = parser.parse_args().quick
    device = Device()
    print(json.dumps({"clock": _numbers((MODULE / "clock").read_text())}), flush=True)
    for case in cases(quick):
        record = {"case": dataclasses.asdict(case)}
        try:
            record.update(_measure(case, device))
        except OSError as error:
            raise SystemExit(f"{case.words()}: {error.strerror}") from error
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
