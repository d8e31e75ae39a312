"""Ranges of `--vary`: `10..500`, `10..1000 log 7`, `1s..30s 5`, `0.1..0.9 step 0.2`, or a list, `1,2,4`.

A range without a number of points means all values for a search (`find`), and a few of them, evenly spread, for a sweep (`run`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.model.errors import UsageProblem, cut
from seatrial.model.plan import Scalar
from seatrial.scenario import yaml_scalars

POINTS = 7  # of a sweep over a range that does not say how many
ALL = 10  # whole numbers: so many are all swept
GRID = 100  # steps of a search over fractions
MOST_VALUES = 1_000_000
_NUMBER = r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"
_RANGE = re.compile(rf"{_NUMBER}([A-Za-z/%]*)\s*\.\.\s*{_NUMBER}([A-Za-z/%]*)(?:\s+(.*))?")
_FORM = "write it like 10..500, '10..1000 log 7', '1s..30s 5', '0..1 step 0.1' or 1,2,4"


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What `--vary` says of one variable. `values`: the points of a sweep; `grid`: all that a search may try, smallest first."""

    path: str
    values: tuple[Scalar, ...]
    grid: Sequence[Scalar]

    @property
    def log(self) -> bool:
        """Whether the grid spans decades, so that a search halves ratios."""
        first, last = self.number(0), self.number(len(self.grid) - 1)
        return first > 0 and last / first >= 50

    def number(self, place: int) -> float:
        """The grid's value as a number; its place where it is none."""
        value = self.grid[place]
        if isinstance(value, str):
            found = re.match(_NUMBER, value)
            return float(found[1]) if found else float(place)
        return float(value)


def parse_variation(text: str) -> ValueRange:
    """`PATH=RANGE`, the argument of `--vary`."""
    path, equals, written = text.partition("=")
    path, written = path.strip(), written.strip()
    if not equals or not path or not written:
        raise UsageProblem(f"--vary {cut(text)}: not of the form PATH=RANGE", _FORM)
    if ".." in written:
        return _range(path, written)
    values = [yaml_scalars.resolve(one.strip()) for one in written.split(",")]
    if any(value is None for value in values):
        raise UsageProblem(f"--vary {path}: an empty value in {cut(written)}", _FORM)
    listed = [value for value in values if value is not None]
    for value in listed:
        if listed.count(value) > 1:
            raise UsageProblem(f"--vary {path}: {yaml_scalars.spell(value)} is listed twice", "list each value once")
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed)
    return ValueRange(path, tuple(listed), sorted(listed, key=float) if numbers else tuple(listed))


def _range(path: str, written: str) -> ValueRange:
    found = _RANGE.fullmatch(written)
    if found is None:
        raise UsageProblem(f"--vary {path}={cut(written)}: no range", _FORM)
    low, high, unit = float(found[1]), float(found[3]), found[4] or found[2]
    if found[2] and found[2] != unit:
        raise UsageProblem(f"--vary {path}={cut(written)}: two units, {found[2]} and {unit}", "write both ends in one")
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise UsageProblem(f"--vary {path}={cut(written)}: an empty range", "write the smaller end first")
    whole = not any(sign in found[1] + found[3] for sign in ".eE")
    spread, grid = _points(path, written, low, high, whole, (found[5] or "").split())
    return ValueRange(path, tuple(_spelled(value, unit) for value in spread), [_spelled(value, unit) for value in grid])


def _points(
    path: str, written: str, low: float, high: float, whole: bool, words: list[str]
) -> tuple[Sequence[float], Sequence[float]]:
    """The points of a sweep, and those of a search."""
    match words:
        case []:
            if not whole:
                return _even(low, high, POINTS, whole), _even(low, high, GRID + 1, whole)
            _refuse_many(path, written, high - low + 1)
            everything = range(int(low), int(high) + 1)
            return (everything if len(everything) <= ALL else _even(low, high, POINTS, whole)), everything
        case ["step", size] if (step := _number(size)) is not None and step > 0:
            _refuse_many(path, written, (high - low) / step + 1)
            stepped = [
                _tidy(low + step * n, whole and step == int(step)) for n in range(int((high - low) / step + 1e-9) + 1)
            ]
            return stepped, stepped
        case [count] if count.isdigit() and int(count) >= 1:
            _refuse_many(path, written, int(count))
            even = _even(low, high, int(count), whole)
            return even, even
        case ["log", count] if count.isdigit() and int(count) >= 2 and low > 0:
            _refuse_many(path, written, int(count))
            ratio = (high / low) ** (1 / (int(count) - 1))
            geometric = _distinct(_tidy(low * ratio**n, whole) for n in range(int(count)))
            return geometric, geometric
        case ["log", *_] if low <= 0:
            raise UsageProblem(f"--vary {path}={cut(written)}: a logarithmic range begins above 0", "write 1 or more")
    raise UsageProblem(f"--vary {path}={cut(written)}: '{' '.join(words)}' is no number of points", _FORM)


def _even(low: float, high: float, count: int, whole: bool) -> list[float]:
    if count == 1:
        return [_tidy(low, whole)]
    return _distinct(_tidy(low + (high - low) * n / (count - 1), whole) for n in range(count))


def _distinct(values: Iterable[float]) -> list[float]:
    return list(dict.fromkeys(values))


def _tidy(value: float, whole: bool) -> float:
    return round(value) if whole else float(f"{value:.6g}")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text) else None


def _refuse_many(path: str, written: str, count: float) -> None:
    if count > MOST_VALUES:
        raise UsageProblem(f"--vary {path}={cut(written)}: {count:,.0f} values are too many", "add a number of points")


def _spelled(value: float, unit: str) -> Scalar:
    number = int(value) if value == int(value) and not isinstance(value, float) else value
    return f"{number:g}{unit}" if unit else number
