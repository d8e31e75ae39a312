"""`seatrial traces inspect` on a terminal: what is in a trace, the week as a grid of bars, and what a replay would leave out."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import numpy as np

from seatrial.model.units import SECOND
from seatrial.report.durations import lasting
from seatrial.report.text_tables import Column, three_digits
from seatrial.traces.inspecting import Inspection, PropertySpread
from seatrial.traces.reading import counted

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BARS = " ▁▂▃▄▅▆▇█"
WHO = ("user", "group", "queue", "partition", "class")
NAMED = 3
SHORT = {"cpu": "cores", "memory": "memory", "nvidia.com/gpu": "GPUs", "nvidia.com/gpu-milli": "GPUs"}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def amount(resource: str, value: float) -> str:
    """`12 cores`, `1.5 TiB`, `3 GPUs`: as people say it."""
    if resource == "memory":
        power = 0
        while value >= 1024 and power < len(_UNITS) - 1:
            value, power = value / 1024, power + 1
        return f"{three_digits(value)} {_UNITS[power]}"
    value /= 1000 if resource == "cpu" or resource.endswith("-milli") else 1
    return f"{three_digits(value)} {SHORT.get(resource, resource)}"


def span(seconds: float) -> str:
    """A time of a trace: days from two days on."""
    return f"{seconds / 86400:,.1f} days" if seconds >= 2 * 86400 else lasting(seconds)


def heading(of: Inspection) -> list[str]:
    """The format, size and beginning of the file."""
    trace, arrivals = of.trace, of.arrivals
    pods = int(arrivals.pods.sum())
    lines = [
        f"{trace.path.name}: {trace.format.about}",
        f"{counted(arrivals.count, 'job')}, {counted(pods, 'pod')}, submitted within {span(of.lasts / SECOND)}",
    ]
    if trace.starts_at is not None:
        first = trace.starts_at + int(arrivals.jobs["submit_ns"][0])
        begins = datetime.datetime.fromtimestamp(first / SECOND, datetime.UTC)
        lines.append(f"first submission {begins:%a %Y-%m-%d %H:%M} UTC")
    who = [f"{count:,} {name}{_plural(name, count)} ({shown})" for name, count, shown in _who(of)]
    return [*lines, *who]


def _plural(name: str, count: int) -> str:
    return "" if count == 1 else "es" if name.endswith("s") else "s"


def _who(of: Inspection) -> Iterator[tuple[str, int, str]]:
    """Users, queues and so on, with the largest by number of jobs."""
    jobs = of.arrivals.jobs
    for name in WHO:
        known = jobs[name].drop_nulls()
        if known.len():
            counts = known.value_counts(sort=True)
            top = [f"{value} {count / jobs.height:.0%}" for value, count in counts.head(NAMED).iter_rows()]
            yield name, counts.height, ", ".join(top) + (" …" if counts.height > NAMED else "")


def spread_columns(of: Inspection) -> list[Column]:
    """A row per property of the jobs, with its quantiles."""
    rows = [(_name(one), [_value(one, value) for value in one.quantiles]) for one in of.spreads]
    columns = [Column("", [name for name, _ in rows], left=True)]
    return columns + [
        Column(head, [cells[n] for _, cells in rows]) for n, head in enumerate(("p50", "p90", "p99", "max"))
    ]


def _name(one: PropertySpread) -> str:
    return f"{SHORT.get(one.unit, one.unit)} {one.name}" if one.unit not in ("", "ns") else one.name


def _value(one: PropertySpread, value: float) -> str:
    if one.unit == "ns":
        return lasting(value / SECOND)
    return amount(one.unit, value).rpartition(" ")[0] if one.unit not in ("", "memory") else (
        amount("memory", value) if one.unit else f"{value:,.0f}"
    )  # fmt: skip


def week_lines(of: Inspection) -> list[str]:
    """Seven rows of 24 bars: jobs by day and hour."""
    week = of.week.reshape(7, 24)
    most = int(week.max()) or 1
    scaled = np.ceil(week / most * (len(BARS) - 1)).astype(int)
    names = DAYS if of.dated else [f"day {day}" for day in range(1, 8)]
    head = f"{'':6}{'0':<6}{'6':<6}{'12':<6}18    jobs by hour{' (UTC)' if of.dated else ' since the first'}; █ is {most:,}"
    rows = [
        f"{name:6}{''.join(BARS[level] for level in row)}  {int(total):>9,}"
        for name, row, total in zip(names, scaled, week.sum(axis=1), strict=True)
    ]
    return [head, *rows]


def demand_lines(of: Inspection) -> list[str]:
    """The demand of the jobs if none waited, beside the fleet's capacity."""
    lines = []
    for one in of.demands:
        text = f"{amount(one.resource, one.mean)} on average, {amount(one.resource, one.peak)} at most"
        text += f" (after {span(one.peak_at_ns / SECOND)})"
        if of.nodes:
            share = one.mean / one.fleet if one.fleet else 0.0
            text += f"; the fleet has {amount(one.resource, one.fleet)}"
            text += f": {share:.0%} on average, more than all of it {one.beyond:.0%} of the time" if one.fleet else ""
        lines.append(text)
    return lines


def misfit_lines(of: Inspection) -> list[str]:
    """Jobs that can never run on the fleet."""
    return [
        f"{counted(one.jobs, 'job')} can never run: {one.why} (the first: {one.job or 'the job'} in line {one.line:,})"
        for one in of.misfits
    ]


def sections(of: Inspection) -> Sequence[tuple[str, list[str]]]:
    """Headings and lines below the table."""
    nodes = f" against {counted(of.nodes, 'node')}" if of.nodes else ""
    return [
        ("arrivals over the week", week_lines(of)),
        (f"demand{nodes}, if every job started at once", [*demand_lines(of), *misfit_lines(of)]),
        ("left out, rounded or assumed", list(of.arrivals.notes) or ["nothing"]),
    ]
