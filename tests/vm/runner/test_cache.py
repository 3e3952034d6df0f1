# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of cache.sh: that interrupted and simultaneous set-ups do no harm."""

import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

VM = Path("/src/tests/vm")


class Cache(unittest.TestCase):
    """Its functions, in a cache of the test's own."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        # cache.sh takes the recipes from beside itself.
        shutil.copy(VM / "cache.sh", self.directory / "cache.sh")
        self.cache = self.directory / "cache"

    def start(self, script: str) -> subprocess.Popen[str]:
        script = f"set -eu; . {self.directory}/cache.sh; {script}"
        return subprocess.Popen(
            ["bash", "-c", script],
            env={"MLX5_ULP_CACHE": str(self.cache), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_to_end(self, script: str, status: int = 0) -> tuple[str, str]:
        child = self.start(script)
        output, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, status, errors)
        return output.strip(), errors

    def key_of(self, text: str) -> str:
        (self.directory / "recipe").write_text(text)
        return self.run_to_end("key recipe")[0]

    def test_key(self) -> None:
        first = self.key_of("# comment\npackage\n")
        self.assertEqual(first, self.key_of("# another comment\npackage\n"))
        self.assertNotEqual(first, self.key_of("# comment\npackage another\n"))
        self.assertNotEqual(first, self.key_of("# CONFIG_SLUB_TINY is not set\npackage\n"))

    def test_scratch_removes_what_an_interrupted_run_left(self) -> None:
        stale = Path(self.run_to_end('d=$(scratch thing); touch "$d/file"; echo "$d"')[0])
        self.assertTrue((stale / "file").exists())
        other = Path(self.run_to_end("scratch other-thing")[0])
        fresh = Path(self.run_to_end("scratch thing")[0])
        self.assertFalse(stale.exists())
        self.assertEqual(list(fresh.iterdir()), [])
        self.assertTrue(other.exists())

    def test_resumable_goes_on_by_the_same_recipe_only(self) -> None:
        first = Path(self.run_to_end('d=$(resumable thing one); touch "$d/file"; echo "$d"')[0])
        other = Path(self.run_to_end("resumable other-thing one")[0])
        self.assertEqual(Path(self.run_to_end("resumable thing one")[0]), first)
        self.assertTrue((first / "file").exists())
        fresh = Path(self.run_to_end("resumable thing two")[0])
        self.assertEqual(list(fresh.iterdir()), [])
        self.assertFalse(first.exists())
        self.assertTrue(other.exists())

    def test_lock_lets_one_in_at_a_time(self) -> None:
        first = self.start("lock thing; echo locked; read -t 2 < <(sleep 3) || :; echo leaving")
        assert first.stdout
        self.assertEqual(first.stdout.readline(), "locked\n")
        start = time.monotonic()
        _, errors = self.run_to_end("lock thing")
        self.assertGreater(time.monotonic() - start, 1)
        self.assertIn("waiting for another run", errors)
        first.communicate(timeout=60)

    def test_lock_ends_with_a_process_that_is_killed(self) -> None:
        first = self.start("lock thing; echo locked; exec sleep 60")
        assert first.stdout
        first.stdout.readline()
        first.kill()
        first.communicate(timeout=60)
        self.run_to_end("lock thing")

    def test_long_says_why_it_failed(self) -> None:
        log = self.directory / "log"
        _, errors = self.run_to_end(f"long 'a title' {log} sh -c 'echo the reason; exit 5'", status=5)
        self.assertIn("failed: a title", errors)
        self.assertIn("the reason", errors)
        self.assertEqual(log.read_text(), "the reason\n")


if __name__ == "__main__":
    unittest.main()
