"""A load as data: how many items, when each is due, and what item i is. Expanded lazily: a load may have a million items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from seatrial.model.plan import Pace, Submit, Workload
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


def load_of(submit: Submit, seed: int) -> Load:
    """The load a submit stands for; `seed` is that of the phase's stream."""
    generator = arrays(seed)
    sizes = np.resize(np.asarray(submit.sizes, dtype=np.int64), submit.count)
    if submit.shuffled:
        generator.shuffle(sizes)
    pods: list[int] = sizes.tolist()

    def item(index: int) -> Workload:
        return submit.workload(index, pods[index])

    return Load(submit.name, submit.count, submit.pace, _due(submit.pace, submit.count, generator), item)


def latest(due: Times, sent: Sequence[int]) -> int:
    """How long after it was due an item was sent, at worst, both from the start of the phase. Of items that are due together (a
    burst) the first counts: nobody sends them all in the same moment."""
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
