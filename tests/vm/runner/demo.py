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
from .guest import VMError
from .kernel import Kernel
from .paths import CHECKOUT, run_logs, shown
from .vm import VM

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


# Settings of the send path: the name of their files in the folder of results, and for people.
_SETTINGS = {
    "each": "each",
    "batch": "batch",
    "adaptive": "adaptive",
    "merge": "adaptive, merge",
    "blueflame": "each, BlueFlame",
}


class Account:
    """What the demo left in its folder of results about one setting."""

    def __init__(self, results: Path, name: str) -> None:
        self._before = json.loads((results / f"{name}.before.json").read_text())
        self._after = json.loads((results / f"{name}.after.json").read_text())
        self.merges = name == "merge"
        self.module = dict(
            line.split(" ", 1) for line in (results / f"{name}.run").read_text().splitlines()
        )

    def device(self, function: str, path: str) -> int:
        """By how much a counter of the software ConnectX has grown."""
        return _number(self._after, function, path) - _number(self._before, function, path)

    @property
    def writes(self) -> int:
        """WRITEs posted, as the module counts."""
        return int(self.module["writes"])

    @property
    def doorbells_received(self) -> int:
        """Doorbells that the device has seen, those that carried a WQE included."""
        return self.device(_SOURCE, "mmio.sq_doorbells")

    def row(self) -> list[str]:
        """For people: what it took."""
        fetched = self.device(_SOURCE, "dma_reads.wqe_fetch.bytes")
        return [
            str(self.writes),
            str(self.device(_SOURCE, "wqes")),
            self.module["doorbells"],
            f"{fetched / self.writes:.1f}",
            str(self.device(_SOURCE, "dma_reads.payload.bytes")),
            str(self.device(_SOURCE, "cqes")),
            str(self.device(_SOURCE, "interrupts")),
        ]


_COLUMNS = [
    "setting",
    "WRITEs",
    "WQEs",
    "doorbells",
    "WQE bytes/WRITE",
    "payload bytes",
    "completions",
    "interrupts",
]


def _print_table(accounts: dict[str, Account]) -> None:
    rows = [_COLUMNS] + [[_SETTINGS[name], *account.row()] for name, account in accounts.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    print()
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "   ".join(cells))
    print()


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
    for what, moved in (
        ("payload bytes read", account.device(_SOURCE, "dma_reads.payload.bytes")),
        ("payload bytes written", account.device(_DESTINATION, "dma_writes.payload.bytes")),
    ):
        if moved != len(content):
            raise DemoError(f"{what}: {moved}, the file has {len(content)}")
    wqes = account.device(_SOURCE, "wqes")
    if wqes > account.writes or (wqes != account.writes) != account.merges:
        raise DemoError(f"{account.writes} WRITEs posted, {wqes} WQEs executed")
    if int(module["doorbells"]) != account.doorbells_received:
        raise DemoError(f"{module['doorbells']} doorbells rung, {account.doorbells_received} received")
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
        accounts = {name: Account(outcome.output.parent, name) for name in _SETTINGS}
    _print_table(accounts)
    lines = {_judge(account, kernel.image) for account in accounts.values()}
    return lines.pop()


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
