# SPDX-License-Identifier: GPL-2.0 OR MIT
"""One guest from power-on to power-off."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import socket
import time
from pathlib import Path
from types import TracebackType

from . import dmesg, initramfs, qemu
from .connectx import ConnectX
from .guest_test import Shape
from .kernel import Kernel
from .process import Process

_BOOT_SECONDS = 180
_POWEROFF_SECONDS = 60
# What the guest's agent may need beyond a test's own limit.
GRACE_SECONDS = 45
# How often to look at the processes on the host while the guest works.
_LOOK_SECONDS = 1
STATUS_TIMEOUT = 124


class VMError(Exception):
    """A guest did not come up, or went away, or does not answer."""


class GuestHangs(VMError):
    """A guest does not answer."""


class EmulatorFault(VMError):
    """The guest died of the emulator, or did not come up: nothing that was tested has to do with it."""


# While a CPU goes through code that another one is changing (a tracepoint, a static key), emulation now and then runs the
# breakpoint that stood there meanwhile, when it has been taken away already: the byte before the marked one is none.
_STALE_BREAKPOINT = re.compile(
    r"Oops: int3: (?:(?!Code: ).)*Code: (?:[0-9a-f]{2} )*(?!cc )[0-9a-f]{2} <", re.DOTALL
)


def is_emulator_fault(console: str) -> bool:
    """Whether the guest that has written this to its console died of the emulator."""
    return _STALE_BREAKPOINT.search(console) is not None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a script in the guest.

    `status` is its exit status, or None where the VM was lost; `lost` then says how, and `emulator_fault` whether the
    emulator is to blame.
    """

    status: int | None
    seconds: float
    output: Path
    kernel_log: list[dmesg.Line]
    lost: str | None = None
    emulator_fault: bool = False

    def text(self) -> str:
        """The output; none where the script did not come to run."""
        try:
            return self.output.read_text(errors="replace")
        except FileNotFoundError:
            return ""


