# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A guest test: a script, and what its header declares.

The header is the run of comment lines at the top of the script. Lines of the form
``# key: value`` declare what the test needs:

    functions     ConnectX functions, for instance ``pf,vf`` or ``pf:mrrs=128,vf``; none by default
    guests        2 for two guests: the first has the first function, the second the others, and both run
                  the script, with GUEST=1 and GUEST=2; 1 by default
    cpus          number of CPUs, 2 by default
    memory        guest memory in MiB, 2048 by default
    timeout       seconds, 60 by default
    connectx      more arguments for the software ConnectX; what it writes to results/NAME, guests find as
                  /results/NAME
    clock         ``instructions`` for a guest whose clock counts instructions, not time
    boot          ``own`` for a test that wants a VM for itself
    when          ``long`` for a test that only `make check-all` runs, ``long on 7.2`` for one that it alone
                  runs on these kernels
    kernels       the kernel series that it runs on; all of them by default
    dmesg-allow   regular expression of a whole kernel log line that is expected; may be repeated;
                  that of a report's headline (``WARNING: ``, ``BUG: ``) stands for the report
    dmesg-allow-of  files in guest/lib/dmesg with such expressions, one a line
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from pathlib import Path

from .paths import GUEST_TESTS

_KEYS = {"functions", "guests", "cpus", "memory", "timeout", "connectx", "clock", "boot", "when", "kernels"}
_KEYS |= {"dmesg-allow", "dmesg-allow-of"}
_DMESG = GUEST_TESTS / "lib/dmesg"


class HeaderError(Exception):
    """A test's header declares something that is not known or not valid."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a VM looks like. Tests of one shape can share a boot."""

    functions: tuple[str, ...] = ()
    guests: int = 1
    cpus: int = 2
    memory: int = 2048
    connectx: tuple[str, ...] = ()
    # The guest's clock counts the instructions of all CPUs, 1 ns each, which then run in turn.
    counts_instructions: bool = False


@dataclasses.dataclass(frozen=True)
class GuestTest:
    """A script to run in a guest, and what it needs there."""

    name: str
    script: Path
    shape: Shape = Shape()
    timeout: int = 60
    own_boot: bool = False
    long: bool = False
    long_on: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    dmesg_allow: tuple[re.Pattern[str], ...] = ()

    def is_long(self, kernel: str) -> bool:
        """Whether only `make check-all` runs the test on this kernel series."""
        return self.long or kernel in self.long_on

    def runs_on(self, kernel: str) -> bool:
        """Whether the test wants to run on this kernel series."""
        return not self.kernels or kernel in self.kernels


def split_list(value: str) -> tuple[str, ...]:
    """Splits a list that is written with commas or spaces."""
    return tuple(value.replace(",", " ").split())


def _lines_of(script: Path, name: str) -> list[str]:
    """The expressions in a file of lib/dmesg."""
    try:
        lines = (_DMESG / name).read_text().splitlines()
    except OSError as error:
        raise HeaderError(f"{script}: dmesg-allow-of: {error}") from error
    return [line for line in lines if not line.startswith("#")]


def parse(name: str, script: Path) -> GuestTest:
    """Reads the header of a test's script.

    Raises HeaderError, with the file's name, where the header is wrong.
    """
    declared: dict[str, str] = {}
    expressions: list[str] = []
    for line in script.read_text().splitlines():
        if not line.startswith("#"):
            break
        match = re.fullmatch(r"# ([a-z-]+): (.*)", line)
        if not match or match[1] not in _KEYS:
            continue
        key, value = match[1], match[2].strip()
        if key == "dmesg-allow":
            expressions.append(value)
        elif key == "dmesg-allow-of":
            for file in split_list(value):
                expressions += _lines_of(script, file)
        elif key in declared:
            raise HeaderError(f"{script}: {key} is declared twice")
        else:
            declared[key] = value

    try:
        allow = tuple(re.compile(expression) for expression in expressions)
    except re.error as error:
        raise HeaderError(f"{script}: dmesg-allow: {error}") from error

    def number(key: str, default: int) -> int:
        value = declared.get(key, str(default))
        if not value.isdigit() or int(value) == 0:
            raise HeaderError(f"{script}: {key}: {value} is not a positive number")
        return int(value)

    guests = number("guests", Shape.guests)
    functions = split_list(declared.get("functions", ""))
    if guests > 2 or (guests == 2 and len(functions) < 2):
        raise HeaderError(f"{script}: guests: at most two, and with a function each")
    when, *long_on = split_list(declared.get("when", "long"))
    if when != "long" or long_on[:1] not in ([], ["on"]) or len(long_on) == 1:
        raise HeaderError(f"{script}: when: only `long` or `long on KERNEL...` can be declared")
    for key, only in (("clock", "instructions"), ("boot", "own")):
        if declared.get(key, only) != only:
            raise HeaderError(f"{script}: {key}: only `{only}` can be declared")
    return GuestTest(
        name=name,
        script=script,
        shape=Shape(
            functions=functions,
            guests=guests,
            cpus=number("cpus", Shape.cpus),
            memory=number("memory", Shape.memory),
            connectx=tuple(declared.get("connectx", "").split()),
            counts_instructions="clock" in declared,
        ),
        timeout=number("timeout", GuestTest.timeout),
        own_boot="boot" in declared,
        long="when" in declared and not long_on,
        long_on=tuple(long_on[1:]),
        kernels=split_list(declared.get("kernels", "")),
        dmesg_allow=allow,
    )


def find(directory: Path = GUEST_TESTS, glob: str = "*") -> list[GuestTest]:
    """All tests below `directory` whose name (``area/name``) matches `glob`, sorted."""
    tests = []
    for script in sorted(directory.glob("*/*.sh")):
        name = f"{script.parent.name}/{script.stem}"
        if script.parent.name != "lib" and fnmatch.fnmatch(name, glob):
            tests.append(parse(name, script))
    return tests


# More tests than this do not share a boot: what runs side by side with them would wait for the last.
_MOST_PER_BOOT = 8


def boots(tests: list[GuestTest]) -> list[list[GuestTest]]:
    """Groups tests so that those of one shape share a boot, in a stable order."""
    groups: dict[object, list[GuestTest]] = {}
    for test in tests:
        groups.setdefault(test.name if test.own_boot else test.shape, []).append(test)
    return [
        group[first : first + _MOST_PER_BOOT]
        for group in groups.values()
        for first in range(0, len(group), _MOST_PER_BOOT)
    ]
