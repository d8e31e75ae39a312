"""Distributions of a submit's `duration` and `pods`: what a user writes, and what it becomes.

Durations and numbers of pods share the mappings; which of the two a value is, is known where it is planned.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from seatrial.model.distributions import Distribution, Empirical, Exponential, Lognormal, Uniform, WeightedChoice
from seatrial.model.plan import Span
from seatrial.model.units import HOUR, MILLISECOND, MINUTE, SECOND
from seatrial.scenario.field_types import (
    LONGEST_DURATION,
    SpanText,
    Text,
    bounded,
    choice,
    duration,
    positive_duration,
)
from seatrial.scenario.fields import FieldMistake, Fields, shown, wrong
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.source import KeyPath

LARGEST_WORKLOAD = 1_000_000  # pods
LARGEST_SIGMA = 10  # one in forty is then 500 million times the median
KINDS = ("lognormal", "exponential", "choice", "empirical")
UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR}

Wrong = Callable[[KeyPath, str, str], None]  # path inside the mapping, what, remedy
_MEASURE = {"type": ["string", "number"], "examples": ["30m", 8]}
Measure = Annotated[Any, WithJsonSchema(_MEASURE)]  # a duration or a number of pods


def log_deviation(value: Any) -> float:
    """The standard deviation of a logarithm."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{shown(value)} is not a sigma", "write a number above 0, like 1.2")
    if not 0 < value <= LARGEST_SIGMA:
        raise wrong(f"{shown(value)} cannot be a sigma", f"write a number above 0, at most {LARGEST_SIGMA}")
    return float(value)


def share(value: Any) -> float:
    """How often a value is chosen, relative to the others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{shown(value)} is not a weight", "write a number above 0, like 0.7")
    if not 0 < value < math.inf:
        raise wrong(f"{shown(value)} cannot be a weight", "write a number above 0, or remove the value")
    return float(value)


Sigma = Annotated[
    float,
    BeforeValidator(log_deviation),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST_SIGMA}),
]


class LognormalFields(Fields):
    """Half of all values are below the median."""

    median: Measure = Field(description="The value that half of all are below.")
    sigma: Sigma = Field(description="Standard deviation of the logarithm: 1.2 is a long tail.")
    most: Measure | None = Field(None, description="Larger values become this one.")


class ExponentialFields(Fields):
    """An exponential distribution: without memory."""

    mean: Measure = Field(description="The average.")
    most: Measure | None = Field(None, description="Larger values become this one.")


class EmpiricalFields(Fields):
    """Values of a CSV file, each as often as it is there."""

    file: Text = Field(description="The CSV file, relative to the scenario.")
    column: Text = Field(description="The column with the values.")
    unit: Annotated[str, choice("unit", tuple(UNITS))] = Field("s", description="Unit of durations: s, ms, m or h.")


_SHARE = WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
Weights = Annotated[
    dict[str, Annotated[float, BeforeValidator(share), _SHARE]],
    Field(min_length=1),
    # Our reader gives keys as text; in a document that another one read, 8 is a number.
    BeforeValidator(
        lambda given: {str(key): weight for key, weight in given.items()} if isinstance(given, dict) else given
    ),
]


class DistributionFields(Fields):
    """One of the distributions."""

    lognormal: LognormalFields | None = Field(None, description="A long tail: {median: 30m, sigma: 1.2}.")
    exponential: ExponentialFields | None = Field(None, description="Without memory: {mean: 5m}.")
    choice: Weights | None = Field(None, description="One of a few values, with weights: {1: 0.7, 8: 0.3}.")
    empirical: EmpiricalFields | None = Field(None, description="Values of a file: {file: jobs.csv, column: runtime}.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        given = [kind for kind in KINDS if kind in written]
        if not given and not set(written) - set(KINDS):
            return [FieldMistake("", "a distribution without a kind", f"write one of {', '.join(KINDS)}")]
        return [
            FieldMistake(kind, f"'{kind}' and '{given[0]}' contradict each other", "remove one of them")
            for kind in given[1:]
        ]


def pods_span(value: Any) -> Span:
    """`4` is always four, `1..8` evenly between one and eight."""
    if isinstance(value, str) and ".." in value:
        ends = [part.strip() for part in value.split("..", 1)]
        if all(end.isdigit() for end in ends):
            least, most = (bounded(int(end), 1, LARGEST_WORKLOAD) for end in ends)
            if most < least:
                raise wrong(f"{shown(value)} ends before it begins", f"write {most}..{least}")
            return Span(least, most)
        raise wrong(f"{shown(value)} is not a span of pods", "write it like 1..8")
    number = bounded(value, 1, 2**31 - 1)
    return Span(number, number)


def _kind(value: Any) -> str:
    """In brackets, so that pydantic's locations cannot be mistaken for keys of the file."""
    return "(drawn)" if isinstance(value, dict) else "(span)"


PodsSpan = Annotated[
    Any,
    BeforeValidator(pods_span),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^[0-9]+\s*\.\.\s*[0-9]+$"}]}
    ),
]
DurationDrawn = Annotated[
    Annotated[SpanText, Tag("(span)")] | Annotated[DistributionFields, Tag("(drawn)")],
    Discriminator(_kind),
    BeforeValidator(lambda value: value, json_schema_input_type=SpanText | DistributionFields),
]
PodsDrawn = Annotated[
    Annotated[PodsSpan, Tag("(span)")] | Annotated[DistributionFields, Tag("(drawn)")],
    Discriminator(_kind),
    BeforeValidator(lambda value: value, json_schema_input_type=PodsSpan | DistributionFields),
]


