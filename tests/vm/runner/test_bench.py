# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of the reports of `make bench`."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from .bench import figures, functions, table
from .bench.cases import SINGLE, VERBS, cases
from .bench.figures import Figure
from .bench.records import Record


def _figure(name: str, ours: float, other: float, aim: float | None = None) -> Figure:
    return Figure(name, ours, other, "instructions per WRITE", aim=aim)


class Changes(unittest.TestCase):
    """What is said about the last result."""

    def _changes(self, before: list[Figure], now: list[Figure]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            last = Path(folder) / "bench.json"
            last.write_text(json.dumps({"figures": {f.name: f.json() for f in before}}))
            return figures.changes(now, last)

    def test_small(self) -> None:
        self.assertEqual(self._changes([_figure("a", 100, 300)], [_figure("a", 103, 291)]), [])

    def test_large(self) -> None:
        said = self._changes([_figure("a", 100, 300)], [_figure("a", 104, 300)])
        self.assertEqual(said, ["a, mlx5_ulp: 100 -> 104 (+4.0%)"])

    def test_other_side(self) -> None:
        said = self._changes([_figure("a", 100, 300)], [_figure("a", 100, 280)])
        self.assertEqual(said, ["a, mlx5_ib: 300 -> 280 (-6.7%)"])

    def test_from_zero(self) -> None:
        said = self._changes([_figure("a", 0, 1)], [_figure("a", 2, 1)])
        self.assertEqual(said, ["a, mlx5_ulp: 0 -> 2 (was zero)"])

    def test_new_and_none(self) -> None:
        self.assertEqual(self._changes([], [_figure("a", 1, 1)]), ["a: new"])
        self.assertIn("no last result", figures.changes([], Path("/nonexistent/bench.json"))[0])


class Judgements(unittest.TestCase):
    """Aims."""

    def test_ratio(self) -> None:
        self.assertEqual(figures.judgements([_figure("a", 25, 100, 0.25)]), [])
        self.assertEqual(len(figures.judgements([_figure("a", 26, 100, 0.25)])), 1)

    def test_many_queues(self) -> None:
        one = _figure("post_single", 100, 400)
        self.assertEqual(figures.judgements([one, _figure("post_single_1024q", 104, 400)]), [])
        self.assertEqual(len(figures.judgements([one, _figure("post_single_1024q", 106, 400)])), 1)

    def test_look_up(self) -> None:
        self.assertEqual(len(figures.judgements([_figure("qid_hit", 16, 100, 0.32)])), 1)


class Functions(unittest.TestCase):
    """Names of functions."""

    def test_own(self) -> None:
        for name, own in (
            ("<main::queue::ring::Ring<T> as core::ops::Deref>::deref::<u8>", "queue::ring::Ring::deref"),
            ("<main::a::B<kernel::Vec<C, D>, E<main::F>>>::insert", "a::B::insert"),
            ("<main::a::B>::posted::<<main::c::D>::post_writes::{closure#1}>", "a::B::posted"),
            ("<main::a::B<fn() -> u8>>::call", "a::B::call"),
            ("main::queue::encode::data", "queue::encode::data"),
        ):
            self.assertEqual(functions.own([name, "mlx5_ulp_post_write"]), own)

    def test_of_the_library(self) -> None:
        names = ["core::ptr::write::<[[u8; 16]; 3]>", "<main::a::B>::c", "mlx5_ulp_post_write"]
        self.assertEqual(functions.own(names), "a::B::c")
        self.assertEqual(functions.own(["core::ptr::write", "mlx5_ulp_post_write"]), "mlx5_ulp_post_write")


class Records(unittest.TestCase):
    """Figures from what the guest leaves."""

    def test_per_write(self) -> None:
        def counters(doorbells: int) -> str:
            mmio = {"sq_doorbells": doorbells, "blueflame_wqes": doorbells - 1, "cq_arms": 0}
            return json.dumps({"functions": {"pf0": {"mmio": mmio}}})

        record = Record(
            {
                "case": {"interface": VERBS, "chain": 16, "params": []},
                "result": {"writes": 16, "executed": 32, "post": 160},
                "before": counters(5),
                "after": counters(7),
            }
        )
        self.assertEqual(record.per_write("post"), 10)
        self.assertEqual(record.mmio(), 2 / 32)

    def test_cases(self) -> None:
        every = list(cases(quick=False))
        self.assertIn(SINGLE, every)
        self.assertEqual([case for case in every if case.interface == VERBS and case.rounds == 0], [])


class Tables(unittest.TestCase):
    """The form of tables."""

    def test_grid(self) -> None:
        text = table.grid(("a", "bb"), [("left", "1"), ("x", "22")])
        self.assertEqual(text, "====  ==\na     bb\n====  ==\nleft   1\nx     22\n====  ==")
