# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The guest's first file system: busybox, an init, the modules that reach the root tree, and programs.

What tests run again and again is taken along: a program that is in the guest's memory starts in half the time of one
that the root tree gives, whose files cost some questions each to the host.
"""

from __future__ import annotations

import functools
import lzma
import shutil
import subprocess
import tempfile
from pathlib import Path

from .kernel import Kernel

_INIT = Path("/src/tests/vm/boot/initramfs-init")
_MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")

_PROGRAMS = (
    "awk", "basename", "bash", "cat", "cmp", "comm", "cut", "date", "dd", "diff", "dmesg", "env", "find", "flock", "grep",
    "head", "ip", "jq", "kill", "ln", "ls", "mkdir", "modprobe", "mount", "mountpoint", "nproc", "ps", "readlink", "rm",
    "rmdir", "sed", "seq", "sha256sum", "sleep", "sort", "stat", "sync", "tail", "taskset", "tee", "timeout", "touch",
    "tr", "true", "umount", "uname", "wc", "xargs",
)  # fmt: skip


@functools.cache
def _program_files() -> frozenset[Path]:
    """The files of these programs, and what the dynamic loader opens to start them."""
    programs = []
    for name in _PROGRAMS:
        found = shutil.which(name)
        if not found:
            raise FileNotFoundError(f"the root tree has no {name}")
        programs.append(found)
    # It fails if one of them needs no libraries, and tells of the others.
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    libraries = [word for word in listing.split() if word.startswith("/") and not word.endswith(":")]
    return frozenset(Path(file).resolve() for file in ["/etc/ld.so.cache", *programs, *libraries])


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
        for program in _program_files():
            copy = tree / "root" / program.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(program, copy)
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
