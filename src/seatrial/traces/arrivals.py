"""The arrays that a submit replays: when each job is due, how large it is, how long it runs, and which shape its pods have.

Kept in memory once per process and trace: set-ups and repeats share them, and a plan that is sent to another process names the
file, not its million rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from seatrial.model.load import Times
from seatrial.model.randomness import arrays as generator_of
from seatrial.model.randomness import stream_seed
from seatrial.traces.options import BY, EACH, GPU, GPU_MILLI, IN_MILLI, OTHERS, NameMap, TraceOptions
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import Trace, counted, fingerprint, read
from seatrial.traces.selecting import GRAIN, Selection, select

HIGHEST_PRIORITY = 1_000_000_000
MOST_CLASSES = 50  # figures are grouped by class; the users of a year would be a report of their own
MOST_SHAPES = 400  # of pods; beyond, amounts of memory are rounded up
SMALLEST_SPEED, LARGEST_SPEED = 1e-6, 1e9
_PLACES = pl.Int32


class Asked(NamedTuple):
    """The requests of a pod of one shape; 0 is nothing."""

    cpu_milli: int
    memory_bytes: int
    gpus: int
    gpu_milli: int  # where fractions are kept: instead of `gpus`
    models: tuple[str, ...]
    priority: int
    gang: bool

    @property
    def requests(self) -> dict[str, int]:
        """By the names that Kubernetes has for resources."""
        own = {"cpu": self.cpu_milli, "memory": self.memory_bytes, GPU: self.gpus, GPU_MILLI: self.gpu_milli}
        return {resource: amount for resource, amount in own.items() if amount}


@dataclass(frozen=True)
class Arrivals:
    """A job per entry, by due time. `queue` and `class_of` are places in `queues` and `classes`; −1 is none."""

    due: Times  # ns since the beginning of the phase
    pods: Times
    durations: Times
    shape: Times
    queue: Times
    class_of: Times
    waits: Times  # of the recorded system, ns; −1: not known
    after: Times  # the job that must end first; −1: none
    think: Times  # ns from its end
    asked: tuple[Asked, ...]
    queues: tuple[str, ...]
    classes: tuple[str, ...]
    jobs: pl.DataFrame  # line, job, submit_ns, user, queue and so on: to compare with the trace
    speed: float
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many jobs."""
        return len(self.due)


@functools.lru_cache(maxsize=4)
def _cached(path: Path, options: TraceOptions, print_: tuple[int, int]) -> Arrivals:  # noqa: ARG001
    columns = {field: (name, unit) for field, name, unit in options.columns}
    trace = read(path, options.format, columns, options.strict)
    return arrange(trace, select(trace, options), options)


def arrivals(path: Path, options: TraceOptions, planned: tuple[int, int] | None = None) -> Arrivals:
    """`planned`: the fingerprint when the scenario was planned; a file that has changed since is refused."""
    now = fingerprint(path)
    if planned is not None and now != planned:
        raise TraceProblem(f"{path.name} has changed since the scenario was read", "run the scenario again")
    return _cached(path, options, now)


def arrange(trace: Trace, selection: Selection, options: TraceOptions) -> Arrivals:
    """The arrays of the selected jobs."""
    jobs, notes = selection.jobs, list(selection.notes)
    speed = _speed(int(jobs["submit_ns"][-1]) - selection.begins_ns, options)
    queues, queue = _queues(trace, jobs, options)
    classes, class_ = _classes(jobs, options, notes)
    jobs = jobs.with_columns(_priority(jobs, options), _gang(trace, options))
    asked, shape = _shapes(jobs, options, notes)
    after, think = _following(jobs, options, speed, notes)
    durations = jobs["duration_ns"].to_numpy() * (options.durations / speed)
    return Arrivals(
        ((jobs["submit_ns"].to_numpy() - selection.begins_ns) / speed).astype(np.int64),
        jobs["pods"].to_numpy().astype(np.int64),
        (np.rint(durations / GRAIN) * GRAIN).astype(np.int64),
        shape,
        queue,
        class_,
        jobs["wait_ns"].fill_null(-1).clip(lower_bound=-1).to_numpy().astype(np.int64),
        after,
        think,
        asked,
        queues,
        classes,
        jobs.select("line", "job", "submit_ns", *BY),
        speed,
        tuple(notes),
    )


