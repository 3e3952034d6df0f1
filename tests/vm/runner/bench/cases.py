# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What is measured: the cases, and the parameters of the module in each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

ULP, EXCLUSIVE, VERBS = "mlx5_ulp", "mlx5_ulp_exclusive", "mlx5_ib"
ULP_EVENTS, VERBS_EVENTS = "mlx5_ulp_events", "mlx5_ib_events"

# Rounds after which adaptive doorbells have found the batch for a load that has changed.
SETTLED = 8

SIZES = {"8": (8, 0), "64 inline": (64, 1), "4096": (4096, 0)}


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of the test module, and the parameters of the sending device meanwhile."""

    interface: str
    size: int = 4096
    inline: int = 0
    chain: int = 1
    signal: int = 1
    burst: int = 0
    cpus: int = 1
    queues: int = 1
    rounds: int = SETTLED
    steps: str = ""
    params: tuple[tuple[str, str], ...] = ()

    def preparation(self) -> Case:
        """Makes the queues, and has them settle if the measured rounds are too few for that."""
        return dataclasses.replace(self, rounds=max(0, SETTLED - self.rounds), steps="")

    def words(self) -> str:
        """As the test module takes it."""
        names = ("interface", "size", "inline", "chain", "signal", "burst", "cpus", "queues", "rounds")
        words = [f"{name}={getattr(self, name)}" for name in names]
        return " ".join([*words, *([f"steps={self.steps}"] if self.steps else [])])

    def beside(self, interface: str) -> Case:
        """The same work through another interface."""
        return dataclasses.replace(self, interface=interface)


# Cases that the figures are made of, as mlx5_ulp does them.
SINGLE = Case(ULP)
BATCH16 = Case(ULP, chain=16)
CONTIGUOUS = Case(ULP, chain=16, params=(("wqe_compression", "enabled=1"),))
DEPTH64 = Case(ULP, burst=64, params=(("doorbell_mode", "adaptive"),))
QUEUES1024 = Case(ULP, queues=1024, rounds=3)
EVENTS1 = Case(ULP_EVENTS, rounds=32)
EVENTS64 = Case(ULP_EVENTS, burst=64)

# Finding a queue by its name: in the cache, and in the table alone.
FIND = Case("mlx5_ulp_find", queues=256)
FIND_TABLE = dataclasses.replace(FIND, params=(("vf_qid_cache_size", "0"),))

# What is stepped through, by the name of the figure: in one round more, when the queue has got used to it.
STEPS = {
    "post_single": dataclasses.replace(SINGLE, steps="post"),
    "post_batch16": dataclasses.replace(BATCH16, steps="post"),
    "complete_single": dataclasses.replace(SINGLE, steps="complete"),
    "complete_batch16": dataclasses.replace(BATCH16, steps="complete"),
}


def _product(
    queues: int, rounds: int, chains: tuple[int, ...], signals: tuple[int, ...], cpus: tuple[int, ...]
) -> Iterator[Case]:
    everything = itertools.product(SIZES.values(), chains, signals, cpus, (ULP, EXCLUSIVE, VERBS))
    for (size, inline), chain, signal, posters, interface in everything:
        # One CPU alone may post to an exclusive queue.
        if interface == EXCLUSIVE and posters > queues:
            continue
        yield Case(interface, size, inline, chain, signal, 0, posters, queues, rounds)


def matrix() -> Iterator[Case]:
    """The side-by-side table, fewest queues first: a queue stays once it is made."""
    yield from _product(1, SETTLED, (1, 4, 16), (1, 16), (1, 4))
    yield from _product(4, SETTLED, (1, 4, 16), (1, 16), (1, 4))
    yield from _product(256, 3, (1, 16), (1,), (1, 4))
    yield from _product(1024, 3, (1, 16), (1,), (1,))


def cases(quick: bool) -> Iterator[Case]:
    """Everything, in the order in which it is to be measured."""
    for case in (SINGLE, BATCH16, CONTIGUOUS, DEPTH64):
        yield case
        if case in (SINGLE, BATCH16):
            yield case.beside(EXCLUSIVE)
        yield case.beside(VERBS)
    for case in STEPS.values():
        yield case
        yield case.beside(VERBS)
    for case in (EVENTS1, EVENTS64):
        yield case
        yield case.beside(VERBS_EVENTS)
    yield FIND
    yield FIND_TABLE
    if quick:
        # Else they are in the matrix.
        yield QUEUES1024
        yield QUEUES1024.beside(VERBS)
    else:
        yield from matrix()
