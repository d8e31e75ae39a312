"""Turns watch events into transitions, once per object and stage.

Objects are assigned to workloads by their labels. Stacks define watches of their own kinds; those of Jobs and pods are here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Job, Pod, condition
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.fleet import PREEMPTED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe import time_sources
from seatrial.observe.displacements import Displacements
from seatrial.record.ledger import Ledger

_NEVER = -(2**63)
MOST_EARLY = 100_000  # unknown workloads whose events are kept; some may never become known


class Observer:
    """Knows every workload, pod and node by name, and when each reached which stage. Times are of the client's clock, from `epoch`.

    The times are in one array per stage: with a dict entry and a set per pod, 100,000 pods took 190 MB more.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.epoch = 0
        self.wall_epoch = 0  # the same moment on the wall clock
        self.workloads: dict[str, int] = {}
        self.pods: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.interactive: set[str] = set()  # workloads that run until deleted: they complete when they run
        self.failures: dict[str, int] = {}  # reason why workloads could not be submitted → how many
        self.places: dict[int, int] = {}  # pod → node
        self.held: dict[str, dict[str, str]] = {}  # workload → pods of the stack's that hold nodes for its own → node
        self.said: dict[int, str] = {}  # workload → why it waits, as its queue says
        self.troubles: dict[str, None] = {}  # problems that components of the stack report
        self.alive = 0  # last heartbeat of this process; 0 without heartbeats
        self.doubt = 0  # possible error in ms of what is observed now: after a gap, or in a list
        self.early: dict[str, list[Callable[[], None]]] | None = None  # events of unknown workloads, if kept
        self._evictions: set[tuple[int, str]] = set()  # workload and key of those that were recorded
        self.displacements = Displacements(ledger)
        # Pods whose eviction does not say who got the place → what was recorded of it.
        self._unnamed: dict[str, tuple[int, int, str, str, str]] = {}
        self._gone: dict[str, int] = {}  # pods that were lost → workload
        self._number = ledger.number
        self._at = [array("q") for _ in ledger.stages]
        self._of_pods = [n for n, stage in enumerate(ledger.stages) if stage.of == "pod"]

    def when(self, thing: int, stage: int) -> int | None:
        """When the workload or pod reached the stage, in ns since the epoch."""
        column = self._at[stage]
        return None if thing >= len(column) or column[thing] == _NEVER else column[thing]

    def knows(self, name: str, number: int) -> None:
        """Adds a workload that another process submits, and replays its early events."""
        self.workloads[name] = number
        for again in (self.early or {}).pop(name, ()):
            again()

    def node(self, name: str) -> int:
        """The number of a node."""
        if name not in self.nodes:
            self.nodes[name] = self.ledger.node(name)
        return self.nodes[name]

    def workload(
        self, name: str, stage: str, stamp: int, source: int = time_sources.WATCH, said: str | None = ""
    ) -> None:
        """Records a stage of a workload. `said` is the object's own timestamp: coarse, but useful after a gap."""
        workload = self.workloads.get(name)
        number = self._number.get(stage)
        if workload is None:
            self._keep(name, lambda: self.workload(name, stage, stamp, source, said))
        elif number is not None and self._first(workload, number, stamp):
            self.ledger.move(stamp - self.epoch, workload, number, self.doubt, source)
            self._note(said, workload, number)

    def says(self, name: str, text: str) -> None:
        """Records why a workload waits; empty when it no longer does."""
        workload = self.workloads.get(name)
        if workload is not None:
            self.said[workload] = text

    def hold(self, pod: str, workload: str, node: str) -> int:
        """Records that a pod of the stack's holds a node for a workload; returns how many hold one for it."""
        held = self.held.setdefault(workload, {})
        held[pod] = node
        return len(held)

    def let_go(self, pod: str, workload: str) -> None:
        """Such a pod holds its node no longer."""
        held = self.held.get(workload, {})
        held.pop(pod, None)
        if not held:
            self.held.pop(workload, None)

    def trouble(self, text: str) -> None:
        """Records a problem of the stack."""
        self.troubles[text] = None

    def well(self, beginning: str) -> None:
        """Removes the problems that begin with this text."""
        for text in [text for text in self.troubles if text.startswith(beginning)]:
            del self.troubles[text]

    def reached(self, pod: int) -> list[int]:
        """The stages that a pod has reached."""
        return [stage for stage in self._of_pods if self.when(pod, stage) is not None]

    def has(self, name: str, stage: str) -> bool:
        """Whether a workload has reached the stage."""
        workload = self.workloads.get(name)
        return workload is not None and self.when(workload, self._number[stage]) is not None

    def pod(
        self, name: str, workload: str, stage: str, stamp: int, node: str = "", source: int = time_sources.WATCH,
        said: str | None = "", uid: str = "",
    ) -> None:  # fmt: skip
        """Records a stage of a pod."""
        pod = self.pods.get(name)
        if pod is None:
            owner = self.workloads.get(workload)
            if owner is None:
                self._keep(workload, lambda: self.pod(name, workload, stage, stamp, node, source, said, uid))
                return
            pod = self.pods[name] = self.ledger.pod(owner, name, uid)
        number = self._number[stage]
        if self._first(pod, number, stamp):
            if node:
                self.places[pod] = self.node(node)
            self.ledger.move_pod(stamp - self.epoch, pod, number, self.places.get(pod, -1), self.doubt, source)
            self._note(said, pod, number)
            if stage == "scheduled" and self.displacements.bound(self.ledger.pod_workload[pod]):
                self.readmit(workload, stamp, uid)
            stays = stage == "running" and workload in self.interactive
            if stays and self.ledger.has_reached(self.ledger.pod_workload[pod], number):
                self.workload(workload, "completed", stamp, source, said)

    def evict(
        self, name: str, reason: str, stamp: int, by: str = "", message: str = "", key: str = "", said: str | None = "",
    ) -> None:  # fmt: skip
        """Records that a workload lost its place, to the workload `by`; once per key, which is also in later events. `said` is the
        object's own timestamp: where this process may have seen it late, it is nearer to the truth."""
        workload = self.workloads.get(name)
        if workload is None:
            self._keep(name, lambda: self.evict(name, reason, stamp, by, message, key, said))
        elif not key or (workload, key) not in self._evictions:
            self._evictions.add((workload, key))
            self.ledger.evict(self._began(stamp, said), workload, reason, self.workloads.get(by, -1), message, key)

    def readmit(self, name: str, stamp: int, key: str = "", said: str | None = "") -> None:
        """Records that a workload has a place; only one that was evicted lacked it."""
        workload = self.workloads.get(name)
        if workload is None:
            self._keep(name, lambda: self.readmit(name, stamp, key, said))
        elif workload in self.ledger.evicted:
            self.ledger.readmit(self._began(stamp, said), workload, key)

    def _began(self, stamp: int, said: str | None) -> int:
        if not self.doubt or not said:
            return stamp - self.epoch
        return min(stamp - self.epoch, time_sources.said(said)[0] - self.wall_epoch)

    def pod_gone(self, gone: Pod, stamp: int) -> None:
        """Records a deleted pod: lost unless it has finished or its workload has completed. Its workload may be evicted by that."""
        name = gone.metadata.name
        self.displacements.withdraw(name)
        pod = self.pods.get(name)
        if pod is None:
            return
        owner = self.ledger.pod_workload[pod]
        over = self.when(owner, self._number["completed"]) is not None
        if self.when(pod, self._number["finished"]) is None and not over:
            if self.when(pod, self._number["scheduled"]) is not None:
                self._displaced(gone, owner, stamp)
            self.ledger.lose_pod(stamp - self.epoch, pod, self.reached(pod))
            self._gone[name] = owner
            del self.pods[name]

    def _displaced(self, gone: Pod, owner: int, stamp: int) -> None:
        why, meta = self.displacements.why(gone), gone.metadata
        if why is not None and self.displacements.begins(owner):
            reason, by = self.displacements.told(why, gone)
            self.evict(meta.labels.get(WORKLOAD_LABEL, ""), reason, stamp, by, why.message, meta.uid)
            event = stamp - self.epoch, owner, reason, why.message, meta.uid
            if not by:
                self._unnamed[meta.name] = event
            if reason == PREEMPTED and not by:
                self.displacements.not_named(
                    gone, stamp, lambda name: self.ledger.name_preemptor(*event, self.workloads.get(name, -1))
                )
        self.displacements.lost(owner)

    def evicted_for(self, victim: str, pod: str) -> None:
        """Names the workload that got the place of an evicted pod, where a log tells it after the run."""
        event, owner = self._unnamed.get(victim), self._gone.get(pod)
        if owner is None and pod in self.pods:
            owner = self.ledger.pod_workload[self.pods[pod]]
        if event is not None and owner is not None:
            self.ledger.name_preemptor(*event, owner)

    def _first(self, thing: int, stage: int, stamp: int) -> bool:
        column = self._at[stage]
        if thing >= len(column):
            column.extend(array("q", (_NEVER,)) * (thing + 1 - len(column)))
        elif column[thing] != _NEVER:
            return False
        column[thing] = stamp - self.epoch
        return True

    def _note(self, said: str | None, thing: int, stage: int) -> None:
        if self.doubt and said:
            at, source = time_sources.said(said)
            self.ledger.note(at - self.wall_epoch, thing, stage, source)

    def _keep(self, workload: str, again: Callable[[], None]) -> None:
        """Keeps an event: a watch may be faster than `submitted.jsonl`, which is written after the server's answer."""
        if self.early is not None and (workload in self.early or len(self.early) < MOST_EARLY):
            doubt = self.doubt

            def with_doubt() -> None:
                now, self.doubt = self.doubt, doubt
                again()
                self.doubt = now

            self.early.setdefault(workload, []).append(with_doubt)


