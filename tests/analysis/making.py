"""Study directories made by hand: times are given, written by the real ledger, read back by what is under test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.model.lifecycle import PLAIN, Stage
from seatrial.record.ledger import Ledger
from seatrial.record.merging import seal
from seatrial.record.segments import Segment

MS = 1_000_000
CAPACITY = {"cpu": 32000, "memory": 2**38, "pods": 110}
NODES = [{"group": "fake", "count": 4, "capacity": CAPACITY, "from_ns": 0, "until_ns": None}]


@dataclass
class Job:
    """One workload: milliseconds at which it reached workload stages, and each pod its stages."""

    at: Mapping[str, float]
    pods: Sequence[Mapping[str, float]] = ()
    size: int | None = None  # pods it should have, where not all came
    phase: str = "short"
    name: str = ""
    nodes: Sequence[int] = ()
    queue: str = ""
    label: str = ""  # its class
    priority: int = 0
    evictions: Sequence[tuple[float, str, int]] = ()  # ms, reason, by; a reason "" is an admission after an eviction


@dataclass
class Made:
    """A trial to be written; the rest of trial.json can be given in `also`."""

    jobs: Sequence[Job]
    setup: str = "kwok"
    stack: str = "default"
    repeat: int = 0
    number: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    stages: Sequence[Stage] = PLAIN
    outcome: str = "completed"
    requests: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1000})
    gang: bool = False
    nodes: Sequence[Mapping[str, Any]] = field(default_factory=lambda: NODES)
    end_ms: int = 100_000
    sealed: bool = True
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        varying = "".join(f"-{key}={value}" for key, value in self.params.items())
        return re.sub(r"[^\w+=.-]", "_", f"{self.number:03d}-{self.setup[:40]}{varying}-r{self.repeat}")


def plain(submitted: int = 0, took: int = 10_000, pods: int = 1, name: str = "") -> Job:
    """A job that passes all stages of plain Kubernetes, `took` ms running."""
    s = submitted
    pod = {"pods_created": s + 20, "scheduled": s + 30, "running": s + 1030, "finished": s + 1030 + took}
    return Job({"submitted": s, "created": s + 10, "completed": s + 2030 + took}, [pod] * pods, name=name)


def write_trial(directory: Path, made: Made) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(made.stages, Segment(directory, "test"))
    ledger.node("fake-0"), ledger.node("fake-1")
    lines = [_write_job(ledger, number, job) for number, job in enumerate(made.jobs)]
    ledger.close()
    (directory / "submitted.jsonl").write_text("".join(lines))
    if made.sealed:
        seal(directory, made.stages, [0])
    (directory / "trial.json").write_text(json.dumps(trial_json(made)))
    return directory


def _write_job(ledger: Ledger, index: int, job: Job) -> str:
    size = len(job.pods) if job.size is None else job.size
    number = ledger.workload(ledger.phase(job.phase), size)
    for stage, ms in job.at.items():
        ledger.move(round(ms * MS), number, ledger.number[stage])
    for place, times in enumerate(job.pods):
        pod = ledger.pod(number, f"{job.phase}-{index}-{place}")
        node = job.nodes[place] if job.nodes else 0
        for stage, ms in times.items():
            ledger.move_pod(round(ms * MS), pod, ledger.number[stage], node if stage == "scheduled" else -1)
    for ms, reason, by in job.evictions:
        if reason:
            ledger.evict(round(ms * MS), number, reason, by)
        else:
            ledger.readmit(round(ms * MS), number)
    at = round(job.at["submitted"] * MS)
    name = job.name or f"{job.phase}-{index}"
    line = {
        "workload": name, "number": number, "phase": job.phase, "index": index,
        "pods": size, "duration_s": 10.0, "at_ns": at,
    }  # fmt: skip
    own = {"queue": job.queue, "class": job.label, "priority": job.priority}
    line |= {name: value for name, value in own.items() if value}
    return json.dumps(line) + "\n"


def trial_json(made: Made) -> dict[str, Any]:
    sizes = sorted({len(job.pods) if job.size is None else job.size for job in made.jobs})
    phase = {"pods": sizes, "requests": dict(made.requests), "gang": made.gang, "duration_ns": 10_000 * MS}
    return {
        "format": 1, "trial": made.name, "number": made.number, "scenario": "many-small-jobs", "on": "sim",
        "setup": made.setup, "stack": made.stack, "params": dict(made.params), "repeat": made.repeat, "seed": 1,
        "stages": [{"name": s.name, "of": s.of, "about": s.about, "general": s.general} for s in made.stages],
        "phases": dict.fromkeys(sorted({job.phase for job in made.jobs}), phase), "nodes": list(made.nodes),
        "sources": [{"name": "model", "error_ns": 0}], "outcome": made.outcome, "detail": "",
        "submitted": len(made.jobs), "end_ns": made.end_ms * MS, "findings": [], "expect": [],
        "model": {"verified": True, "how": "by hand"},
        "validity": {"valid": True, "reasons": []}, "clog": None, "audits": [],
        "run": {"started": "2026-07-25T10:00:00+00:00", "wall_s": 0.1}, **made.also,
    }  # fmt: skip


def write_study(out: Path, trials: Sequence[Made], planned: Sequence[str] = ()) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    names = [write_trial(out / "trials" / made.name, made).name for made in trials]
    study = {
        "format": 1, "seatrial": "0.1.0", "scenario": {}, "name": "many-small-jobs", "on": "sim", "seed": 1,
        "trials": [*names, *planned], "run": {"started": "2026-07-25T10:00:00+00:00"},
    }  # fmt: skip
    (out / "study.json").write_text(json.dumps(study))
    return out


def write_many(directory: Path, jobs: int, pods: int, times: Callable[[int], Job] | None = None) -> Path:
    """A large trial: a job each 2 ms."""
    shape = times or (lambda index: plain(index * 2, 10_000 + index % 997, pods))
    return write_trial(directory, Made([shape(index) for index in range(jobs)], end_ms=jobs * 2 + 20_000))
