"""The files of a finished trial and their sizes, in trial.json: a reader can tell what was lost since."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.record.layout import METRICS, OBSERVED, OBSERVED_NODES, OBSERVED_PODS, REQUESTS, SUBMITTED
from seatrial.record.segments import writers

# Each file, and what is unknown without it.
LOST = {
    SUBMITTED: "which workloads were submitted, and when",
    OBSERVED: "when workloads and pods reached their stages",
    OBSERVED_PODS: "which pods the workloads had",
    OBSERVED_NODES: "on which nodes pods were",
    REQUESTS: "API requests and their answers",
    METRICS: "resource usage of components and the client",
}


def inventory(directory: Path) -> dict[str, int]:
    """Name → bytes of the files that figures are computed from, once everything is sealed."""
    found = {}
    for name in LOST:
        try:
            found[name] = (directory / name).stat().st_size
        except OSError:
            continue
    return found


def damage(directory: Path, document: Mapping[str, Any]) -> list[str]:
    """A sentence for each missing or truncated file of a trial that has ended."""
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
    """Earlier versions wrote no inventory: only what must exist in any case is checked."""
    found = []
    path = directory / SUBMITTED
    lines = path.read_bytes().count(b"\n") if path.is_file() else 0
    submitted = int(document.get("submitted") or 0)
    if lines < submitted:
        found.append(f"{SUBMITTED} has {lines:,} of {submitted:,} lines; lost: {LOST[SUBMITTED]}")
    if submitted and not (directory / OBSERVED).is_file() and not writers(directory):
        found.append(f"{OBSERVED} is missing; lost: {LOST[OBSERVED]}")
    return found
