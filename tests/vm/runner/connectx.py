# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The software ConnectX of a VM: one process for all its functions."""

from __future__ import annotations

import time
from pathlib import Path

from .guest_test import Shape
from .paths import BUILD
from .process import Process

BINARY = BUILD / "bin/connectx"
_START_SECONDS = 20


class ConnectXError(Exception):
    """The software ConnectX did not start."""


class ConnectX:
    """A running software ConnectX.

    `sockets` are the functions' vfio-user sockets, in the order of the shape;
    `control` is the socket for requests.
    """

    def __init__(self, shape: Shape, sockets: Path, logs: Path) -> None:
        self.sockets = [sockets / f"function{index}" for index in range(len(shape.functions))]
        self.control = sockets / "control"
        command = [str(BINARY)]
        for kind, socket in zip(shape.functions, self.sockets):
            # In a header, a comma stands between functions.
            command += ["--function", f"{kind.replace(':', ',')},socket={socket}"]
        command += ["--control", str(self.control)]
        command += ["--log", str(logs / "connectx.log")]
        command += ["--counters", str(logs / "connectx-counters.json")]
        command += shape.connectx
        if not BINARY.exists():
            raise ConnectXError(f"{BINARY} is not built")
        # The folder of results, which guests see, is among the logs: tests name files by results/NAME.
        self.process = Process(command, logs / "connectx.out", cwd=logs)
        try:
            self._wait_for_sockets()
        except BaseException:
            self.process.stop()
            raise

    def _wait_for_sockets(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not all(socket.exists() for socket in [*self.sockets, self.control]):
            if self.process.status is not None:
                raise ConnectXError(
                    f"the software ConnectX ended with status {self.process.status}: "
                    + self.process.log.read_text(errors="replace").strip()[-500:]
                )
            if time.monotonic() > deadline:
                raise ConnectXError("the software ConnectX made no sockets in time")
            time.sleep(0.02)