Handle = Callable[[Observer, int, str, Any], None]


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch of one kind of objects. `labelled`: select by our labels, which objects of the stack's controller lack."""

    resource: Resource
    shape: type[Any]
    handle: Handle
    labelled: bool = True


def see_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
    """Records what a Job shows."""
    name = job.metadata.labels.get(WORKLOAD_LABEL, job.metadata.name)
    source = source_of(event)
    if event == DELETED:
        if not observer.has(name, "completed") and not observer.has(name, "failed"):
            observer.workload(name, "deleted", stamp, source)
        return
    observer.workload(name, "created", stamp, source, job.metadata.creation_timestamp)
    for one in job.status.conditions:
        if one.status == "True" and one.type in ("Complete", "Failed"):
            stage = "completed" if one.type == "Complete" else "failed"
            observer.workload(name, stage, stamp, source, one.last_transition_time)


def see_pod(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """Records what a pod shows. Stages that a gap has hidden are recorded with their possible error."""
    meta, node, phase = pod.metadata, pod.spec.node_name, pod.status.phase
    name, uid, workload = meta.name, meta.uid, meta.labels.get(WORKLOAD_LABEL, "")
    # Failed is not finished: the kubelet refused or evicted it, its container crashed, or the pod garbage collector takes it from a
    # node that is gone. The Job creates another, or fails.
    if (event == DELETED and not observer.doubt) or phase == "Failed":
        observer.pod_gone(pod, stamp)
        return
    observer.displacements.sees(pod, workload, stamp)
    source = source_of(event)
    bound, started, finished = _said(pod) if observer.doubt else ("", "", "")
    observer.pod(name, workload, "pods_created", stamp, source=source, said=meta.creation_timestamp, uid=uid)
    if node:
        observer.pod(name, workload, "scheduled", stamp, node, source, bound, uid)
    if phase in ("Running", "Succeeded"):
        observer.pod(name, workload, "running", stamp, node, source, started, uid)
    if phase == "Succeeded":
        observer.pod(name, workload, "finished", stamp, node, source, finished, uid)
    if event == DELETED:
        observer.pod_gone(pod, stamp)


def _said(pod: Pod) -> tuple[str, str, str]:
    """The pod's own timestamps: when it was bound, and when its last container started and finished."""
    bound = condition(pod.status.conditions, "PodScheduled")
    started, finished = [""], [""]
    for status in pod.status.container_statuses:
        ran = status.state.running or status.state.terminated
        started.append(ran.started_at or "" if ran else "")
        finished.append(status.state.terminated.finished_at or "" if status.state.terminated else "")
    return (bound.last_transition_time or "" if bound else ""), max(started), max(finished)


def source_of(event: str) -> int:
    """The time source of an event."""
    return time_sources.LISTED if event == LISTED else time_sources.WATCH


PLAIN_WATCHES = (Watch(JOBS, Job, see_job), Watch(PODS, Pod, see_pod))