def time_scale(kernel: Kernel) -> float:
    """By what to multiply all time limits: slow kernels, and TIMEOUT_SCALE for slow machines."""
    return kernel.slowness * float(os.environ.get("TIMEOUT_SCALE") or 1)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a guest's files are, and what it has of the software ConnectX.

    The guests of one VM have one folder of results, and one ConnectX with a function each.
    """

    number: int
    sockets: Path
    logs: Path
    results: Path
    connectx: ConnectX | None
    functions: list[Path]


class Guest:
    """A running guest. Use it in a `with` statement.

    Raises VMError if it does not come up.
    """

    def __init__(self, kernel: Kernel, shape: Shape, place: Place, grace: float) -> None:
        self.kernel = kernel
        self._grace = grace
        self._place = place
        self.alive = False
        self._scale = time_scale(kernel)
        self._console = place.logs / "console"
        self._kmsg = place.logs / "kmsg"
        self._closer = contextlib.ExitStack()
        try:
            self._start(shape)
        except BaseException:
            self._closer.close()
            raise

    def _start(self, shape: Shape) -> None:
        sockets = self._place.sockets
        initramfs.build(self.kernel, sockets / "initramfs")

        listener = self._closer.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(sockets / "agent"))
        listener.listen(1)
        connectx = self._place.connectx
        paths = qemu.Paths(
            initramfs=sockets / "initramfs",
            console=self._console,
            kmsg=self._kmsg,
            agent=sockets / "agent",
            results=self._place.results,
            functions=self._place.functions,
            connectx_control=connectx.control if connectx else None,
        )
        command = qemu.command(self.kernel, shape, paths, self._place.number)
        self._qemu = Process(command, self._place.logs / "qemu.out")
        self._closer.enter_context(self._qemu)

        listener.settimeout(30)
        try:
            self._agent, _ = listener.accept()
        except TimeoutError as error:
            output = self._qemu.log.read_text(errors="replace").strip()
            raise VMError(f"QEMU did not start: {output[-500:]}") from error
        self._closer.enter_context(self._agent)
        self._buffer = b""
        self.alive = True
        try:
            answer = self._answer(_BOOT_SECONDS * self._scale)
        except GuestHangs as error:
            # On a busy host, emulated timers now and then get lost while the kernel calibrates its own by them.
            raise EmulatorFault(f"at boot, {error}") from error
        if answer != f"ready {self.kernel.release}":
            raise VMError(f"the guest came up wrongly: {answer}")

    def _answer(self, seconds: float) -> str:
        """The next line from the guest's agent. Raises VMError, and the VM counts as lost."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            self._agent.settimeout(_LOOK_SECONDS)
            try:
                data = self._agent.recv(4096)
            except TimeoutError:
                self._require_connectx()
                if time.monotonic() > deadline:
                    self.alive = False
                    raise GuestHangs(f"the guest hangs: no answer in {seconds:.0f} s") from None
                continue
            except ConnectionError:
                data = b""
            if not data:
                self.alive = False
                raise self._death()
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    def _require_connectx(self) -> None:
        """Raises VMError if the software ConnectX is there no longer; the VM counts as lost."""
        connectx = self._place.connectx
        if connectx and connectx.process.status is not None:
            self.alive = False
            raise VMError(f"the software ConnectX ended with status {connectx.process.status}")

    def _death(self) -> VMError:
        self._qemu.wait(10)
        console = self._console.read_text(errors="replace")
        kind = EmulatorFault if is_emulator_fault(console) else VMError
        return kind(self._cause_of_death(console))

    def _cause_of_death(self, console: str) -> str:
        for line in console.splitlines():
            if "Kernel panic" in line:
                return line[line.index("Kernel panic") :].strip()
        status = self._qemu.status
        output = self._qemu.log.read_text(errors="replace").strip()
        return f"QEMU ended with status {status} {output[-500:]}".strip()

    def run(self, identifier: str, script: Path, timeout: float) -> Outcome:
        """Runs a script in the guest; `identifier` names its folder of results."""
        limit = timeout * self._scale
        start = time.monotonic()
        output = self._place.results / identifier / "output"
        try:
            request = f"run {identifier} {limit:.0f} {math.ceil(self._scale)} {script}\n"
            self._agent.sendall(request.encode())
            words = self._answer(limit + self._grace * self._scale).split()
            if len(words) != 3 or words[:2] != ["done", identifier]:
                self.alive = False
                raise VMError(f"unexpected answer from the guest: {' '.join(words)}")
            self._require_connectx()
        except (VMError, OSError) as error:
            log, _ = dmesg.of_test(dmesg.read(self._kmsg), identifier)
            seconds = time.monotonic() - start
            return Outcome(None, seconds, output, log, str(error), isinstance(error, EmulatorFault))
        seconds = time.monotonic() - start
        return Outcome(int(words[2]), seconds, output, self._kernel_log(identifier))

    def _kernel_log(self, identifier: str) -> list[dmesg.Line]:
        """The kernel log of a test that has ended: waits until all of it has arrived."""
        deadline = time.monotonic() + 10 * self._scale
        while True:
            log, complete = dmesg.of_test(dmesg.read(self._kmsg), identifier)
            if complete or time.monotonic() > deadline:
                return log
            time.sleep(0.05)

    def boot_log(self) -> list[dmesg.Line]:
        """What the kernel said before the first test."""
        return dmesg.before_tests(dmesg.read(self._kmsg))

    def outside_tests(self) -> list[dmesg.Line]:
        """What the kernel has said between tests and after the last one; complete when the guest is off."""
        return dmesg.outside_tests(dmesg.read(self._kmsg))

    def console_tail(self, lines: int = 60) -> str:
        """The end of the serial console, which holds a panic's message."""
        text = self._console.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Guest:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.alive and kind is None:
            with contextlib.suppress(OSError):
                self._agent.sendall(b"poweroff\n")
            self._qemu.wait(_POWEROFF_SECONDS * self._scale)
        self._closer.close()
