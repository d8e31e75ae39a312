"""Tests whether a difference between runs exceeds the noise, without assumptions about the distribution of figures.

Permutation tests: if two sides do not differ, the labels of their runs are exchangeable. So the runs are assigned to sides in every
possible way, and the observed difference is compared with the differences of all assignments. The unit is the run: pods of one run
are not independent of each other. With five runs on each side there are 252 ways, so no p is below 2/252; with three there are
20, and nothing can be shown at 5 %. An interval holds every shift that the same test would not reject, so test and interval never
contradict each other. Paired runs exchange sides within pairs instead.

Runs are only exchanged within their cell (one choice of params); every cell has the same weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
WORTH_SHOWING = 0.7  # an interval of two against two runs would be one of 67 %
_ALL_WAYS = 20_000  # up to here every way is tried
_SOME_WAYS = 9_999
_EQUAL = 1e-9  # relative; sums in another order differ by less

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """How much more the second side has: a mean difference, the interval around it (None: too few runs) and its p."""

    estimate: float
    p: float
    smallest_p: float  # possible with so many runs
    low: float | None = None
    high: float | None = None
    level: float = LEVEL


def of_runs(cells: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Effect:
    """Runs of the first and the second side, cell by cell."""
    values = np.array([value for a, b in cells for value in (*a, *b)], dtype=float)
    second = np.array([of for a, b in cells for of in [0.0] * len(a) + [1.0] * len(b)])
    found = np.concatenate([_weights(len(a), len(b), range(len(a), len(a) + len(b))) for a, b in cells]) / len(cells)
    return _effect(values, second, found, _assignments(tuple((len(a), len(b)) for a, b in cells)) / len(cells))


def of_pairs(cells: Sequence[Sequence[float]]) -> Effect:
    """Differences within pairs, cell by cell."""
    values = np.array([value for cell in cells for value in cell], dtype=float)
    found = np.array([1 / (len(cell) * len(cells)) for cell in cells for _ in cell])
    if 2 ** len(values) <= _ALL_WAYS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(values))))
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (_SOME_WAYS, len(values)))
        signs = np.concatenate((np.ones((1, len(values))), signs))
    return _effect(values, np.ones(len(values)), found, signs * found)


def holm(ps: Sequence[float]) -> list[float]:
    """The p values after Holm's correction for multiple tests."""
    adjusted = [0.0] * len(ps)
    worst = 0.0
    for place, number in enumerate(sorted(range(len(ps)), key=lambda number: ps[number])):
        worst = max(worst, min(1.0, ps[number] * (len(ps) - place)))
        adjusted[number] = worst
    return adjusted


def _weights(first: int, second: int, chosen: Sequence[int]) -> Numbers:
    """Weights whose sum over the runs is the second side's mean minus the first's, if the chosen runs are the second side."""
    row = np.full(first + second, -1 / first)
    row[list(chosen)] = 1 / second
    return row


@lru_cache(8)  # all figures of a comparison have the same runs
def _assignments(sizes: tuple[tuple[int, int], ...]) -> Numbers:
    """A row of weights per assignment of runs to sides; if there are too many, for a sample with a fixed seed."""
    if math.prod(math.comb(a + b, b) for a, b in sizes) <= _ALL_WAYS:
        cells = [[_weights(a, b, way) for way in itertools.combinations(range(a + b), b)] for a, b in sizes]
        return np.array([np.concatenate(way) for way in itertools.product(*cells)])
    draw = np.random.default_rng(0)
    found = np.concatenate([_weights(a, b, range(a, a + b)) for a, b in sizes])
    drawn = [
        np.where(draw.random((_SOME_WAYS, a + b)).argsort(axis=1).argsort(axis=1) < b, 1 / b, -1 / a) for a, b in sizes
    ]
    return np.concatenate((found[np.newaxis], np.concatenate(drawn, axis=1)))


def _effect(values: Numbers, second: Numbers, found: Numbers, ways: Numbers) -> Effect:
    estimate = float(found @ values)
    at_zero, per_shift = ways @ values, ways @ second
    slack = _EQUAL * (float(np.abs(values).max(initial=0)) or 1.0)

    def p(shift: float) -> float:
        return float(np.mean(np.abs(at_zero - shift * per_shift) >= abs(estimate - shift) - slack))

    smallest = float(np.mean(np.abs(per_shift) >= 1 - _EQUAL))  # with an infinite difference
    level = 1 - max(1 - LEVEL, smallest)
    if level < WORTH_SHOWING:
        return Effect(estimate, p(0), smallest)
    spread = float(np.ptp(values)) or abs(estimate) or 1.0

    def bound(direction: int) -> float:
        """The largest shift that the test does not reject, by bisection."""
        outside = spread
        while p(estimate + direction * outside) > 1 - level + _EQUAL:
            outside *= 2
        inside = 0.0
        while outside - inside > 1e-6 * spread:
            middle = (inside + outside) / 2
            if p(estimate + direction * middle) > 1 - level + _EQUAL:
                inside = middle
            else:
                outside = middle
        return round((estimate + direction * inside) / spread, 5) * spread

    return Effect(estimate, p(0), smallest, bound(-1), bound(1), level)
