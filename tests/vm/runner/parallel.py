# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs jobs side by side, a few at a time."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable

Job = Callable[[], None]

# Each VM has two to four CPUs, of which the most are idle, and some tests wait: with one VM for each CPU of the host, a
# seventh of their time is lost. More than this would be too much for the memory of a usual machine.
_MOST_VMS = 4


def vms_at_once() -> int:
    """How many VMs to run at a time: JOBS, or what this machine has CPUs for."""
    return int(os.environ.get("JOBS") or min(len(os.sched_getaffinity(0)) + 1, _MOST_VMS))


def run(jobs: Iterable[Job], at_once: int) -> None:
    """Runs the jobs, started in this order, `at_once` at a time.

    The first exception of a job ends the run: no other job is started, and it is raised here when those that
    run have ended. An interrupt of the caller does not wait for them.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    failures: list[BaseException] = []

    def work() -> None:
        while not failures:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                job()
            except BaseException as error:
                failures.append(error)

    # Of daemons, the interpreter does not wait for when it is interrupted.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
