# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Host tests: the crates' own, one result per test program."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import re
import subprocess
from pathlib import Path

from . import step
from .report import Report

# Relative to the working directory: cargo tells checkouts apart by their paths.
CONNECTX = Path("tests/connectx")
CRATES = (Path("tests/host"), CONNECTX)


# Limits of one test program.
_SECONDS = 600
_LONG_SECONDS = 4 * 3600


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


def run(report: Report, glob: str, long: bool) -> None:
    """Builds and runs the host tests whose name matches; with `long`, the ignored ones, too."""
    ignored = ["--include-ignored"] if long else []
    for crate in crates():
        if not fnmatch.fnmatch(f"host/{crate.name}/", glob.split("*")[0] + "*"):
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
        for program in _test_programs(crate, build.stdout):
            if fnmatch.fnmatch(program.name, glob):
                step.run(
                    report,
                    program.name,
                    [program.executable, *ignored],
                    cwd=program.crate,
                    explain=failed_tests,
                    timeout=_LONG_SECONDS if long else _SECONDS,
                    forbid=_no_tests,
                )