def _following(jobs: pl.DataFrame, options: TraceOptions, speed: float, notes: list[str]) -> tuple[Times, Times]:
    """For each job: the job that it follows, and the time after that job's end. Only an earlier job of the same selection can be
    followed."""
    rows = jobs.select("job", "after", "think_ns").with_row_index("row")
    first = (
        rows.drop_nulls("job")
        .unique("job", keep="first")
        .select(pl.col("job").alias("after"), pl.col("row").alias("of"))
    )
    found = rows.join(first, on="after", how="left", maintain_order="left")
    known = (pl.col("of") < pl.col("row")).fill_null(False)
    after = found.select(pl.when(known).then(pl.col("of")).otherwise(-1).cast(pl.Int64)).to_series().to_numpy()
    think = found.select(pl.col("think_ns").fill_null(0).clip(lower_bound=0) / speed).to_series().to_numpy()
    if options.think:
        named, kept = found["after"].count(), int((after >= 0).sum())
        if not named:
            what = "`think: true`: the trace does not say which job follows which"
            raise TraceProblem(
                what, "remove `think`; SWF has it in columns 17 and 18, a table in `after` and `think`", "think"
            )
        if kept < named:
            notes.append(
                f"{counted(named - kept, 'job')} due by the clock: the job that they follow is left out, or later"
            )
        notes.append(f"{counted(kept, 'job')} due when the job that they follow has ended, and their user has thought")
    return after, think.astype(np.int64)


def _speed(lasts: int, options: TraceOptions) -> float:
    if not options.into:
        return options.speed
    return min(max(lasts / options.into, SMALLEST_SPEED), LARGEST_SPEED) if lasts else 1.0


def _by(jobs: pl.DataFrame, by: str) -> pl.Series:
    return jobs[by].fill_null("")


def _queues(trace: Trace, jobs: pl.DataFrame, options: TraceOptions) -> tuple[tuple[str, ...], Times]:
    if options.fixed_queue or not options.queues:
        only = 0 if options.fixed_queue else -1
        return tuple(filter(None, [options.fixed_queue])), np.full(jobs.height, only, dtype=np.int64)
    mapping = options.queue or NameMap("queue")
    values = _by(jobs, mapping.by)
    to = _mapped(values.unique().sort().to_list(), mapping, options.queues)
    lost = [value for value in values.unique(maintain_order=True).to_list() if value not in to]
    if lost:
        count = int(values.is_in(lost).sum())
        shown = ", ".join(f"'{value}'" if value else "none" for value in lost[:5]) + (" …" if len(lost) > 5 else "")
        what = f"{counted(count, 'job')} of {trace.path.name} with a {mapping.by} that is no queue: {shown}"
        remedy = (
            f"write `queue:` for all jobs, or map: {{queue: {{by: {mapping.by}, to: {{'*': {options.queues[0]}}}}}}}"
        )
        raise TraceProblem(what, remedy, "map.queue" if options.queue else "")
    place = {name: number for number, name in enumerate(options.queues)}
    numbers = values.replace_strict({value: place[name] for value, name in to.items()}, return_dtype=pl.Int64)
    return options.queues, numbers.to_numpy()


def _mapped(values: Sequence[str], mapping: NameMap, queues: Sequence[str]) -> dict[str, str]:
    """Value → queue: as mapped, else the queue of that name, else what the rest becomes."""
    given = dict(mapping.to)
    rest = given.pop(OTHERS, "")
    to = {value: given.get(value, value) for value in values if value in given or value in queues}
    others = [value for value in values if value not in to]
    if rest == EACH:
        order = generator_of(stream_seed(1, {}, 0, "trace queues")).permutation(len(others)).tolist()
        return to | {others[at]: queues[turn % len(queues)] for turn, at in enumerate(order)}
    return to | dict.fromkeys(others, rest) if rest else to


