"""Stages that only container runtimes know, from the file that the process of played ones writes, and how many starts failed."""

from __future__ import annotations

from pathlib import Path

from seatrial.clusters.live.session import Session
from seatrial.model.lifecycle import CONTAINER_CREATED, PULLED, SANDBOX
from seatrial.observe import time_sources

_STAGES = {stage.name for stage in (SANDBOX, PULLED, CONTAINER_CREATED)}


def add(log: Path, session: Session) -> None:
    """Adds the stages to the observations: of a stage that a pod reached several times, the first. Counts go to the evidence."""
    observer, ledger = session.observer, session.ledger
    namespaces = {session.namespace, *session.queue_namespaces}
    counts = {"sandbox": 0, "started": 0, "start_failed": 0, "exited": 0, "crashed": 0}
    known: set[tuple[int, str]] = set()
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        parts = line.split("\t")
        if len(parts) != 6 or parts[2] not in namespaces:  # the last line may be torn
            continue
        at, node, _, name, _, what = parts
        if what in counts:
            counts[what] += 1
        pod = observer.pods.get(name)
        if what in _STAGES and pod is not None and (pod, what) not in known:
            known.add((pod, what))
            number = ledger.number[what]
            ledger.note(int(at) - session.wall_epoch, pod, number, time_sources.RUNTIME, observer.node(node))
    session.evidence["runtime"] = counts
