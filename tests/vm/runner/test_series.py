# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of how kernel series come and go: the newest complete one is taken, and what is gone is skipped by name."""

import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from . import check
from .kernel import Kernel
from .report import Report

PACKAGES = "/src/tests/vm/kernel/packages"

# Answers as apt-cache does, from a folder with a file for each package: its version.
APT_CACHE = """#!/bin/bash
while [[ $1 == -* ]]; do shift 2; done
cd "$ARCHIVE"
case $1 in
search) ls | grep -E "$3" | sed 's/$/ - a package/' ;;
show) echo "Version: $(cat "$3")" ;;
madison) echo " $2 | $(cat "$2" 2> /dev/null) | archive" ;;
esac
"""


class Newest(unittest.TestCase):
    """Which kernel of a series is taken."""

    def newest(self, archive: dict[str, str]) -> tuple[int, str]:
        """Exit status and output for an archive with these packages."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "archive").mkdir()
            for name, version in archive.items():
                (Path(folder) / "archive" / name).write_text(version)
            stub = Path(folder) / "apt-cache"
            stub.write_text(APT_CACHE)
            stub.chmod(0o755)
            run = subprocess.run(
                ["bash", "-c", f"set -eu; . {PACKAGES}; rmdir $packages; newest 7.3; echo $release $version"],
                env={"PATH": f"{folder}:{os.environ['PATH']}", "ARCHIVE": f"{folder}/archive"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(run.stderr, "")
            return run.returncode, run.stdout.splitlines()[-1]

    @staticmethod
    def archive(*releases: str) -> dict[str, str]:
        """Packages of these patch levels."""
        return {
            f"linux-{kind}-7.3.{release}+deb13-amd64": f"7.3.{release}-1~bpo13+1"
            for release in releases
            for kind in ("image", "headers")
        }

    def test_by_number(self) -> None:
        archive = self.archive("9", "10") | {"linux-source-7.3": "7.3.10-1~bpo13+1"}
        self.assertEqual(self.newest(archive), (0, "7.3.10+deb13-amd64 7.3.10-1~bpo13+1"))

    def test_complete(self) -> None:
        # The source of the newest has not come yet.
        archive = self.archive("9", "10") | {"linux-source-7.3": "7.3.9-1~bpo13+1"}
        self.assertEqual(self.newest(archive), (0, "7.3.9+deb13-amd64 7.3.9-1~bpo13+1"))

    def test_gone(self) -> None:
        for archive in ({}, {"linux-source-7.3": "7.3.9-1~bpo13+1"}, self.archive("9")):
            self.assertEqual(self.newest(archive), (3, "series 7.3 is gone"))


class Gone(unittest.TestCase):
    """What `make check` does without a series."""

    def test_skipped_by_name(self) -> None:
        output = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
            report = Report(Path(folder))
            check.guests(report, {Kernel("9.9"): []})
        self.assertEqual((report.passed, report.failed, report.skipped), (0, 0, 1))
        self.assertIn("skip 9.9: ", output.getvalue())
