# SPDX-License-Identifier: GPL-2.0 OR MIT
"""QEMU's command line for a VM."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from .guest_test import Shape
from .kernel import Kernel


@dataclasses.dataclass(frozen=True)
class Paths:
    """The files and sockets through which a VM is joined to the host."""

    initramfs: Path
    console: Path
    kmsg: Path
    agent: Path
    results: Path
    functions: list[Path]
    connectx_control: Path | None


def _kernel_arguments(kernel: Kernel, number: int) -> str:
    return " ".join(
        [
            "console=ttyS0",
            f"series={kernel.series}",
            f"guest={number}",
            "loglevel=5",
            "log_buf_len=8M",
            "printk.devkmsg=on",
            # A fault ends the VM, where it would otherwise hang until its time is over.
            "oops=panic",
            "panic=-1",
            # Emulated CPUs of a busy host stand still for seconds: no fault of the guest.
            "watchdog_thresh=60",
            "rcupdate.rcu_cpu_stall_timeout=120",
            "mitigations=off",
            "net.ifnames=0",
        ]
    )


def _accelerator(shape: Shape) -> list[str]:
    """Emulated, unless ACCEL=kvm asks otherwise for a guest whose clock counts time."""
    if shape.counts_instructions:
        return ["-accel", "tcg,thread=single", "-icount", "shift=0"]
    accelerator = os.environ.get("ACCEL") or "tcg"
    if accelerator == "tcg":
        accelerator = "tcg,thread=multi"
    return ["-accel", accelerator]


def command(kernel: Kernel, shape: Shape, paths: Paths, number: int) -> list[str]:
    """The command line: `shape` on `kernel`, for the guest with this number."""
    memory = shape.memory * kernel.memory_factor
    line = [
        "qemu-system-x86_64",
        "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none",
        *_accelerator(shape),
        "-machine", "q35,memory-backend=ram",
        "-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on",
        "-smp", str(shape.cpus),
        "-kernel", str(kernel.image),
        "-initrd", str(paths.initramfs),
        "-append", _kernel_arguments(kernel, number),
        "-chardev", f"file,id=console,path={paths.console}",
        "-serial", "chardev:console",
        "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
        "-virtfs", f"local,path={paths.results},mount_tag=results,security_model=none",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={paths.agent}",
        "-device", "virtserialport,chardev=agent,name=agent",
        "-chardev", f"file,id=kmsg,path={paths.kmsg}",
        "-device", "virtserialport,chardev=kmsg,name=kmsg",
    ]  # fmt: skip
    if paths.connectx_control:
        line += [
            "-chardev", f"socket,id=connectx,path={paths.connectx_control}",
            "-device", "virtserialport,chardev=connectx,name=connectx",
        ]  # fmt: skip
    for index, socket in enumerate(paths.functions):
        device = {
            "driver": "vfio-user-pci",
            # The ConnectX answers each message, so each write must wait for it.
            "x-no-posted-writes": True,
            "x-msg-timeout": 60000,
            "socket": {"type": "unix", "path": str(socket)},
            "bus": f"port{index}",
        }
        line += [
            "-device", f"pcie-root-port,id=port{index},chassis={index + 1}",
            "-device", json.dumps(device),
        ]  # fmt: skip
    return line