def drawn_durations(fields: Span | DistributionFields, folder: Path, report: Wrong) -> int | Distribution:
    """The duration of a plan: nanoseconds, or what they are drawn from."""
    if isinstance(fields, Span):
        return Uniform(MILLISECOND, fields.least, fields.most) if fields.most > fields.least else fields.least
    return _Drawing(MILLISECOND, 0, LONGEST_DURATION, positive_duration, duration, folder, report).of(fields)


def drawn_pods(fields: Span | DistributionFields, folder: Path, report: Wrong) -> tuple[int, ...] | Distribution:
    """The pods of a plan: their number, or what it is drawn from."""
    if isinstance(fields, Span):
        return Uniform(1, fields.least, fields.most) if fields.most > fields.least else (fields.least,)

    def pods(value: Any) -> int:
        return bounded(int(value) if isinstance(value, str) and value.isdigit() else value, 1, LARGEST_WORKLOAD)

    return _Drawing(1, 1, LARGEST_WORKLOAD, pods, pods, folder, report).of(fields)


class _Drawing:
    """From the fields of a distribution to that of the plan."""

    def __init__(
        self, grain: int, least: int, most: int, parse: Callable[[Any], int], value: Callable[[Any], int], folder: Path,
        report: Wrong,
    ) -> None:  # fmt: skip
        self.grain, self.least, self.most = grain, least, most
        self.parse, self.value, self.folder, self.report = parse, value, folder, report

    def of(self, fields: DistributionFields) -> Distribution:
        bounds = self.grain, self.least, self.most
        if fields.lognormal:
            given = fields.lognormal
            top = self._most(given.most, "lognormal")
            return Lognormal(self.grain, self.least, top, self._read(given.median, "lognormal", "median"), given.sigma)
        if fields.exponential:
            top = self._most(fields.exponential.most, "exponential")
            mean = self._read(fields.exponential.mean, "exponential", "mean")
            return Exponential(self.grain, self.least, top, mean)
        if fields.choice:
            values = tuple(self._read(value, "choice", value, self.value) for value in fields.choice)
            return WeightedChoice(*bounds, values, tuple(fields.choice.values()))
        given_file = fields.empirical
        assert given_file is not None
        data = self._column(given_file)
        return Empirical(*bounds, given_file.file, given_file.column, data)

    def _most(self, written: Any, kind: str) -> int:
        return self.most if written is None else self._read(written, kind, "most")

    def _read(self, written: Any, kind: str, key: str, parse: Callable[[Any], int] | None = None) -> int:
        try:
            return (parse or self.parse)(written)
        except PydanticCustomError as error:
            context = error.context or {}
            self.report((kind, key), context["what"], context["remedy"])
            return max(self.least, self.grain)

    def _column(self, fields: EmpiricalFields) -> bytes:
        path = self.folder / fields.file
        try:
            changed = path.stat().st_mtime_ns
            unit = UNITS[fields.unit] if self.grain > 1 else 1
            return read_column(str(path), fields.column, unit, self.least, self.most, changed)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.report(("empirical", "file"), f"{fields.file}: {why}", "its path is relative to the scenario file")
        except ColumnProblem as problem:
            self.report(("empirical", problem.key), problem.what, problem.remedy)
        return b"\0" * 8


class ColumnProblem(Exception):
    """A column that no values can be drawn from. `key`: the field that it is about."""

    def __init__(self, key: str, what: str, remedy: str) -> None:
        super().__init__(what)
        self.key, self.what, self.remedy = key, what, remedy


@functools.lru_cache(maxsize=16)
def read_column(path: str, column: str, unit: int, least: int, most: int, changed: int) -> bytes:  # noqa: ARG001
    """The values of a column as 64-bit integers. Set-ups and params of a scenario share them; `changed` is when the file did."""
    import polars as pl

    name = Path(path).name
    try:
        frame = pl.read_csv(path, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0] if str(error) else "empty"
        raise ColumnProblem("file", f"{name} is not CSV: {first}", "write a header and a row per value") from None
    if column not in frame.columns:
        raise ColumnProblem("column", f"{name} has no column '{column}'", remedy_for(column, frame.columns))
    values = frame[column]
    kind = "durations" if unit > 1 else "whole numbers of pods"
    if not values.dtype.is_numeric():
        raise ColumnProblem("column", f"'{column}' of {name} has values that are no numbers", f"it must have {kind}")
    values = values.cast(pl.Float64) * unit
    if not len(values) or values.null_count() or values.is_nan().any():
        raise ColumnProblem("column", f"'{column}' of {name} has rows without a value", "remove those rows")
    if unit == 1 and (values != values.round()).any():
        raise ColumnProblem("column", f"'{column}' of {name} has fractions of pods", f"it must have {kind}")
    smallest, largest = values.min(), values.max()
    assert isinstance(smallest, float) and isinstance(largest, float)
    if smallest < least or largest > most:
        worst = smallest if smallest < least else largest
        what = f"'{column}' of {name} has {worst / unit:g}, which is too {'small' if smallest < least else 'large'}"
        raise ColumnProblem("column", what, f"write {kind} from {least / unit:,.0f} to {most / unit:,.0f}")
    grain = MILLISECOND if unit > 1 else 1
    return ((values / grain).round().cast(pl.Int64) * grain).to_numpy().tobytes()