def _classes(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> tuple[tuple[str, ...], Times]:
    mapping = options.classes or NameMap("class")
    values = _by(jobs, mapping.by)
    given = dict(mapping.to)
    rest = given.pop(OTHERS, "")
    names = {value: given.get(value, rest or value) for value in values.unique().to_list()}
    names = {value: re.sub(r"[^-A-Za-z0-9_.]+", "-", name).strip("-_.")[:60] for value, name in names.items()}
    counts = values.replace_strict(names, return_dtype=pl.String).value_counts(sort=True)
    ranked = [
        name for name in counts.sort("count", counts.columns[0], descending=[True, False])[counts.columns[0]] if name
    ]
    if len(ranked) > MOST_CLASSES:
        notes.append(
            f"{len(ranked):,} classes: figures are grouped by the {MOST_CLASSES - 1} largest, the others are `others`"
        )
        ranked = [*ranked[: MOST_CLASSES - 1], "others"]
    places = {name: number for number, name in enumerate(ranked)}
    last = places.get("others", -1)
    numbers = {value: places.get(name, last) if name else -1 for value, name in names.items()}
    return tuple(ranked), values.replace_strict(numbers, return_dtype=pl.Int64).to_numpy()


def _priority(jobs: pl.DataFrame, options: TraceOptions) -> pl.Series:
    """That of a mapping; a trace's own numbers are of another system, and count only where the column was mapped by the user."""
    if options.priority is None:
        own = jobs["priority"].fill_null(0)
        if own.len() and not own.is_between(-(2**31), HIGHEST_PRIORITY).all():
            what = f"the trace has priorities beyond {HIGHEST_PRIORITY:,}, which Kubernetes keeps for its own"
            raise TraceProblem(what, "map them: map: {priority: {by: class, to: {…}}}", "map")
        return own
    given = {value: int(to) for value, to in options.priority.to}
    rest = given.pop(OTHERS, 0)
    values = _by(jobs, options.priority.by)
    return values.replace_strict(given, default=rest, return_dtype=pl.Int64).alias("priority")


def _gang(trace: Trace, options: TraceOptions) -> pl.Expr:
    if options.gang is not None:
        return pl.lit(options.gang).alias("gang")
    return pl.col("gang").fill_null(trace.format.rigid).alias("gang")


def _shapes(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> tuple[tuple[Asked, ...], Times]:
    keys = ["cpu_milli", "memory_bytes", "gpu_milli", "gpu_model", "priority", "gang"]
    table = jobs.select(
        *(pl.col(name).fill_null(0) for name in keys[:3]),
        pl.col("gpu_model").fill_null(""),
        pl.col("priority"),
        pl.col("gang"),
    )
    if table.n_unique() > MOST_SHAPES:
        bits, before = 5, table.n_unique()
        while table.n_unique() > MOST_SHAPES and bits:
            bits -= 1
            table = table.with_columns(_rounded_up(pl.col("memory_bytes"), bits))
        notes.append(
            f"{before:,} different pods: memory rounded up, by less than {1 / 2**bits:.0%}, to {table.n_unique():,}"
        )
    unique = table.unique(maintain_order=True).with_row_index("place")
    place = table.join(unique, on=keys, how="left", maintain_order="left")["place"]
    milli = options.fractions == IN_MILLI
    asked = tuple(
        Asked(
            cpu,
            memory,
            0 if milli else gpu // 1000,
            gpu if milli else 0,
            tuple(filter(None, model.split("|"))),
            prio,
            gang,
        )
        for cpu, memory, gpu, model, prio, gang in unique.select(keys).iter_rows()
    )
    return asked, place.to_numpy().astype(np.int64)


def _rounded_up(amount: pl.Expr, bits: int) -> pl.Expr:
    """To so many binary digits after the first."""
    step = pl.lit(2.0).pow((amount.clip(lower_bound=1).log(2).floor() - bits).clip(lower_bound=0)).cast(pl.Int64)
    return ((amount + step - 1) // step * step).name.keep()
