"""Which files a finished trial has and how large they are: whoever reads it years later can tell what was lost since."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.record.metrics import METRICS
from seatrial.record.requests import REQUESTS
from seatrial.record.segments import NODES, OBSERVED, PODS, writers
from seatrial.record.submissions import NAME as SUBMITTED

# Each file, and what nobody can know without it.
LOST = {
    SUBMITTED: "which workloads were submitted, and when",
    OBSERVED: "when workloads and pods reached their stages",
    PODS: "which pods the workloads had",
    NODES: "on which nodes pods were",
    REQUESTS: "what API requests were sent, and how they were answered",
    METRICS: "what components and the client used",
}


def inventory(directory: Path) -> dict[str, int]:
    """Name → bytes of the files that the figures come from; for trial.json, once everything is sealed."""
    paths = {name: directory / name for name in LOST}
    return {name: path.stat().st_size for name, path in paths.items() if path.is_file()}


def damage(directory: Path, document: Mapping[str, Any]) -> list[str]:
    """What is wrong with the files of a trial that had ended, a sentence for each."""
    listed = document.get("files")
    if not isinstance(listed, Mapping):
        return _damage_of_an_old_trial(directory, document)
    there = inventory(directory)
    found = []
    for name, size in listed.items():
        if there.get(name) == size:
            continue
        state = f"has {there[name]:,} of {size:,} bytes" if name in there else "is missing"
        found.append(f"{name} {state}; lost: {LOST.get(name, 'what it held')}")
    return found


def _damage_of_an_old_trial(directory: Path, document: Mapping[str, Any]) -> list[str]:
    """Without an inventory (earlier versions): what must be there in any case."""
    found = []
    path = directory / SUBMITTED
    lines = path.read_bytes().count(b"\n") if path.is_file() else 0
    submitted = int(document.get("submitted") or 0)
    if lines < submitted:
        found.append(f"{SUBMITTED} has {lines:,} of {submitted:,} lines; lost: {LOST[SUBMITTED]}")
    if submitted and not (directory / OBSERVED).is_file() and not writers(directory):
        found.append(f"{OBSERVED} is missing; lost: {LOST[OBSERVED]}")
    return found
