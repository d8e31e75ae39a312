"""Random durations and sizes of workloads: what a submit draws them from.

Values are whole multiples of `grain` (a millisecond for durations, which is what KWOK and a Job's annotation take; 1 for pods). The
same generator gives the same values, and a longer load begins with those of a shorter one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Values = np.ndarray[tuple[int], np.dtype[np.int64]]
    Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values between `least` and `most`; what is drawn beyond them becomes the bound."""

    grain: int
    least: int
    most: int

    @property
    def mean(self) -> float:
        """About what is drawn on average."""
        raise NotImplementedError

    def draw(self, generator: np.random.Generator, count: int) -> Values:
        """`count` values."""
        import numpy as np

        grains = np.rint(self._numbers(generator, count) / self.grain)
        lowest, highest = -(-self.least // self.grain), self.most // self.grain
        return np.clip(grains, lowest, highest).astype(np.int64) * self.grain

    def described(self) -> dict[str, Any]:
        """The distribution as in trial.json."""
        raise NotImplementedError

    def _numbers(self, generator: np.random.Generator, count: int) -> Numbers:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """Evenly between `least` and `most`, both included."""

    @property
    def mean(self) -> float:
        return (self.least + self.most) / 2

    def described(self) -> dict[str, Any]:
        return {"from": self.least, "to": self.most}

    def draw(self, generator: np.random.Generator, count: int) -> Values:
        import numpy as np

        span = -(-self.least // self.grain), self.most // self.grain
        drawn: Values = generator.integers(*span, count, dtype=np.int64, endpoint=True) * self.grain
        return drawn


@dataclass(frozen=True, slots=True)
class Lognormal(Distribution):
    """Half of all values are below `median`; `sigma` is the standard deviation of the logarithm."""

    median: float
    sigma: float

    @property
    def mean(self) -> float:
        return min(self.median * math.exp(self.sigma**2 / 2), self.most)

    def described(self) -> dict[str, Any]:
        return {"lognormal": {"median": self.median, "sigma": self.sigma, "most": self.most}}

    def _numbers(self, generator: np.random.Generator, count: int) -> Numbers:
        return generator.lognormal(math.log(self.median), self.sigma, count)


@dataclass(frozen=True, slots=True)
class Exponential(Distribution):
    """Without memory: `average` is the mean."""

    average: float

    @property
    def mean(self) -> float:
        return min(self.average, self.most)

    def described(self) -> dict[str, Any]:
        return {"exponential": {"mean": self.average, "most": self.most}}

    def _numbers(self, generator: np.random.Generator, count: int) -> Numbers:
        return generator.exponential(self.average, count)


@dataclass(frozen=True, slots=True)
class WeightedChoice(Distribution):
    """One of a few values, each as often as its weight says."""

    values: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(value * weight for value, weight in zip(self.values, self.weights, strict=True)) / sum(self.weights)

    def described(self) -> dict[str, Any]:
        return {"choice": {str(value): weight for value, weight in zip(self.values, self.weights, strict=True)}}

    def draw(self, generator: np.random.Generator, count: int) -> Values:
        import numpy as np

        ends = np.cumsum(np.asarray(self.weights, dtype=np.float64))
        which = np.searchsorted(ends, generator.random(count) * ends[-1], side="right")
        drawn: Values = np.asarray(self.values, dtype=np.int64)[np.minimum(which, len(self.values) - 1)]
        return drawn


@dataclass(frozen=True, slots=True)
class Empirical(Distribution):
    """Values of a file, each as often as it is there."""

    file: str
    column: str
    data: bytes = field(
        repr=False
    )  # 64-bit integers; a tuple of a million of them would take a second to send to a worker

    @property
    def mean(self) -> float:
        return float(self._values().mean())

    def described(self) -> dict[str, Any]:
        return {"empirical": {"file": self.file, "column": self.column, "rows": len(self.data) // 8}}

    def draw(self, generator: np.random.Generator, count: int) -> Values:
        import numpy as np

        values = self._values()
        return values[np.minimum((generator.random(count) * len(values)).astype(np.int64), len(values) - 1)]

    def _values(self) -> Values:
        import numpy as np

        return np.frombuffer(self.data, dtype=np.int64)
