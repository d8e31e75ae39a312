"""A load as data: how many items, when each is due, and what item i is. Expanded lazily: a load may have a million items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from seatrial.model.plan import Pace, Workload
from seatrial.model.randomness import arrays
from seatrial.model.units import SECOND

Times = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Load:
    """`item(i)` is pure in the seed and i. `due` is nanoseconds after the start of the phase per item, or None for rounds."""

    phase: str
    count: int
    pace: Pace
    due: Times | None
    item: Callable[[int], Workload]


def draw_load(
    phase: str, count: int, sizes: Sequence[int], shuffled: bool, pace: Pace, workload: Callable[[int, int], Workload],
    seed: int,
) -> Load:  # fmt: skip
    """The load of a phase, from its own random stream. `workload(i, pods)` is item i."""
    generator = arrays(seed)
    drawn = np.resize(np.asarray(sizes, dtype=np.int64), count)
    if shuffled:
        generator.shuffle(drawn)
    pods: list[int] = drawn.tolist()
    return Load(phase, count, pace, _due(pace, count, generator), lambda index: workload(index, pods[index]))


def latest(due: Times, sent: Sequence[int]) -> int:
    """The longest time from when an item was due to when it was sent, both from the start of the phase. Of items due together (a
    burst) the first counts: no client sends them all in the same moment."""
    leads = np.diff(due, prepend=-1) > 0
    return int((np.asarray(sent, dtype=np.int64) - due)[leads].max(initial=0))


def _due(pace: Pace, count: int, generator: np.random.Generator) -> Times | None:
    order = np.arange(count, dtype=np.int64)
    match pace.kind:
        case "at-once":
            return np.zeros(count, dtype=np.int64)
        case "rate":
            return np.asarray(order * (SECOND / pace.per_s), dtype=np.int64)
        case "poisson":
            gaps = generator.exponential(SECOND / pace.per_s, count)
            return np.asarray(np.cumsum(gaps) - (gaps[0] if count else 0), dtype=np.int64)
        case "burst":
            return order // pace.size * pace.every
        case "rounds":
            return None
    raise ValueError(f"unknown pace {pace.kind}")
