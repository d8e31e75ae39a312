"""The part of a trace that a scenario asks for, and what its gaps become. Jobs that are left out are counted, with the reason."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import polars as pl

from seatrial.model.randomness import arrays, stream_seed
from seatrial.model.units import format_duration
from seatrial.traces.columns import COLUMNS
from seatrial.traces.options import DROP, ROUND_UP, TraceOptions
from seatrial.traces.problem import TraceProblem
from seatrial.traces.reading import Trace, counted

GRAIN = 1_000_000  # ns; a Job's annotation and KWOK take milliseconds
LARGEST_WORKLOAD = 1_000_000  # pods


@dataclass(frozen=True)
class Selection:
    """The jobs in the order of their submission, with `pods`, `cpu_milli` and `gpu_milli` per pod. `begins_ns`: the moment of the
    trace at which the replay begins. `notes`: what was left out, rounded or assumed."""

    jobs: pl.DataFrame
    begins_ns: int
    notes: tuple[str, ...]


def select(trace: Trace, options: TraceOptions) -> Selection:
    """Applies `options` to a trace."""
    notes = [*trace.remarks, *trace.faults()]
    if trace.backwards:
        notes.append(f"{counted(trace.backwards, 'line')} earlier than the line before: sorted by time of submission")
    jobs = trace.jobs.sort("submit_ns", maintain_order=True)
    since, until = _offset(trace, options.since, "from"), _offset(trace, options.until, "until")
    jobs = _in_window(trace, jobs, since, until)
    jobs = _sampled(jobs, options, notes)
    if options.head:
        jobs = jobs.head(options.head)
    jobs = _with_durations(jobs, options, notes)
    jobs = _with_sizes(jobs, options, notes, sized=trace.format.sized or trace.jobs["processors"].count() > 0)
    jobs = _with_gpus(jobs, options, notes)
    if not jobs.height:
        why = f": {'; '.join(notes)}" if notes else ""
        raise TraceProblem(
            f"no job of {trace.path.name} is left{why}", "ask for more of it, or say what unknown fields are"
        )
    begins = int(jobs["submit_ns"][0]) if since is None else since
    return Selection(_scaled(jobs, options, notes), begins, tuple(notes))


def _in_window(trace: Trace, jobs: pl.DataFrame, since: int | None, until: int | None) -> pl.DataFrame:
    if since is not None and until is not None and until <= since:
        raise TraceProblem("'until' is not after 'from'", "write a later one", "until")
    if since is not None:
        jobs = jobs.filter(pl.col("submit_ns") >= since)
    if until is not None:
        jobs = jobs.filter(pl.col("submit_ns") < until)
    if not jobs.height:
        last = trace.jobs["submit_ns"].max()
        assert isinstance(last, int)
        what = f"{trace.path.name} has no job between 'from' and 'until'"
        raise TraceProblem(
            what, f"its jobs were submitted within {_days(last)}", "from" if since is not None else "until"
        )
    return jobs


def _days(ns: int) -> str:
    return f"{ns / 86_400e9:.4g}d" if ns >= 86_400e9 else format_duration(ns)


def _offset(trace: Trace, value: int | str | None, key: str) -> int | None:
    """From the first submission."""
    if value is None or isinstance(value, int):
        return value
    if trace.starts_at is None:
        what = f"{trace.path.name} does not say on which day it begins"
        raise TraceProblem(what, f"write `{key}` as a time since its beginning, like 2d", key)
    try:
        at = datetime.datetime.fromisoformat(value)
    except ValueError:
        raise TraceProblem(f"'{value}' is no date", "write it like 2017-10-09 or 2017-10-09T07:00", key) from None
    at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
    return max(int(at.timestamp() * 1e9) - trace.starts_at, 0)


def _sampled(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> pl.DataFrame:
    sample = options.sample
    if sample.share >= 1:
        return jobs
    generator = arrays(stream_seed(sample.seed, {}, 0, "trace sample"))
    if sample.by == "job":
        return jobs.filter(pl.Series(generator.random(jobs.height) < sample.share))
    users = jobs["user"].unique().drop_nulls().sort()
    if not users.len():
        raise TraceProblem("the trace has no users to sample by", "write sample: {share: …, by: job}", "sample")
    jobs = _dropped(jobs, pl.col("user").is_null(), "user unknown", notes)
    chosen = generator.permutation(users.len())[: max(round(users.len() * sample.share), 1)]
    return jobs.filter(pl.col("user").is_in(users.gather(sorted(chosen.tolist())).implode()))


def _with_durations(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> pl.DataFrame:
    never = (pl.col("outcome") == "cancelled").fill_null(False) & (pl.col("duration_ns").fill_null(0) == 0)
    jobs = _dropped(jobs, never, "cancelled before they ran", notes)
    unknown = jobs["duration_ns"].null_count()
    if unknown and options.unknown_duration >= 0:
        notes.append(
            f"{counted(unknown, 'job')} of unknown duration: taken to last {options.unknown_duration / 1e9:g} s"
        )
        return jobs.with_columns(pl.col("duration_ns").fill_null(options.unknown_duration))
    return _dropped(jobs, pl.col("duration_ns").is_null(), "duration unknown", notes)


def _with_sizes(jobs: pl.DataFrame, options: TraceOptions, notes: list[str], sized: bool) -> pl.DataFrame:
    """Pods, and what each asks for. Processors and GPUs of a whole job are spread evenly over as few pods as hold them. `sized`:
    a job without processors is one of unknown size."""
    if sized:
        known: pl.Expr = pl.when(pl.col("processors") > 0).then(pl.col("processors"))
        without = int(jobs.select((known.is_null() & pl.col("pods").is_null()).sum()).item())
        if without and options.unknown_size:
            notes.append(f"{counted(without, 'job')} of unknown size: taken to need {options.unknown_size} processors")
            known = known.fill_null(options.unknown_size)
        jobs = jobs.with_columns(known.alias("processors"))
        jobs = _dropped(jobs, pl.col("processors").is_null() & pl.col("pods").is_null(), "size unknown", notes)
        jobs, each = _spread(jobs, "processors", options.processors_per_pod, options.share_nodes, notes)
        jobs = jobs.with_columns(pl.coalesce("cpu_milli", each * 1000), (pl.col("memory_bytes") * each.fill_null(1)))
    if jobs["job_gpus"].count():
        jobs, each = _spread(jobs, "job_gpus", options.gpus_per_pod, True, notes)
        jobs = jobs.with_columns(pl.coalesce("gpu_milli", each * 1000))
    jobs = jobs.with_columns(pl.col("pods").fill_null(1))
    return _dropped(
        jobs, ~pl.col("pods").is_between(1, LARGEST_WORKLOAD), "no pods, or more than a workload may have", notes
    )


def _spread(jobs: pl.DataFrame, of: str, per_pod: int, shared: bool, notes: list[str]) -> tuple[pl.DataFrame, pl.Expr]:
    """`pods` from the processors or GPUs of jobs that do not say it, and how many of them each pod has."""
    whole = pl.when((pl.col(of) > 0) & pl.col("pods").is_null()).then(pl.col(of))
    pods = ((whole + per_pod - 1) // per_pod).alias("pods")
    each = (whole + pods - 1) // pods if shared else pl.when(whole > 0).then(per_pod)
    sizes = jobs.select(pods, each.alias("each"), whole.alias("whole"))
    more = sizes.filter(pl.col("pods") * pl.col("each") != pl.col("whole"))
    if more.height:
        gained = int(more.select((pl.col("pods") * pl.col("each") - pl.col("whole")).sum()).item())
        what = of.removeprefix("job_").replace("gpus", "GPUs")
        notes.append(
            f"{counted(more.height, 'job')} with more {what} in whole pods than in the trace: {gained:,} {what} more in all"
        )
    jobs = jobs.with_columns(pl.coalesce("pods", sizes["pods"]).alias("pods"), sizes["each"].alias("each"))
    return jobs, pl.col("each")


def _with_gpus(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> pl.DataFrame:
    fraction = (pl.col("gpu_milli") % 1000 != 0).fill_null(False)
    count = int(jobs.select(fraction.sum()).item())
    if not count:
        return jobs
    if options.fractions == DROP:
        return _dropped(jobs, fraction, "a fraction of a GPU", notes)
    if options.fractions == ROUND_UP:
        gained = int(jobs.select(((1000 - pl.col("gpu_milli") % 1000) % 1000 * pl.col("pods")).sum()).item())
        more = f"{gained / 1000:,.0f}" if gained >= 10_000 else f"{gained / 1000:g}"
        notes.append(f"{counted(count, 'job')} asking for a fraction of a GPU: rounded up, {more} GPUs more in all")
        return jobs.with_columns(((pl.col("gpu_milli") + 999) // 1000 * 1000).alias("gpu_milli"))
    notes.append(
        f"{counted(count, 'job')} asking for a fraction of a GPU: every request counts in thousandths of a node's GPUs "
        "together, so two halves may be of different GPUs"
    )
    return jobs


def _scaled(jobs: pl.DataFrame, options: TraceOptions, notes: list[str]) -> pl.DataFrame:
    if options.sizes != 1:
        jobs = jobs.with_columns((pl.col("pods") * options.sizes).round().cast(COLUMNS["pods"].kind))
        empty = int((jobs["pods"] < 1).sum())
        if empty:
            notes.append(f"{counted(empty, 'job')} smaller than a pod after scaling: of one pod")
        jobs = jobs.with_columns(pl.col("pods").clip(1, LARGEST_WORKLOAD))
    return jobs


def _dropped(jobs: pl.DataFrame, which: pl.Expr, why: str, notes: list[str]) -> pl.DataFrame:
    kept = jobs.filter(~which)
    if kept.height < jobs.height:
        notes.append(f"{counted(jobs.height - kept.height, 'job')} left out: {why}")
    return kept
