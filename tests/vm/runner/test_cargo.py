# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Which crates are built for a glob, and what a fuzzing harness has to say."""

from __future__ import annotations

import unittest

from . import cargo


class TestGlob(unittest.TestCase):
    """The crates that a glob may have tests of."""

    def test_a_crate_whose_testsmay_match_is_built(self) -> None:
        for glob in ("*", "host/*", "host/connectx/*", "host/connectx/fuzz/*", "*/datapath", "host/con?ectx/unit"):
            self.assertTrue(cargo.may_match("host/connectx/", glob), glob)

    def test_others_are_not(self) -> None:
        for glob in ("ulp/*", "host/host/*", "7.3/connectx/*", "runner/unit"):
            self.assertFalse(cargo.may_match("host/connectx/", glob), glob)


class TestFuzzing(unittest.TestCase):
    """A harness counts only if it has run."""

    @staticmethod
    def _said(passed: int) -> str:
        return f"test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 51 filtered out"

    def test_one_harness_is_right(self) -> None:
        self.assertIsNone(cargo.not_just_one(self._said(1)))

    def test_a_filter_that_matches_nothing_fails(self) -> None:
        self.assertEqual(cargo.not_just_one(self._said(0)), "it ran 0 in place of one harness")
        self.assertEqual(cargo.not_just_one(""), "it ran nothing in place of one harness")
