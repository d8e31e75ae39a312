"""Writes a trace as SimKube's `.sktrace`, version 2: a Job per job, applied when it was submitted, with the lifecycles of its pods.

By the same documentation as `simkube` reads. Times there are whole seconds. SimKube finds lifecycles by a hash of the pod's spec
that its documentation does not define: ours is another one, so SimKube itself replays arrivals and sizes of such a file, while any
reader that goes by owner (this one) gets the run times, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.units import SECOND, format_quantity
from seatrial.traces.arrivals import Arrivals, Asked
from seatrial.traces.options import GPU, GPU_MODEL
from seatrial.traces.simkube import JOB, QUEUE_LABEL, VERSION

IMAGE = "registry.k8s.io/pause:3.10"  # a pod needs one; SimKube replaces what runs
LONGEST_NAME = 52


def write_sktrace(of: Arrivals, starts_at: int | None, path: Path) -> tuple[str, ...]:
    """Writes the jobs, and returns what of them the format cannot hold. `starts_at`: the first submission, Unix time in ns."""
    begins = starts_at or 0
    events: dict[int, list[dict[str, Any]]] = {}
    lives: dict[tuple[str, str], dict[int, list[dict[str, list[int]]]]] = {}
    index: dict[str, int] = {}
    templates = [_template(asked) for asked in of.asked]
    unknown = rounded = 0
    for name, queue, place, submitted, wait, duration, pods in _rows(of, begins):
        template, number = templates[place]
        applied = submitted // SECOND
        unknown += wait < 0
        start = (submitted + max(wait, 0) + SECOND // 2) // SECOND
        end = (submitted + max(wait, 0) + duration + SECOND // 2) // SECOND
        rounded += (submitted % SECOND or duration % SECOND or max(wait, 0) % SECOND) != 0
        events.setdefault(applied, []).append(_job(name, queue, pods, template))
        lives[JOB, f"default/{name}"] = {number: [{"Finished": [max(start, applied), max(end, start, applied)]}] * pods}
        index[f"default/{name}"] = number
    trace = {
        "version": VERSION,
        "config": {"trackedObjects": {JOB: {"trackLifecycle": True, "podSpecTemplatePaths": ["/spec/template"]}}},
        "events": [{"ts": ts, "applied_objs": jobs, "deleted_objs": []} for ts, jobs in sorted(events.items())],
        "index": {JOB: index},
        "pod_lifecycles": lives,
    }
    path.write_bytes(msgspec.msgpack.encode(trace))
    return tuple(_notes(of, unknown, rounded))


def _notes(of: Arrivals, unknown: int, rounded: int) -> Iterator[str]:
    if rounded:
        yield f"times of {rounded:,} jobs rounded to whole seconds: the format has no others"
    if unknown:
        yield f"{unknown:,} jobs without a wait in the trace: written as started at once"
    if of.jobs["user"].count():
        yield "users are not in the format"
    if any(asked.gang for asked in of.asked):
        yield "that pods run only together is not in the format: replay it with gang: true"


def _rows(of: Arrivals, begins: int) -> Iterator[tuple[str, str, int, int, int, int, int]]:
    """Name, queue, place of the shape, and submission, wait, duration in ns, pods."""
    queues = of.jobs["queue"].to_list() if "queue" in of.jobs.columns else [None] * of.count
    columns = (of.shape.tolist(), of.due.tolist(), of.waits.tolist(), of.durations.tolist(), of.pods.tolist())
    for number, (queue, place, due, wait, duration, pods) in enumerate(zip(queues, *columns, strict=True)):
        yield f"job-{number}", queue or "", place, begins + due, wait, duration, pods


def _job(name: str, queue: str, pods: int, template: dict[str, Any]) -> dict[str, Any]:
    labels = {QUEUE_LABEL: _label(queue)} if _label(queue) else {}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }  # fmt: skip


def _label(text: str) -> str:
    return re.sub(r"[^-A-Za-z0-9_.]+", "-", text).strip("-_.")[:LONGEST_NAME]


def _template(asked: Asked) -> tuple[dict[str, Any], int]:
    """The pod template of a shape, and a hash of it of 64 bits."""
    amounts = {resource: format_quantity(amount, resource) for resource, amount in asked.requests.items()}
    resources = {"requests": amounts, **({"limits": {GPU: amounts[GPU]}} if GPU in amounts else {})}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
    }
    if asked.priority:
        spec["priority"] = asked.priority
    if len(asked.models) == 1:
        spec["nodeSelector"] = {GPU_MODEL: asked.models[0]}
    digest = hashlib.blake2b(msgspec.json.encode(spec, order="deterministic"), digest_size=8).digest()
    return {"spec": spec}, int.from_bytes(digest, "big")
