# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Host tests: the crates' own, one result per test program, and long fuzzing."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
import re
import subprocess
from pathlib import Path

from . import step
from .report import Report

# Relative to the working directory: cargo tells checkouts apart by their paths.
CONNECTX = Path("tests/connectx")
CRATES = (Path("tests/host"), CONNECTX)


# Limit of one test program.
_SECONDS = 600
# How long each harness fuzzes when that is asked for: what FUZZ_SECONDS says, or this.
_FUZZ_SECONDS = 600
# The harnesses: test program, and the test in it. Documentation/connectx.rst describes them.
_FUZZING = (
    ("host/connectx/fuzz_guest", "a_hostile_guest_does_no_harm"),
    ("host/connectx/datapath", "fuzz::random_work_is_survived"),
    ("host/connectx/datapath", "fuzz::random_packets_are_survived"),
)


@dataclasses.dataclass(frozen=True)
class TestProgram:
    """A program that cargo built out of a crate's tests."""

    name: str
    executable: str
    crate: Path


def crates() -> list[Path]:
    """The crates with host tests, as absolute paths."""
    return [path.absolute() for path in CRATES if (path / "Cargo.toml").exists()]


def _test_programs(crate: Path, output: str) -> list[TestProgram]:
    programs = []
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if not message["profile"]["test"]:
            continue
        target = message["target"]
        name = "unit" if "lib" in target["kind"] else target["name"]
        if "bin" in target["kind"]:
            name = f"{target['name']}-main"
        programs.append(TestProgram(f"host/{crate.name}/{name}", message["executable"], crate))
    return programs


def failed_tests(output: str) -> str:
    """What libtest says about failures, in one line."""
    names = re.findall(r"^test (\S+) .*FAILED$", output, re.MULTILINE)
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return "failed: " + ", ".join(names[:5]) + more
    return step.last_line(output)


def _no_tests(output: str) -> str | None:
    """A test program whose tests have all vanished does not pass."""
    totals = re.findall(r"^test result: ok\. (\d+) passed", output, re.MULTILINE)
    return None if totals else "it did not say that its tests passed"


def may_match(prefix: str, glob: str) -> bool:
    """Whether a name that begins with `prefix` may match: else its crate need not be built."""
    begin = re.split(r"[*?\[]", glob)[0]
    return prefix.startswith(begin) or begin.startswith(prefix)


def not_just_one(output: str) -> str | None:
    """A harness that was renamed does not pass: a filter that matches nothing is no failure to libtest."""
    totals = re.findall(r"^test result: ok\. (\d+) passed", output, re.MULTILINE)
    return None if totals == ["1"] else "it ran " + (", ".join(totals) or "nothing") + " in place of one harness"


def _fuzz(report: Report, glob: str, programs: list[TestProgram]) -> None:
    """Each harness whose name matches, for long."""
    seconds = int(os.environ.get("FUZZ_SECONDS", _FUZZ_SECONDS))
    executables = {program.name: program for program in programs}
    for name, test in _FUZZING:
        wanted = f"host/connectx/fuzz/{test.rpartition('::')[2]}"
        if not fnmatch.fnmatch(wanted, glob):
            continue
        program = executables.get(name)
        if program is None:
            report.not_ok(wanted, 0, f"there is no test program {name}", "-")
            continue
        step.run(
            report,
            wanted,
            ["env", f"FUZZ_SECONDS={seconds}", program.executable, "--exact", "--nocapture", test],
            cwd=program.crate,
            explain=failed_tests,
            # The last episode, and the machine may be busy.
            timeout=2 * seconds + _SECONDS,
            forbid=not_just_one,
        )


def run(report: Report, glob: str, long: bool) -> None:
    """Builds and runs the host tests whose name matches; with `long`, then fuzzes for long."""
    for crate in crates():
        if not may_match(f"host/{crate.name}/", glob):
            continue
        command = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
        build = subprocess.run(
            command, cwd=crate, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if build.returncode:
            # Once more for the log, in words for people.
            step.run(
                report,
                f"host/{crate.name}/build",
                ["cargo", "test", "--locked", "--no-run"],
                cwd=crate,
                explain=step.first_error,
                forbid=lambda output: "it failed, and then it did not",
            )
            continue
        programs = _test_programs(crate, build.stdout)
        for program in programs:
            if fnmatch.fnmatch(program.name, glob):
                step.run(
                    report,
                    program.name,
                    # Of fuzzing a moment, whatever was set for `_fuzz`.
                    ["env", "-u", "FUZZ_SECONDS", program.executable],
                    cwd=program.crate,
                    explain=failed_tests,
                    timeout=_SECONDS,
                    forbid=_no_tests,
                )
        if long and crate == CONNECTX.absolute():
            _fuzz(report, glob, programs)
