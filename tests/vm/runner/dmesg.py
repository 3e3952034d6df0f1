# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What the guest's kernel said, and which of it is a fault.

The guest sends the records of /dev/kmsg as they are (Documentation/ABI/testing/dev-kmsg):
``priority,sequence,microseconds,flags;text``, then lines with a leading space that belong
to the record. The agent in the guest writes marker lines around each test.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable
from pathlib import Path

_RECORD = re.compile(r"(\d+),\d+,(\d+),[^;]*;(.*)")
_MARKER = re.compile(r"vm-runner: (begin|end) (\S+)")

LEVEL_WARNING = 4

# Always a fault, whoever says it.
_FAULT = re.compile(
    r"^(WARNING: |BUG: |kernel BUG at |Oops: |general protection fault|Kernel panic"
    r"|INFO: (task .* blocked for more than|rcu_.* self-detected stall|trying to register non-static key)"
    r"|rcu: INFO: .* detected (expedited )?stalls?"
    r"|UBSAN: |DMA-API: .*(error|device driver)|ODEBUG: |kmemleak: \d+ new suspected"
    r"|-+\[ cut here \]"
    r"|list_(add|del) corruption|refcount_t: |watchdog: BUG|rust_kernel: panicked"
    r")"
)

# A fault from level warning on.
_OURS = re.compile(r"mlx5|infiniband|\bib_core\b|\bnvme")

# A report of the kernel: where it begins, and a line of its stack traces, of which some kinds have one more behind the
# first.
_CUT = re.compile(r"-+\[ cut here \]")
_HEADLINE = re.compile(r"WARNING: |BUG: ")
_STACK_ENTRY = re.compile(r" +(\? )?[\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+( \[\w+\])?")

# What the kernel says once of any module that is not its own.
_BENIGN = re.compile(
    r"\w+: (loading out-of-tree module taints kernel\."
    r"|module verification failed: signature and/or required key missing - tainting kernel)"
)


class _Report(enum.Enum):
    """Where in an announced report a line is."""

    NONE = enum.auto()
    BODY = enum.auto()
    BEHIND = enum.auto()


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the kernel log."""

    level: int
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"<{self.level}>[{self.seconds:12.6f}] {self.text}"


def parse(text: str) -> list[Line]:
    """Reads records of /dev/kmsg; what is no record (an unfinished last line) is dropped."""
    lines = []
    for raw in text[: text.rfind("\n") + 1].splitlines():
        match = _RECORD.fullmatch(raw)
        if match:
            lines.append(Line(int(match[1]) & 7, int(match[2]) / 1e6, match[3]))
    return lines


def of_test(lines: Iterable[Line], identifier: str) -> tuple[list[Line], bool]:
    """The lines between the markers of a test, and whether the end marker was there."""
    mine: list[Line] = []
    inside = False
    for line in lines:
        marker = _MARKER.fullmatch(line.text)
        if marker and marker[2] == identifier:
            inside = marker[1] == "begin"
            if not inside:
                return mine, True
        elif inside:
            mine.append(line)
    return mine, False


def before_tests(lines: Iterable[Line]) -> list[Line]:
    """The lines of the boot: all up to the first marker."""
    boot = []
    for line in lines:
        if _MARKER.fullmatch(line.text):
            break
        boot.append(line)
    return boot


def outside_tests(lines: Iterable[Line]) -> list[Line]:
    """The lines after the boot that are of no test: behind each of them, and when the guest is switched off."""
    outside: list[Line] = []
    begun = inside = False
    for line in lines:
        marker = _MARKER.fullmatch(line.text)
        if marker:
            begun, inside = True, marker[1] == "begin"
        elif begun and not inside:
            outside.append(line)
    return outside


def faults(lines: Iterable[Line], allowed: Iterable[re.Pattern[str]]) -> list[Line]:
    """The lines that fail a test, without those that it announced: a pattern stands for a whole line.

    The headline of a report of the kernel stands for the report.
    """
    lines, allowed = list(lines), [_BENIGN, *allowed]

    def announced(line: Line) -> bool:
        return any(pattern.fullmatch(line.text) for pattern in allowed)

    found = []
    report = _Report.NONE
    for line, following in zip(lines, [*lines[1:], None]):
        if announced(line):
            if _HEADLINE.match(line.text):
                report = _Report.BODY
        elif _FAULT.search(line.text):
            if not (_CUT.match(line.text) and following and announced(following)):
                report = _Report.NONE
                found.append(line)
        elif line.level <= LEVEL_WARNING and _OURS.search(line.text):
            of_report = report is _Report.BODY or (report is _Report.BEHIND and _STACK_ENTRY.fullmatch(line.text))
            if not of_report or line.level < LEVEL_WARNING:
                found.append(line)
        elif line.text.strip() == "</TASK>" and report is _Report.BODY:
            report = _Report.BEHIND
    return found


def read(path: Path) -> list[Line]:
    """Parses a file of records, which may not exist yet."""
    try:
        return parse(path.read_text(errors="replace"))
    except FileNotFoundError:
        return []
