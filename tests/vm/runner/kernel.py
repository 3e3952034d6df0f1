# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A kernel to boot: what tests/vm/enter --kernel mounts at /kernels/SERIES."""

from __future__ import annotations

import dataclasses
from pathlib import Path

KERNELS = Path("/kernels")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel series, by the one version of it that is installed."""

    series: str

    @property
    def directory(self) -> Path:
        """Where vmlinuz, lib/modules and source are."""
        return KERNELS / self.series

    @property
    def available(self) -> bool:
        """Whether this series is there at all."""
        return (self.directory / "vmlinuz").exists()

    @property
    def image(self) -> Path:
        """The image to boot."""
        return self.directory / "vmlinuz"

    @property
    def release(self) -> str:
        """What `uname -r` says in the guest."""
        return (self.directory / "release").read_text().strip()

    @property
    def slowness(self) -> int:
        """How many times longer than on the stock kernel things may take."""
        return 8 if self.series == "debug" else 1

    @property
    def finds_leaks(self) -> bool:
        """Whether it has kmemleak."""
        return self.series == "debug"

    @property
    def memory_factor(self) -> int:
        """How many times more memory than the stock kernel it needs."""
        return 2 if self.series == "debug" else 1
