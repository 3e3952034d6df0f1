# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make demo`: one file by RDMA WRITE from function to function, and what that took."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from . import dmesg, guest_test, make
from .connectx import ConnectXError
from .kernel import Kernel
from .paths import CHECKOUT, run_logs, shown
from .vm import VM, VMError

_SCRIPT = CHECKOUT / "tests/vm/demo.sh"
# As the software ConnectX calls them.
_SOURCE, _DESTINATION = "pf0", "vf1"


class DemoError(Exception):
    """The demo did not do what it should."""


def _number(counters: dict[str, Any], function: str, path: str) -> int:
    value: Any = counters["functions"][function]
    for name in path.split("."):
        value = value[name]
    return int(value)


class Account:
    """What the demo left in its folder of results."""

    def __init__(self, results: Path) -> None:
        self._before = json.loads((results / "before.json").read_text())
        self._after = json.loads((results / "after.json").read_text())
        self.module = dict(
            line.split(" ", 1) for line in (results / "run").read_text().splitlines()
        )

    def device(self, function: str, path: str) -> int:
        """By how much a counter of the software ConnectX has grown."""
        return _number(self._after, function, path) - _number(self._before, function, path)

    def table(self) -> list[tuple[str, int, str]]:
        """Rows for people: what, how much, who counted it."""
        source, destination = f"device {_SOURCE}", f"device {_DESTINATION}"
        return [
            ("WRITEs posted", int(self.module["writes"]), "module"),
            ("WRITEs executed", self.device(_SOURCE, "wqes"), source),
            ("doorbells rung", int(self.module["doorbells"]), "module"),
            (
                "doorbells received",
                self.device(_SOURCE, "mmio.sq_doorbells") + self.device(_SOURCE, "mmio.blueflame_wqes"),
                source,
            ),
            ("WQE bytes fetched", self.device(_SOURCE, "dma_reads.wqe_fetch.bytes"), source),
            ("payload bytes read", self.device(_SOURCE, "dma_reads.payload.bytes"), source),
            ("payload bytes written", self.device(_DESTINATION, "dma_writes.payload.bytes"), destination),
        ]


def _judge(account: Account, image: Path) -> str:
    """The closing line. Raises DemoError where anything does not agree with the file."""
    module = account.module
    if module["state"] != "ok":
        raise DemoError(f"the module says: {module}")
    content = image.read_bytes()
    expected = hashlib.sha256(content).hexdigest()
    for side in ("sha256_sent", "sha256_arrived"):
        if module[side] != expected:
            raise DemoError(f"{side} is {module[side]}, the file's is {expected}")
    if int(module["bytes"]) != len(content):
        raise DemoError(f"{module['bytes']} bytes were moved, the file has {len(content)}")
    numbers = {name: number for name, number, _ in account.table()}
    for moved in ("payload bytes read", "payload bytes written"):
        if numbers[moved] != len(content):
            raise DemoError(f"{moved}: {numbers[moved]}, the file has {len(content)}")
    for ours, theirs in (
        ("WRITEs posted", "WRITEs executed"),
        ("doorbells rung", "doorbells received"),
    ):
        if numbers[ours] != numbers[theirs]:
            raise DemoError(f"{numbers[ours]} {ours}, {numbers[theirs]} {theirs}")
    return f"{len(content)} bytes by RDMA WRITE, sha256 {expected} on both sides"


def _run(kernel: Kernel, logs: Path) -> str:
    test = guest_test.parse("demo", _SCRIPT)
    print(f"booting {kernel.release} with functions {', '.join(test.shape.functions)} ...", flush=True)
    with VM(kernel, test.shape, logs) as vm:
        outcome = vm.run("demo", test.script, test.timeout)
        if outcome.lost:
            raise DemoError(f"{outcome.lost}\n{vm.console_tail(20)}")
        output = outcome.text().strip()
        if outcome.status:
            raise DemoError(f"exit status {outcome.status}: {output}")
        faults = dmesg.faults(outcome.kernel_log, test.dmesg_allow)
        if faults:
            raise DemoError(f"the kernel log says: {faults[0].text}")
        account = Account(outcome.output.parent)
    print()
    for name, number, who in account.table():
        print(f"  {name:<24} {number:>12}   {who}")
    print()
    return _judge(account, kernel.image)


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--kernel", required=True)
    kernel = Kernel(parser.parse_args().kernel)
    if not (make.modules(kernel) and make.connectx()):
        return 1
    logs = run_logs("demo")
    try:
        result = _run(kernel, logs)
    except (DemoError, VMError, ConnectXError) as error:
        print(f"demo: not ok: {error}; logs: {shown(logs)}")
        return 1
    print(f"demo: ok: {result}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
