"""Turns what watches show into transitions, each object and stage once.

Objects are found by their labels: everything we create says which workload it belongs to. Stacks bring watches of their own
kinds; Jobs and pods are the same everywhere and stand here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Job, Pod, condition
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe import sources
from seatrial.record.ledger import Ledger

_ENDED = ("Succeeded", "Failed")
_NEVER = -(2**63)
MOST_EARLY = 100_000  # workloads: those nobody ever tells us of are not ours


class Observer:
    """Knows every workload, pod and node by name and what each has reached. Times are the client's clock; `epoch` is 0.

    When a thing reached a stage stands in one array per stage: with a dict entry and a set per pod, 100,000 pods took 190 MB
    more.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.epoch = 0
        self.wall_epoch = 0  # the same moment on the wall clock
        self.workloads: dict[str, int] = {}
        self.pods: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.interactive: set[str] = set()  # they stay until they are deleted: they have completed when they run
        self.failures: dict[str, int] = {}  # why workloads could not be submitted → how many
        self.places: dict[int, int] = {}  # pod → node
        self.said: dict[int, str] = {}  # workload → why it waits, in the words of its queue
        self.troubles: dict[str, None] = {}  # what a part of the stack says it cannot do
        self.alive = 0  # when this process was last known to run; 0: nobody looks
        self.doubt = 0  # ms that what is seen now may have been so for: after a gap, or in a list
        self.early: dict[str, list[Callable[[], None]]] | None = (
            None  # what is seen of workloads not known yet, if kept
        )
        self._number = ledger.number
        self._at = [array("q") for _ in ledger.stages]
        self._of_pods = [n for n, stage in enumerate(ledger.stages) if stage.of == "pod"]

    def when(self, thing: int, stage: int) -> int | None:
        """When the workload or pod reached the stage, in ns since the epoch."""
        column = self._at[stage]
        return None if thing >= len(column) or column[thing] == _NEVER else column[thing]

    def knows(self, name: str, number: int) -> None:
        """A workload that somebody else submits; what was seen of it before counts now."""
        self.workloads[name] = number
        for again in (self.early or {}).pop(name, ()):
            again()

    def node(self, name: str) -> int:
        if name not in self.nodes:
            self.nodes[name] = self.ledger.node(name)
        return self.nodes[name]

    def workload(self, name: str, stage: str, stamp: int, source: int = sources.WATCH, said: str | None = "") -> None:
        """`said` is when it was so by the object itself: coarse, but good where we came late."""
        workload = self.workloads.get(name)
        number = self._number.get(stage)
        if workload is None:
            self._keep(name, lambda: self.workload(name, stage, stamp, source, said))
        elif number is not None and self._first(workload, number, stamp):
            self.ledger.move(stamp - self.epoch, workload, number, self.doubt, source)
            self._note(said, workload, number)

    def says(self, name: str, text: str) -> None:
        """Why a workload waits; empty when it does no longer."""
        workload = self.workloads.get(name)
        if workload is not None:
            self.said[workload] = text

    def trouble(self, text: str) -> None:
        self.troubles[text] = None

    def well(self, beginning: str) -> None:
        """Troubles that begin like this are over."""
        for text in [text for text in self.troubles if text.startswith(beginning)]:
            del self.troubles[text]

    def reached(self, pod: int) -> list[int]:
        """The stages of a pod that is not gone."""
        return [stage for stage in self._of_pods if self.when(pod, stage) is not None]

    def has(self, name: str, stage: str) -> bool:
        workload = self.workloads.get(name)
        return workload is not None and self.when(workload, self._number[stage]) is not None

    def pod(
        self, name: str, workload: str, stage: str, stamp: int, node: str = "", source: int = sources.WATCH,
        said: str | None = "", uid: str = "",
    ) -> None:  # fmt: skip
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
            stays = stage == "running" and workload in self.interactive
            if stays and self.ledger.has_reached(self.ledger.pod_workload[pod], number):
                self.workload(workload, "completed", stamp, source, said)

    def pod_gone(self, name: str, stamp: int) -> None:
        """It counts as lost unless it finished, or its workload is over."""
        pod = self.pods.get(name)
        if pod is None:
            return
        over = self.when(self.ledger.pod_workload[pod], self._number["completed"]) is not None
        if self.when(pod, self._number["finished"]) is None and not over:
            self.ledger.lose_pod(stamp - self.epoch, pod, self.reached(pod))
            del self.pods[name]

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
            at, source = sources.said(said)
            self.ledger.note(at - self.wall_epoch, thing, stage, source)

    def _keep(self, workload: str, again: Callable[[], None]) -> None:
        """A watch may be faster than the line in `submitted.jsonl`, which is written after the server's answer."""
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
    """One kind of object that a stack wants watched: where it is, what is read of it, what it means.

    What the stack's own controller makes in our namespace may be without our labels.
    """

    resource: Resource
    shape: type[Any]
    handle: Handle
    labelled: bool = True


def see_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
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
    """A stage that was never shown (a list after a gap shows only the last) is recorded with the doubt there is."""
    meta, node, phase = pod.metadata, pod.spec.node_name, pod.status.phase
    name, uid, workload = meta.name, meta.uid, meta.labels.get(WORKLOAD_LABEL, "")
    if event == DELETED and not observer.doubt:
        observer.pod_gone(name, stamp)
        return
    source = source_of(event)
    bound, started, finished = _said(pod) if observer.doubt else ("", "", "")
    observer.pod(name, workload, "pods_created", stamp, source=source, said=meta.creation_timestamp, uid=uid)
    if node:
        observer.pod(name, workload, "scheduled", stamp, node, source, bound, uid)
    if phase == "Running" or phase in _ENDED:
        observer.pod(name, workload, "running", stamp, node, source, started, uid)
    if phase in _ENDED:
        observer.pod(name, workload, "finished", stamp, node, source, finished, uid)
    if event == DELETED:
        observer.pod_gone(name, stamp)


def _said(pod: Pod) -> tuple[str, str, str]:
    """When it was bound, and its last container started and finished, in its own words."""
    bound = condition(pod.status.conditions, "PodScheduled")
    started, finished = [""], [""]
    for status in pod.status.container_statuses:
        ran = status.state.running or status.state.terminated
        started.append(ran.started_at or "" if ran else "")
        finished.append(status.state.terminated.finished_at or "" if status.state.terminated else "")
    return (bound.last_transition_time or "" if bound else ""), max(started), max(finished)


def source_of(event: str) -> int:
    return sources.LISTED if event == LISTED else sources.WATCH


PLAIN_WATCHES = (Watch(JOBS, Job, see_job), Watch(PODS, Pod, see_pod))
