"""A trial as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process per node, with as many threads as the node had pods at the same time: slices are pods, from bound to gone. A process
for the workloads, a thread each: slices are stages. Slices of a thread never overlap, as the format demands. A clog is an instant
across all tracks.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from seatrial.analysis.stage_times import Lifecycle, lifecycle, order_of
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, FINISHED, LOST, RUNNING, SCHEDULED
from seatrial.record.files import atomic_write
from seatrial.record.trial_record import TrialRecord

WORKLOADS = 1  # the process of the workloads; nodes follow
Event = dict[str, Any]


def write_trace(trial: TrialRecord, path: Path) -> Path:
    """Writes event by event: a trial of 100,000 pods would be a gigabyte of objects."""
    encode = msgspec.json.Encoder().encode
    with atomic_write(path) as part, part.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ms","otherData":')
        file.write(encode({"trial": trial.name, "setup": trial.setup, "outcome": trial.outcome}))
        file.write(b',"traceEvents":[\n')
        for number, event in enumerate(events(lifecycle(trial))):
            file.write(b",\n" if number else b"")
            file.write(encode(event))
        file.write(b"\n]}\n")
    return path


def events(seen: Lifecycle) -> Iterator[Event]:
    """The trace events of a trial."""
    yield from _workloads(seen)
    yield from _nodes(seen)
    clog = seen.trial.document.get("clog") or {}
    if isinstance(clog.get("at_ns"), int):
        at = _us(clog["at_ns"] - seen.first_ns)
        args = {"summary": str(clog.get("summary", ""))}
        yield {
            "ph": "i",
            "s": "g",
            "name": f"clog: {clog.get('kind', '')}",
            "pid": WORKLOADS,
            "tid": 0,
            "ts": at,
            "args": args,
        }


def _us(nanoseconds: int) -> float:
    """Microseconds since the first submission; the format knows no other unit."""
    return nanoseconds / 1000


def _called(kind: str, name: str, pid: int, tid: int = 0) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _slice(name: str, pid: int, tid: int, begin: int, end: int, **args: Any) -> Event:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _us(begin), "dur": _us(end - begin), "args": args}


def _workloads(seen: Lifecycle) -> Iterator[Event]:
    """A slice lasts until the next stage, and is named after what the time was spent on."""
    yield _called("process_name", f"workloads of {seen.trial.setup}", WORKLOADS)
    stages = [name for name in order_of([seen.trial]) if name in seen.workloads.columns]
    steps = {stage.name: stage.step for stage in seen.trial.stages}
    for row in seen.workloads.iter_rows(named=True):
        tid = row["number"] + 1
        yield _called("thread_name", row["workload"], WORKLOADS, tid)
        reached = sorted((at, stages.index(name)) for name in stages if (at := row[name]) is not None)
        over = any(row.get(stage.name) is not None for stage in (COMPLETED, FAILED, DELETED))
        for (begin, _), (end, stage) in itertools.pairwise(reached):
            yield _slice(steps[stages[stage]], WORKLOADS, tid, begin - seen.first_ns, end - seen.first_ns)
        if not over and seen.end_ns > reached[-1][0]:
            begin = reached[-1][0] - seen.first_ns
            yield _slice(f"stuck after {stages[reached[-1][1]]}", WORKLOADS, tid, begin, seen.end_ns - seen.first_ns)


def _nodes(seen: Lifecycle) -> Iterator[Event]:
    for number, name in enumerate(seen.nodes):
        yield _called("process_name", name, WORKLOADS + 1 + number)
        yield {**_called("process_sort_index", name, WORKLOADS + 1 + number), "args": {"sort_index": number + 1}}
    have = seen.pods.columns
    ends = [stage.name for stage in (FINISHED, LOST) if stage.name in have]
    if SCHEDULED.name not in have or not ends:
        return
    pods = seen.pods.filter(pl.col(SCHEDULED.name).is_not_null() & pl.col("node").is_not_null()).select(
        "name", "node", pl.col(SCHEDULED.name).alias("begin"),
        (pl.col(RUNNING.name) if RUNNING.name in have else pl.lit(None, dtype=pl.Int64)).alias("running"),
        pl.coalesce(pl.min_horizontal(*ends), pl.lit(max(seen.end_ns, seen.first_ns))).alias("end"),
    ).sort("node", "begin", "name")  # fmt: skip
    yield from _in_lanes(pods.iter_rows(named=True), seen.first_ns)


def _in_lanes(pods: Iterable[Event], first_ns: int) -> Iterator[Event]:
    """Assigns pods of a node to lanes: each takes the lowest free lane."""
    node, free, busy, lanes = -1, [0], [(0, 0)], 0
    for pod in pods:
        if pod["node"] != node:
            node, free, busy, lanes = pod["node"], [], [], 0
        while busy and busy[0][0] <= pod["begin"]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lanes += 1
            lane = lanes
        end = max(pod["end"], pod["begin"])
        heapq.heappush(busy, (end, lane))
        running = None if pod["running"] is None else _us(pod["running"] - first_ns)
        yield _slice(
            pod["name"], WORKLOADS + 1 + node, lane, pod["begin"] - first_ns, end - first_ns, running_ts=running
        )
