"""A load as data: how many items, when each is due, and what item i is. Expanded lazily: a load may have a million items."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seatrial.model.distributions import Distribution
from seatrial.model.plan import Pace, Workload
from seatrial.model.randomness import arrays, stream_seed
from seatrial.model.units import SECOND

Times = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Load:
    """`item(i)` is pure in the seed and i. `due` is nanoseconds after the start of the phase per item, or None for rounds.

    In a closed loop item i is sent `think[i]` ns after item `after[i]` ended (−1: after none, when it is due).
    """

    phase: str
    count: int
    pace: Pace
    due: Times | None
    item: Callable[[int], Workload]
    after: Times | None = None
    think: Times | None = None


@dataclass(frozen=True, slots=True)
class DrawnItems:
    """The items of a phase that go to one queue, drawn from a random stream of their own."""

    pods: Times
    durations: Times | None  # None: all as long as each other
    due: Times | None


def draw_items(
    count: int, sizes: Sequence[int] | Distribution, shuffled: bool, duration: int | Distribution, pace: Pace, seed: int
) -> DrawnItems:
    """Sizes, durations and due times of `count` items, each from a stream of its own: one does not change the others."""
    generator = arrays(seed)
    if isinstance(sizes, Distribution):
        pods = draw_sizes(sizes, count, seed)
    else:
        pods = np.resize(np.asarray(sizes, dtype=np.int64), count)
        if shuffled:
            generator.shuffle(pods)
    durations = None
    if isinstance(duration, Distribution):
        durations = duration.draw(arrays(stream_seed(seed, {}, 0, "durations")), count)
    return DrawnItems(pods, durations, _due(pace, count, generator))


def draw_sizes(sizes: Distribution, count: int, seed: int) -> Times:
    """The pods of each of `count` workloads."""
    return sizes.draw(arrays(stream_seed(seed, {}, 0, "pods")), count)


def load_of(
    phase: str, pace: Pace, streams: Sequence[DrawnItems], workload: Callable[[int, int, int, DrawnItems], Workload]
) -> Load:
    """One load of streams that are as long as each other. `workload(i, s, n, stream)` is item i: number n of stream s.

    Items go by their due times, and in turn where they are due together. With rounds, a round has its items of every stream.
    """
    each, count = len(streams[0].pods), sum(len(stream.pods) for stream in streams)
    if len(streams) == 1:
        [only] = streams
        return Load(phase, count, pace, only.due, lambda index: workload(index, 0, index, only))
    if streams[0].due is None:
        due, order = None, np.arange(count)
        pace = dataclasses.replace(pace, size=pace.size * len(streams))
    else:
        together = np.stack([stream.due for stream in streams if stream.due is not None], axis=1).reshape(count)
        order = np.argsort(together, kind="stable")
        due = together[order]
    turns = order.tolist()
    assert len(turns) == each * len(streams)

    def item(index: int) -> Workload:
        number, which = divmod(turns[index], len(streams))
        return workload(index, which, number, streams[which])

    return Load(phase, count, pace, due, item)


class Lateness(NamedTuple):
    """How long after they were due items were sent, in ns: at worst (see `latest`), and at percentiles of all items."""

    worst: int
    p50: int
    p99: int


def lateness(due: Times, sent: Sequence[int]) -> Lateness:
    """Lateness: times from due to sent. Percentiles are by nearest rank, and count every item of a burst: a trace's job that
    was due together with others was late, too, if it was sent after them."""
    late = np.asarray(sent, dtype=np.int64) - due
    p50, p99 = np.quantile(late, (0.5, 0.99), method="inverted_cdf")
    return Lateness(latest(due, sent), max(int(p50), 0), max(int(p99), 0))


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
