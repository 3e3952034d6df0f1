# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A build option with a value that cannot work, or a kernel, stops the build of the module, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Values, and what is said of each.
_REFUSED = [
    ("MLX5_WQE_ALIGNMENT=32", "basic blocks of 64 bytes, 64 is the only value"),
    ("MLX5_WQE_ALIGNMENT=128", "basic blocks of 64 bytes, 64 is the only value"),
    ("MLX5_VF_QID_CACHE_SIZE=0", "a power of two of entries, from 8 to 65536"),
    ("MLX5_VF_QID_CACHE_SIZE=100", "a power of two of entries, from 8 to 65536"),
    ("MLX5_VF_QID_CACHE_SIZE=131072", "a power of two of entries, from 8 to 65536"),
    ("CONFIG_PREEMPT_RT=y", "the spin locks of that kernel sleep"),
]
_ACCEPTED = ["MLX5_WQE_ALIGNMENT=64", "MLX5_VF_QID_CACHE_SIZE=8", "MLX5_VF_QID_CACHE_SIZE=65536"]


def _read(source: Path, option: str) -> tuple[int, str]:
    """What make says when it reads the module's Kbuild with an option, as kbuild does before anything else."""
    command = ["make", "--eval", "nothing: ; @true", f"srctree={source}", "obj=.", "src=.", option]
    command += ["-f", "rust/mlx5_ulp/Kbuild", "nothing"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def main() -> int:
    """Checks all, for the source of the kernel named on the command line."""
    source = Path(sys.argv[1])
    bad = 0
    for option, reason in _REFUSED:
        status, output = _read(source, option)
        if status == 0 or reason not in output:
            print(f"{option}: status {status}, without '{reason}'")
            bad += 1
    for option in _ACCEPTED:
        status, output = _read(source, option)
        if status:
            print(f"{option}: {output.strip()}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
