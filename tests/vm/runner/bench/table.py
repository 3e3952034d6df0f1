# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tables for people, as reStructuredText."""

from __future__ import annotations

from collections.abc import Sequence

from . import cases
from .cases import Case
from .figures import Figure
from .records import Record, Records


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A simple table: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    line = "  ".join("=" * width for width in widths)

    def text(row: Sequence[str]) -> str:
        others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
        return "  ".join([row[0].ljust(widths[0]), *others])

    return "\n".join([line, text(head), line, *map(text, rows), line])


def title(text: str) -> str:
    """A heading below the document's."""
    return f"{text}\n{'-' * len(text)}"


def of_figures(figures: Sequence[Figure]) -> str:
    """The figures with their aims; those that are missed have a mark."""
    rows = [
        (
            figure.name,
            f"{figure.ours:.2f}",
            f"{figure.other:.2f}",
            f"{figure.ratio:.3f}",
            f"{figure.aim:.2f}" + ("!" if figure.missed else " ") if figure.aim is not None else "- ",
            figure.unit,
        )
        for figure in figures
    ]
    return grid(("figure", "mlx5_ulp", "beside", "ratio", "aim", "unit"), rows)


def of_functions(counts: dict[str, int]) -> str:
    """Instructions by function."""
    rows = [(function, str(number)) for function, number in counts.items()]
    return grid(("function", "instructions"), rows)


def _size(case: Case) -> str:
    return next(name for name, size in cases.SIZES.items() if size == (case.size, case.inline))


def _cells(record: Record) -> list[str]:
    lines = record.device_per_write("dma_reads.wqe_fetch.lines", "dma_reads.payload.lines")
    fetched = record.device_per_write("dma_reads.wqe_fetch.bytes", "dma_reads.payload.bytes")
    return [
        f"{record.per_write('post'):.1f}",
        f"{record.per_write('complete'):.1f}",
        f"{record.doorbells():.3f}",
        f"{record.mmio():.3f}",
        f"{fetched:.0f}",
        f"{lines:.2f}",
        f"{record.device_per_write('interrupts'):.3f}",
    ]


def of_matrix(run: Records) -> str:
    """All cases with the usual parameters, the sides one below the other."""
    head = (
        "WRITE", "chain", "signal", "CPUs", "queues", "by",
        "post", "complete", "records", "MMIO", "bytes", "lines", "interrupts",
    )  # fmt: skip
    rows = []
    for case in cases.matrix():
        record = run.find(case)
        if record:
            shape = (_size(case), case.chain, case.signal, case.cpus, case.queues)
            rows.append([*map(str, shape), case.interface, *_cells(record)])
    return grid(head, rows)


def differing(run: Records) -> str:
    """How exactly the run repeats itself."""
    calls = sum(record.cost(what).calls for record in run.records for what in ("post", "complete"))
    differing_calls = sum(
        record.cost(what).differing for record in run.records for what in ("post", "complete")
    )
    return (
        f"{calls} calls were measured in several rounds each; {differing_calls} did not cost the same "
        "in each round. The least counts."
    )
