"""What is in a trace, before anybody waits for a run: when its jobs arrive, how large and long they are, and what they would need
of a fleet if none of them had to wait.

Everything is computed from the arrays that a replay would submit, so it counts what a run would see, not what the file says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seatrial.model.load import Times
from seatrial.model.plan import NodeGroup
from seatrial.model.units import HOUR, SECOND
from seatrial.traces.arrivals import Arrivals, Asked
from seatrial.traces.node_lists import model_label
from seatrial.traces.options import GPU_MODEL
from seatrial.traces.reading import Trace

POINTS = 2_000  # of a curve: more than a picture has pixels
DAY = 24 * HOUR
QUANTILES = (0.5, 0.9, 0.99, 1.0)
Curve = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class PropertySpread:
    """How a property of the jobs is spread. `unit` is how its values are to be read: ns, a resource, or nothing."""

    name: str
    unit: str
    values: Times

    @property
    def quantiles(self) -> tuple[float, ...]:
        """At `QUANTILES`: of values, not between them."""
        return tuple(float(q) for q in np.quantile(self.values, QUANTILES, method="inverted_cdf"))


@dataclass(frozen=True)
class DemandOverTime:
    """The total demand of a trace's jobs for a resource over time, if each started when it was submitted.

    `highest` has the most within each part of the time, `at` the parts' beginnings. `fleet`: what the nodes have; 0 is unknown.
    """

    resource: str
    at: Curve  # seconds since the first submission
    highest: Curve
    peak: int
    peak_at_ns: int
    mean: float  # over the time in which jobs arrive
    fleet: int
    beyond: float  # share of that time with a demand above the fleet


@dataclass(frozen=True)
class Misfit:
    """Jobs that no such fleet can ever run. `line` and `job` are of the first of them."""

    why: str
    jobs: int
    line: int
    job: str


@dataclass(frozen=True)
class Inspection:
    """All that `seatrial traces inspect` shows."""

    trace: Trace
    arrivals: Arrivals
    spreads: tuple[PropertySpread, ...]
    waits: Times  # of the recorded system, those that are known
    week: (
        Times  # jobs by hour of the week, from Monday 0:00 UTC, or from the trace's beginning if its date is not known
    )
    dated: bool
    demands: tuple[DemandOverTime, ...]
    misfits: tuple[Misfit, ...]
    nodes: int

    @property
    def lasts(self) -> int:
        """Time from the first to the last submission, in ns."""
        return int(self.arrivals.due[-1])


def inspect(trace: Trace, arrivals: Arrivals, fleet: Sequence[NodeGroup] = ()) -> Inspection:
    """`fleet`: the nodes to compare with, if any."""
    waits = arrivals.waits[arrivals.waits >= 0]
    return Inspection(
        trace, arrivals, tuple(_spreads(arrivals)), waits, _week(trace, arrivals), trace.starts_at is not None,
        tuple(_demands(arrivals, fleet)), tuple(_misfits(arrivals, fleet)) if fleet else (), sum(g.count for g in fleet),
    )  # fmt: skip


def _spreads(of: Arrivals) -> list[PropertySpread]:
    found = [PropertySpread("duration", "ns", of.durations), PropertySpread("pods", "", of.pods)]
    for resource in _resources(of):
        per_pod = _per_pod(of, resource)
        found.append(PropertySpread("per pod", resource, per_pod))
        if int(of.pods.max()) > 1:
            found.append(PropertySpread("per job", resource, per_pod * of.pods))
    waits = of.waits[of.waits >= 0]
    return [*found, PropertySpread("wait in the trace", "ns", waits)] if len(waits) else found


def _resources(of: Arrivals) -> list[str]:
    return list(dict.fromkeys(resource for asked in of.asked for resource in asked.requests))


def _per_pod(of: Arrivals, resource: str) -> Times:
    return np.asarray([asked.requests.get(resource, 0) for asked in of.asked], dtype=np.int64)[of.shape]


def _week(trace: Trace, of: Arrivals) -> Times:
    """1970 began on a Thursday."""
    begins = (trace.starts_at or 0) + 3 * DAY if trace.starts_at is not None else 0
    hours = (begins + of.jobs["submit_ns"].to_numpy()) // HOUR % (7 * 24)
    return np.bincount(hours, minlength=7 * 24).astype(np.int64)


def _demands(of: Arrivals, fleet: Sequence[NodeGroup]) -> list[DemandOverTime]:
    ends = of.due + of.durations
    order = np.argsort(np.concatenate([ends, of.due]), kind="stable")  # who leaves goes before who comes
    times = np.concatenate([ends, of.due])[order]
    last = int(of.due[-1])
    found = []
    for resource in _resources(of):
        amount = _per_pod(of, resource) * of.pods
        there = np.cumsum(np.concatenate([-amount, amount])[order])
        found.append(_demand(resource, times, there, last, sum(g.count * g.capacity.get(resource, 0) for g in fleet)))
    return found


def _demand(resource: str, times: Times, there: Times, last: int, fleet: int) -> DemandOverTime:
    span = np.minimum(np.append(times[1:], times[-1]), last) - np.minimum(times, last)  # how long each step lasts
    whole = max(last, 1)
    step = max(math.ceil(int(times[-1]) / POINTS), 1)
    edges = np.arange(0, int(times[-1]) + 1, step)
    places = np.searchsorted(times, edges, side="right")
    begun = np.where(places > 0, there[np.maximum(places - 1, 0)], 0)  # what was there as the part began
    inside = np.diff(places, append=len(times)) > 0
    highest = np.where(inside, np.maximum(np.maximum.reduceat(np.append(there, 0), places), begun), begun)
    peak = int(np.argmax(there))
    return DemandOverTime(
        resource, edges / SECOND, highest.astype(np.float64), int(there[peak]), int(times[peak]),
        float((there * (span / whole)).sum()) if last else float(there[peak]), fleet,
        float(span[there > fleet].sum()) / whole if fleet else 0.0,
    )  # fmt: skip


def _misfits(of: Arrivals, fleet: Sequence[NodeGroup]) -> list[Misfit]:
    """Pods that fit no node, and jobs whose pods run only together and are more than all nodes hold when empty."""
    modelled = any(GPU_MODEL in group.labels for group in fleet)  # else a replay leaves models out
    places = np.asarray(
        [sum(group.count * holds(group, asked, modelled) for group in fleet) for asked in of.asked], dtype=np.int64
    )
    gang = np.asarray([asked.gang for asked in of.asked], dtype=bool)
    room = places[of.shape]
    found = []
    for which, why in (
        (room == 0, "a pod fits no node"),
        (
            (room > 0) & (room < of.pods) & gang[of.shape],
            "its pods run only together, and are more than fit the empty fleet",
        ),
    ):
        rows = np.flatnonzero(which)
        if len(rows):
            first = of.jobs.row(int(rows[0]), named=True)
            found.append(Misfit(why, len(rows), first["line"], first["job"] or ""))
    return found


def holds(group: NodeGroup, asked: Asked, modelled: bool) -> int:
    """How many such pods an empty node of the group holds."""
    if modelled and asked.models and group.labels.get(GPU_MODEL, "") not in map(model_label, asked.models):
        return 0
    wanted: Mapping[str, int] = {"pods": 1, **asked.requests}
    return min(group.capacity.get(resource, 0) // amount for resource, amount in wanted.items())
