# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The guest's first file system: busybox, an init, and the modules that reach the root tree."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import tempfile
from pathlib import Path

from .kernel import Kernel

_INIT = Path("/src/tests/vm/boot/initramfs-init")
_MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")


def _module_files(kernel: Kernel) -> list[Path]:
    """The module files to load, in order. What is built in needs none."""
    files: list[Path] = []
    for module in _MODULES:
        listing = subprocess.run(
            ["modprobe", "-d", str(kernel.directory), "-S", kernel.release, "--show-depends", module],
            check=True,
            capture_output=True,
            text=True,
        )
        for line in listing.stdout.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "insmod" and Path(rest.strip()) not in files:
                files.append(Path(rest.strip()))
    return files


def build(kernel: Kernel, destination: Path) -> None:
    """Writes the initramfs for `kernel` to `destination`."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        (tree / "bin").mkdir()
        (tree / "modules").mkdir()
        shutil.copy2("/usr/bin/busybox", tree / "bin/busybox")
        shutil.copy2(_INIT, tree / "init")
        order = []
        for file in _module_files(kernel):
            module = file.name.removesuffix(".xz")
            data = file.read_bytes()
            (tree / "modules" / module).write_bytes(
                lzma.decompress(data) if file.suffix == ".xz" else data
            )
            order.append(module)
        (tree / "modules/order").write_text("".join(f"{module}\n" for module in order))
        names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
        with destination.open("wb") as output:
            subprocess.run(
                ["cpio", "--quiet", "-o", "-H", "newc", "--owner", "0:0"],
                check=True,
                cwd=tree,
                input="".join(f"{line}\n" for line in names).encode(),
                stdout=output,
            )
