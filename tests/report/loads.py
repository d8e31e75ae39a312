"""Studies of loads made by hand: requests are given, written by the real log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.model.lifecycle import PLAIN
from seatrial.model.units import MILLISECOND
from seatrial.record.request_log import RequestLog

VALID = {"valid": True, "reasons": []}
LATE = {
    "valid": False,
    "reasons": [
        {
            "reason": "the client's event loop was 3.0 ms late on average; a request took 26.4 ms",
            "touches": ["times"],
            "by_s": 0.003,
        }
    ],
}


@dataclass
class Sent:
    """A trial: how many requests of `nodes` were answered, after how long, and how many were rejected."""

    setup: str
    answered: int = 20
    took_ms: int = 26
    rejected: int = 0
    repeat: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    validity: Mapping[str, Any] = field(default_factory=lambda: VALID)
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join([self.setup, *(f"{k}={v}" for k, v in self.params.items()), f"r{self.repeat}"])


def write_load_study(out: Path, trials: Sequence[Sent], on: str = "local", **also: Any) -> Path:
    for one in trials:
        directory = out / "trials" / one.name
        directory.mkdir(parents=True)
        log = RequestLog(directory)
        verb, kind, who, none, phase, by = map(log.number, ("update", "leases", "nodes", "", "load", "client"))
        for n in range(one.answered + one.rejected):
            code = 200 if n < one.answered else 429
            at = n * 10 * MILLISECOND
            log.add(at, at, one.took_ms * MILLISECOND, verb, kind, who, code, none, -1.0, 1, phase, by)
        log.close()
        (directory / "submitted.jsonl").write_text("")
        (directory / "trial.json").write_text(json.dumps(_document(one, on)))
    study = {
        "format": 1, "seatrial": "0.1.0", "scenario": {}, "name": "starved", "on": on, "seed": 1,
        "trials": [one.name for one in trials], "run": {"started": "2026-07-25T10:00:00+00:00"}, **also,
    }  # fmt: skip
    (out / "study.json").write_text(json.dumps(study))
    return out


def _document(one: Sent, on: str) -> dict[str, Any]:
    return {
        "format": 1, "trial": one.name, "number": 1, "scenario": "starved", "on": on, "setup": one.setup, "stack": "default",
        "params": dict(one.params), "repeat": one.repeat, "seed": 1,
        "stages": [{"name": s.name, "of": s.of, "about": s.about, "general": s.general} for s in PLAIN],
        "phases": {}, "nodes": [], "sources": [{"name": "watch", "error_ns": 5_000_000}], "outcome": "completed", "detail": "",
        "submitted": 0, "end_ns": 10**10, "findings": [], "expect": [], "validity": dict(one.validity), "clog": None,
        "audits": [], "run": {"started": "2026-07-25T10:00:00+00:00", "wall_s": 0.1}, **one.also,
    }  # fmt: skip
