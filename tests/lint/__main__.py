# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs all checks and reports each."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Callable
from pathlib import Path

from runner import build, cargo, step
from runner.kernel import Kernel
from runner.paths import BUILD, run_logs
from runner.report import Report

from . import sources, text


def _first_line(output: str) -> str:
    lines = output.strip().splitlines()
    more = f" (and {len(lines) - 1} more lines)" if len(lines) > 1 else ""
    return lines[0][:200] + more if lines else "no output"


def _checkpatch_reason(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(("ERROR", "WARNING", "CHECK"))]
    places = [line for line in output.splitlines() if line.startswith("#") and "FILE:" in line]
    if not lines:
        return step.last_line(output)
    return f"{lines[0]} {places[0].split('FILE: ')[-1] if places else ''} ({len(lines)} in all)"


class Lint:
    """The checks, against the kernel whose tools they use."""

    def __init__(self, report: Report, kernel: Kernel, glob: str) -> None:
        self._report = report
        self._kernel = kernel
        self._glob = glob

    def _run(
        self,
        name: str,
        command: list[str],
        explain: Callable[[str], str] = _first_line,
        forbid: Callable[[str], str | None] = lambda output: None,
        cwd: Path | None = None,
    ) -> None:
        if fnmatch.fnmatch(name, self._glob) or fnmatch.fnmatch(f"lint/{name}", self._glob):
            step.run(self._report, f"lint/{name}", command, explain=explain, forbid=forbid, cwd=cwd)

    def text(self) -> None:
        """Licences and the like, in all files."""
        for check in text.CHECKS:
            self._run(check, [sys.executable, "-m", "lint.text", check])

    def scripts(self) -> None:
        """Shell and Python."""
        shellcheck = ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR"]
        shellcheck += ["--severity=warning"]
        self._run("shellcheck", [*shellcheck, *sources.shell_scripts()])
        packages = ["tests/vm/runner", "tests/lint"]
        self._run("mypy", ["mypy", "--strict", "--cache-dir=/tmp/mypy", *packages], step.last_line)

    def rust(self) -> None:
        """Format of all Rust, what is generated of it, clippy on what runs on the host."""
        config = self._kernel.directory / "source/.rustfmt.toml"
        self._run("rustfmt", [sys.executable, "-m", "lint.rustfmt", str(config)])
        layouts = ["tests/connectx/scripts/gen-ifc.sh", "--check", str(config.parent)]
        self._run("layouts", layouts, step.last_line)
        for crate in cargo.crates():
            clippy = ["cargo", "clippy", "--locked", "--all-targets", "--", "--deny", "warnings"]
            # As the kernel does it: what its style takes for clear.
            clippy += ["--allow", "clippy::precedence"]
            self._run(f"clippy/{crate.name}", clippy, step.first_error, cwd=crate)
        # Its program needs a C++ compiler, which is not here; the target is compiled without.
        fuzz = cargo.CONNECTX.absolute() / "fuzz"
        clippy = ["cargo", "clippy", "--locked", "--no-default-features", "--", "--deny", "warnings"]
        self._run("clippy/fuzz", clippy, step.first_error, cwd=fuzz)

    def modules(self) -> None:
        """What compilers, clippy, objtool and modpost say of the modules."""
        self._run(
            "clippy/modules",
            [
                "tests/vm/build-modules", self._kernel.series, "clippy",
                "CLIPPY=1", "KRUSTFLAGS=-Dwarnings", "BINDGEN_LAYOUT_TESTS=1", "W=1",
            ],  # fmt: skip
            step.first_error,
            build.complaints,
        )
        objects = BUILD / "clippy" / self._kernel.series / "rust"
        module = str(objects / "mlx5_ulp/main.o")
        self._run("panics", [sys.executable, "-m", "lint.panics", module])
        self._run("prefetch", [sys.executable, "-m", "lint.prefetch", module])
        self._run("barriers", [sys.executable, "-m", "lint.barriers", module])
        source = str(self._kernel.directory / "source")
        self._run("options", [sys.executable, "-m", "lint.options", source])
        self._run("refused", [sys.executable, "-m", "lint.refused", str(objects.parent)])

    def checkpatch(self) -> None:
        """The kernel's style in C."""
        script = self._kernel.directory / "source/scripts/checkpatch.pl"
        options = ["--no-tree", "--no-summary", "--quiet", "--show-types", "--file"]
        # Functions that are written in Rust do not precede their exports in C.
        options += ["--ignore", "EXPORT_SYMBOL"]
        files = sources.with_suffix(".c", ".h")
        # The form of trace events is not that of C, which --strict does not know.
        events = [file for file in files if "include/trace/" in file]
        code = [file for file in files if file not in events]
        for name, strict, some in (("c", ["--strict"], code), ("events", [], events)):
            command = ["perl", str(script), *strict, *options, *some]
            self._run(f"checkpatch/{name}", command, _checkpatch_reason)

    def kernel_doc(self) -> None:
        """What the headers of the interface say of each function, structure and argument."""
        script = self._kernel.directory / "source/scripts/kernel-doc"
        headers = [file for file in sources.with_suffix(".h") if file.startswith("include/mlx5")]
        command = [sys.executable, str(script), "-none", "-Wall", "-Werror", *headers]
        self._run("kernel-doc", command)
        self._run("interface", [sys.executable, "-m", "lint.interface"])


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="lint", description=__doc__)
    parser.add_argument("--glob", default="*", help="run the checks whose name matches")
    parser.add_argument("--kernel", required=True, help="the kernel series to lint against")
    options = parser.parse_args()
    report = Report(run_logs("lint"))
    lint = Lint(report, Kernel(options.kernel), options.glob)
    lint.text()
    lint.scripts()
    lint.rust()
    lint.checkpatch()
    lint.kernel_doc()
    lint.modules()
    if report.passed + report.failed == 0:
        print(f"no check matches {options.glob}", file=sys.stderr)
        return 2
    return 0 if report.close() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
