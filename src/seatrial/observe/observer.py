"""Turns what watches show into transitions, each object and stage once.

Objects are found by their labels: everything we create says which workload it belongs to. Stacks bring watches of their own
kinds; Jobs and pods are the same everywhere and stand here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Job, Pod
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe import sources
from seatrial.record.ledger import Ledger

_ENDED = ("Succeeded", "Failed")


class Observer:
    """Knows every workload, pod and node by name and what each has reached. Times are the client's clock; `epoch` is 0."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.epoch = 0
        self.workloads: dict[str, int] = {}
        self.pods: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.interactive: set[str] = (
            set()
        )  # workloads that stay until they are deleted: they have completed when they run
        self.failures: dict[str, int] = {}  # why workloads could not be submitted → how many
        self.seen: dict[tuple[int, int], int] = {}  # (workload or pod, stage) → ns since the epoch
        self.places: dict[int, int] = {}  # pod → node
        self.said: dict[int, str] = {}  # workload → why it waits, in the words of its queue
        self.troubles: dict[str, None] = {}  # what a part of the stack says it cannot do
        self._reached: set[int] = set()
        self._pod_reached: dict[int, set[int]] = {}
        self._number = ledger.number
        self._stages = len(ledger.stages)

    def node(self, name: str) -> int:
        if name not in self.nodes:
            self.nodes[name] = self.ledger.node(name)
        return self.nodes[name]

    def workload(self, name: str, stage: str, stamp: int, source: int = sources.WATCH) -> None:
        workload = self.workloads.get(name)
        number = self._number.get(stage)
        if workload is None or number is None:
            return
        key = workload * self._stages + number
        if key not in self._reached:
            self._reached.add(key)
            self.seen[workload, number] = stamp - self.epoch
            self.ledger.move(stamp - self.epoch, workload, number, source=source)

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

    def reached(self, pod: int) -> set[int]:
        """The stages of a pod that is not gone."""
        return self._pod_reached[pod]

    def has(self, name: str, stage: str) -> bool:
        return self.workloads.get(name, -1) * self._stages + self._number[stage] in self._reached

    def pod(
        self, name: str, workload: str, stage: str, stamp: int, node: str = "", source: int = sources.WATCH
    ) -> None:
        pod = self.pods.get(name)
        if pod is None:
            owner = self.workloads.get(workload)
            if owner is None:
                return
            pod = self.pods[name] = self.ledger.pod(owner, name)
            self._pod_reached[pod] = set()
        number, reached = self._number[stage], self._pod_reached[pod]
        if number not in reached:
            reached.add(number)
            self.seen[pod, number] = stamp - self.epoch
            if node:
                self.places[pod] = self.node(node)
            self.ledger.move_pod(stamp - self.epoch, pod, number, self.places.get(pod, -1), source=source)
            stays = stage == "running" and workload in self.interactive
            if stays and self.ledger.has_reached(self.ledger.pod_workload[pod], number):
                self.workload(workload, "completed", stamp, source)

    def pod_gone(self, name: str, stamp: int) -> None:
        """It counts as lost unless it finished, or its workload is over."""
        pod = self.pods.get(name)
        if pod is None:
            return
        reached = self._pod_reached[pod]
        over = self.ledger.pod_workload[pod] * self._stages + self._number["completed"] in self._reached
        if self._number["finished"] not in reached and not over:
            self.ledger.lose_pod(stamp - self.epoch, pod, reached)
            reached.clear()
            del self.pods[name]


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
    source = sources.LISTED if event == LISTED else sources.WATCH
    if event == DELETED:
        if not observer.has(name, "completed") and not observer.has(name, "failed"):
            observer.workload(name, "deleted", stamp, source)
        return
    observer.workload(name, "created", stamp, source)
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            observer.workload(name, "completed" if condition.type == "Complete" else "failed", stamp, source)


def see_pod(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """A stage that was never shown (a list after a gap shows only the last) is recorded with the list's error."""
    name, node, phase = pod.metadata.name, pod.spec.node_name, pod.status.phase
    workload = pod.metadata.labels.get(WORKLOAD_LABEL, "")
    if event == DELETED:
        observer.pod_gone(name, stamp)
        return
    source = sources.LISTED if event == LISTED else sources.WATCH
    observer.pod(name, workload, "pods_created", stamp, source=source)
    if node:
        observer.pod(name, workload, "scheduled", stamp, node, source)
    if phase == "Running" or phase in _ENDED:
        observer.pod(name, workload, "running", stamp, node, source)
    if phase in _ENDED:
        observer.pod(name, workload, "finished", stamp, node, source)


PLAIN_WATCHES = (Watch(JOBS, Job, see_job), Watch(PODS, Pod, see_pod))
