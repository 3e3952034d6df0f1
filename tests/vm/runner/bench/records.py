# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the guest has measured, case by case."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from .cases import Case

# The sending function, as the software ConnectX calls it.
_SOURCE = "pf0"


@dataclasses.dataclass(frozen=True)
class Cost:
    """Instructions of one round: of each call the least of all rounds."""

    instructions: int
    calls: int
    # Calls that did not cost the same in all rounds, and by how much at most.
    differing: int
    spread: int


class Record:
    """One case."""

    def __init__(self, data: dict[str, Any]) -> None:
        words = data["case"]
        words["params"] = tuple(tuple(pair) for pair in words["params"])
        self.case = Case(**words)
        self._result: dict[str, int] = data["result"]
        self._before = json.loads(data["before"])["functions"][_SOURCE]
        self._after = json.loads(data["after"])["functions"][_SOURCE]
        self.steps: list[str] = data.get("steps", [])

    @property
    def writes(self) -> int:
        """WRITEs of one round."""
        return self._result["writes"]

    def cost(self, what: str) -> Cost:
        """What posting (`post`), completing (`complete`) or telling the consumer (`dispatch`) cost."""
        return Cost(
            self._result[what],
            self._result[f"{what}_parts"],
            self._result[f"{what}_differing"],
            self._result[f"{what}_spread"],
        )

    def per_write(self, what: str) -> float:
        """Instructions per WRITE."""
        return self._result[what] / self.writes

    def _device(self, path: str) -> int:
        """By how much a counter of the device has grown in all rounds."""

        def number(counters: Any) -> int:
            for name in path.split("."):
                counters = counters[name]
            return int(counters)

        return number(self._after) - number(self._before)

    def device_per_write(self, *paths: str) -> float:
        """The sum of these counters of the device, per WRITE."""
        return sum(self._device(path) for path in paths) / self._result["executed"]

    def doorbells(self) -> float:
        """Doorbells per WRITE, those that carried a WQE included; the record in memory is written before each."""
        return self.device_per_write("mmio.sq_doorbells")

    def mmio(self) -> float:
        """Register writes per WRITE: doorbells of the send queue, arming of the completion queue."""
        return self.doorbells() + self.device_per_write("mmio.cq_arms")


@dataclasses.dataclass(frozen=True)
class Records:
    """Everything of one run."""

    clock: dict[str, int]
    records: list[Record]

    def find(self, case: Case) -> Record | None:
        """What was measured of a case."""
        return next((record for record in self.records if record.case == case), None)


def read(path: Path) -> Records:
    """Reads what measure.py has written."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    clock: dict[str, int] = lines[0]["clock"]
    return Records(clock, [Record(line) for line in lines[1:]])
