# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of parallel.py."""

import os
import threading
import unittest
from unittest import mock

from . import parallel


class Run(unittest.TestCase):
    """Jobs side by side."""

    def test_all_jobs_run_once_in_order(self) -> None:
        done: list[int] = []
        parallel.run([lambda n=n: done.append(n) for n in range(5)], 1)  # type: ignore[misc]
        self.assertEqual(done, [0, 1, 2, 3, 4])

    def test_side_by_side(self) -> None:
        # Each job waits for the other: one at a time, neither would end.
        meeting = threading.Barrier(2, timeout=30)
        parallel.run([meeting.wait, meeting.wait], 2)  # type: ignore[list-item]

    def test_a_failure_ends_the_run(self) -> None:
        done: list[int] = []

        def fail() -> None:
            raise ValueError("no")

        with self.assertRaises(ValueError):
            parallel.run([lambda: done.append(1), fail, lambda: done.append(2)], 1)
        self.assertEqual(done, [1])


class AtOnce(unittest.TestCase):
    """How many."""

    def test_what_the_user_says(self) -> None:
        with mock.patch.dict(os.environ, {"JOBS": "7"}):
            self.assertEqual(parallel.vms_at_once(), 7)

    def test_what_the_machine_has(self) -> None:
        with mock.patch.dict(os.environ, {"JOBS": ""}):
            with mock.patch("os.sched_getaffinity", return_value={0, 1}):
                self.assertEqual(parallel.vms_at_once(), 3)
            with mock.patch("os.sched_getaffinity", return_value=set(range(64))):
                self.assertEqual(parallel.vms_at_once(), 4)


if __name__ == "__main__":
    unittest.main()
