# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of guest_test.py."""

import dataclasses
import tempfile
import unittest
from pathlib import Path

from . import guest_test
from .guest_test import GuestTest, HeaderError, Shape


class Header(unittest.TestCase):
    """Reading what a script declares."""

    def parse(self, header: str) -> GuestTest:
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(header)
            file.flush()
            test = guest_test.parse("area/name", Path(file.name))
        return dataclasses.replace(test, script=Path("script"))

    def test_defaults(self) -> None:
        test = self.parse("#!/bin/bash\n# Says: nothing.\n\n# cpus: 4\n")
        self.assertEqual(test, GuestTest("area/name", Path("script")))

    def test_all_keys(self) -> None:
        test = self.parse(
            "#!/bin/bash\n# functions: pf,vf\n# guests: 2\n# cpus: 4\n# memory: 512\n# timeout: 7\n"
            "# connectx: --scramble-reserved --verbose\n# boot: own\n# when: long\n# kernels: 7.3 debug\n"
            "# dmesg-allow: one: two\n# dmesg-allow: three\n"
        )
        shape = Shape(("pf", "vf"), 2, 4, 512, ("--scramble-reserved", "--verbose"))
        self.assertEqual(test.shape, shape)
        self.assertEqual((test.timeout, test.own_boot, test.long), (7, True, True))
        self.assertEqual([p.pattern for p in test.dmesg_allow], ["one: two", "three"])
        self.assertTrue(test.runs_on("debug"))
        self.assertFalse(test.runs_on("7.2"))

    def test_expressions_of_a_file(self) -> None:
        test = self.parse("# dmesg-allow: one\n# dmesg-allow-of: card-pulled-out firmware-died\n")
        patterns = [pattern.pattern for pattern in test.dmesg_allow]
        self.assertEqual(patterns[0], "one")
        for line in (r"NIC IFC still 7 after 2000ms\.", r"NIC IFC still 0 after 2000ms\."):
            self.assertEqual([p.removeprefix("mlx5_core [0-9a-f:.]+: ") for p in patterns].count(line), 1)
        self.assertNotIn("#", "".join(pattern[:1] for pattern in patterns))

    def test_long_on_some_kernels(self) -> None:
        test = self.parse("# when: long on 7.2 debug\n")
        self.assertEqual([test.is_long(k) for k in ("7.3", "7.2", "debug")], [False, True, True])
        self.assertTrue(self.parse("# when: long\n").is_long("7.3"))
        self.assertFalse(self.parse("").is_long("7.3"))

    def test_errors(self) -> None:
        for header in (
            "cpus: two",
            "cpus: 0",
            "boot: shared",
            "when: never",
            "when: long on",
            "when: long 7.2",
            "dmesg-allow: (",
            "dmesg-allow-of: what-there-is-not",
            "cpus: 1\n# cpus: 2",
            "functions: pf,vf\n# guests: 3",
            "functions: pf\n# guests: 2",
        ):
            with self.subTest(header), self.assertRaises(HeaderError):
                self.parse(f"# {header}\n")


class Boots(unittest.TestCase):
    """Sharing VMs."""

    def test_grouping(self) -> None:
        def test(name: str, cpus: int, own: bool = False) -> GuestTest:
            return GuestTest(name, Path(name), Shape(cpus=cpus), own_boot=own)

        tests = [test("a", 2), test("b", 4), test("c", 2), test("d", 2, own=True)]
        names = [[one.name for one in group] for group in guest_test.boots(tests)]
        self.assertEqual(names, [["a", "c"], ["b"], ["d"]])

    def test_a_large_group_is_divided(self) -> None:
        tests = [GuestTest(str(n), Path("script")) for n in range(20)]
        groups = guest_test.boots(tests)
        self.assertEqual([test for group in groups for test in group], tests)
        self.assertEqual([len(group) for group in groups], [8, 8, 4])


if __name__ == "__main__":
    unittest.main()
