# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The figures that have a name, their aims, and how they have changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import cases
from .cases import Case
from .records import Record, Records

# A change by more than this share of the last result is shown.
NOTABLE = 0.03

_INSTRUCTIONS = "instructions per WRITE"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number of ours beside the number that it is compared with."""

    name: str
    ours: float
    # Of mlx5_ib, or of the table without its cache.
    other: float
    unit: str
    beside: str = "mlx5_ib"
    # The most that `ours` may be of `other`.
    aim: float | None = None

    @property
    def ratio(self) -> float:
        """Ours as a share of the other."""
        return self.ours / self.other if self.other else float("inf")

    @property
    def missed(self) -> bool:
        """Whether there is an aim that is not reached."""
        return self.aim is not None and self.ratio > self.aim

    def json(self) -> dict[str, Any]:
        """As it stands in bench.json."""
        return {"mlx5_ulp": round(self.ours, 3), self.beside: round(self.other, 3), "unit": self.unit}


_Value = Callable[[Record], float]


def _post(record: Record) -> float:
    return record.per_write("post")


def _complete(record: Record) -> float:
    return record.per_write("complete")


def _told(record: Record) -> float:
    return record.per_write("complete") + record.per_write("dispatch")


def _wqe_bytes(record: Record) -> float:
    return record.device_per_write("dma_reads.wqe_fetch.bytes")


def _interrupts(record: Record) -> float:
    return record.device_per_write("interrupts")


@dataclasses.dataclass(frozen=True)
class _Definition:
    name: str
    case: Case
    value: _Value
    unit: str = _INSTRUCTIONS
    aim: float | None = None
    other: Case | None = None
    beside: str = "mlx5_ib"

    def figure(self, run: Records) -> Figure | None:
        """The figure, if the run has what it is made of."""
        ours = run.find(self.case)
        other = run.find(self.other or self.case.beside(cases.VERBS))
        if not ours or not other:
            return None
        return Figure(self.name, self.value(ours), self.value(other), self.unit, self.beside, self.aim)


def _exclusive(name: str, case: Case, aim: float) -> _Definition:
    return _Definition(name, case.beside(cases.EXCLUSIVE), _post, aim=aim, other=case.beside(cases.VERBS))


_EVENTS1_VERBS = cases.EVENTS1.beside(cases.VERBS_EVENTS)
_EVENTS64_VERBS = cases.EVENTS64.beside(cases.VERBS_EVENTS)

# All that are reported.
DEFINITIONS = (
    _Definition("post_single", cases.SINGLE, _post, aim=0.25),
    _Definition("post_batch16", cases.BATCH16, _post, aim=0.20),
    _exclusive("post_single_exclusive", cases.SINGLE, 0.25),
    _exclusive("post_batch16_exclusive", cases.BATCH16, 0.20),
    _Definition("post_single_1024q", cases.QUEUES1024, _post),
    _Definition("complete_single", cases.SINGLE, _complete, aim=0.35),
    _Definition("complete_batch16", cases.BATCH16, _complete, aim=0.35),
    _Definition("complete_single_told", cases.SINGLE, _told),
    _Definition("complete_batch16_told", cases.BATCH16, _told),
    _Definition("wqe_bytes_contig_4k", cases.CONTIGUOUS, _wqe_bytes, "bytes fetched per WRITE", 0.40),
    _Definition("mmio_depth1", cases.SINGLE, Record.mmio, "register writes per WRITE"),
    _Definition("mmio_depth64", cases.DEPTH64, Record.mmio, "register writes per WRITE"),
    _Definition("interrupts_depth1", cases.EVENTS1, _interrupts, "interrupts per WRITE", other=_EVENTS1_VERBS),
    _Definition("interrupts_depth64", cases.EVENTS64, _interrupts, "interrupts per WRITE", other=_EVENTS64_VERBS),
    _Definition(
        "qid_hit", cases.FIND, _post, "instructions per look-up", 0.32, cases.FIND_TABLE, "table"
    ),
)


def figures(run: Records) -> list[Figure]:
    """All figures that the run gives."""
    every = (definition.figure(run) for definition in DEFINITIONS)
    return [figure for figure in every if figure]


def judgements(all_figures: list[Figure]) -> list[str]:
    """Aims that are no ratios to the other side: a sentence for each that is not reached."""
    by_name = {figure.name: figure for figure in all_figures}
    sentences = [
        f"{figure.name}: {figure.ratio:.3f} of {figure.beside}, the aim is {figure.aim:.2f}"
        for figure in all_figures
        if figure.missed
    ]
    one, many = by_name.get("post_single"), by_name.get("post_single_1024q")
    if one and many and abs(many.ours / one.ours - 1) > 0.05:
        sentences.append(f"post_single_1024q: {many.ours / one.ours:.3f} of one queue's, the aim is 1.05")
    found = by_name.get("qid_hit")
    if found and found.ours > 15:
        sentences.append(f"qid_hit: {found.ours:.1f} instructions, the aim is 15")
    deep = by_name.get("mmio_depth64")
    if deep and deep.ours > 1 / 8:
        sentences.append(f"mmio_depth64: {deep.ours:.3f} register writes per WRITE, the aim is 1/8")
    return sentences


def changes(all_figures: list[Figure], last: Path) -> list[str]:
    """A sentence for each number that is not within 3 % of the last result."""
    try:
        before = json.loads(last.read_text())["figures"]
    except FileNotFoundError:
        return [f"there is no last result: {last.name}"]
    sentences = []
    for figure in all_figures:
        now, then = figure.json(), before.get(figure.name)
        if then is None:
            sentences.append(f"{figure.name}: new")
            continue
        for side in ("mlx5_ulp", figure.beside):
            old, new = float(then[side]), float(now[side])
            if abs(new - old) > NOTABLE * abs(old):
                share = f"{new / old - 1:+.1%}" if old else "was zero"
                sentences.append(f"{figure.name}, {side}: {old:g} -> {new:g} ({share})")
    return sentences
