"""Created objects that stand for pods: what their controllers do, each step a request through the controller's own bucket.

The pods compete with those of workloads for the scheduler, its bucket, the nodes and KWOK; they run until they are deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from seatrial.model.plan import PodShape
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.pods import BOUND
from seatrial.sim.world import Sim


def _nobody_waits(_: str) -> None:
    """For counts that change before there is a wait."""


class PodOwner:
    """A Deployment, or whatever else stands for pods."""

    __slots__ = ("available", "gone", "kind", "made", "name", "number", "phase", "pods", "running", "shape", "wanted")

    def __init__(self, name: str, phase: str, kind: str, wanted: int, shape: PodShape) -> None:
        self.name, self.phase, self.kind, self.wanted, self.shape = name, phase, kind, wanted, shape
        self.number = -1
        self.pods: list[OwnedPod] = []  # those that exist
        self.made = self.running = 0
        self.available = self.gone = False


class OwnedPod:
    """When it was what; None: it was not."""

    __slots__ = ("created", "doomed", "ending", "gone", "name", "number", "owner", "running", "scheduled")

    def __init__(self, owner: PodOwner, name: str, number: int, created: int) -> None:
        self.owner, self.name, self.number, self.created = owner, name, number, created
        self.scheduled: int | None = None
        self.running: int | None = None
        self.gone: int | None = None
        self.doomed = self.ending = False  # the garbage collector deletes it; the server knows


class Deployments:
    """`changed(phase)` is told whenever a count of that phase changes."""

    def __init__(self, sim: Sim) -> None:
        self._sim, self._kernel, self._api = sim, sim.kernel, sim.api
        sim.owners = self
        self.changed: Callable[[str], None] = _nobody_waits
        manager = sim.settings["kube-controller-manager"]
        limits = float(manager["qps"]), float(manager["burst"])
        self._deployments = ApiClient("deployment-controller", *limits)
        self._sets = ApiClient("replicaset-controller", *limits)
        self._collector = ApiClient("garbage-collector", *limits)
        self.available: Counter[str] = Counter()  # by phase, as all of these
        self.pods: Counter[str] = Counter()
        self.running_pods: Counter[str] = Counter()
        self.all: list[OwnedPod] = []
        self._owners = 0  # so far
        self._by_number: dict[int, OwnedPod] = {}  # those that exist

    def add(self, owner: PodOwner) -> None:
        """The object was created: its controller makes the pods."""
        owner.number = self._owners
        self._owners += 1
        if owner.kind == "Pod":
            self._pod_made(owner)
        elif owner.kind == "Deployment":
            self._api.call(self._deployments, WRITE, self._make_pods, owner)
        else:
            self._make_pods(owner)

    def remove(self, owner: PodOwner) -> None:
        """The object is deleted; the garbage collector finds its pods one by one, a Deployment's by way of its ReplicaSet."""
        owner.gone = True
        self._is_unavailable(owner)
        if owner.kind == "Pod":
            self._delete_pods(owner)
        else:
            self._api.call(self._collector, WRITE, self._delete_pods, owner)

    def _make_pods(self, owner: PodOwner) -> None:
        for _ in range(owner.wanted):
            self._api.call(self._sets, WRITE, self._pod_made, owner)

    def _pod_made(self, owner: PodOwner) -> None:
        number = self._sim.add_pod(owner.number, owner.shape)
        pod = OwnedPod(owner, f"{owner.name}-{owner.made}", number, self._kernel.now)
        owner.made += 1
        owner.pods.append(pod)
        self.all.append(pod)
        self._by_number[number] = pod
        self.pods[owner.phase] += 1
        self.changed(owner.phase)
        if owner.gone:
            self._delete_one(pod)

    # what the world says of the pods

    def scheduled(self, pod: int) -> bool:
        """The pod is bound; false if it is being deleted."""
        owned = self._by_number[pod]
        owned.scheduled = self._kernel.now
        return not owned.ending

    def running(self, pod: int) -> None:
        """The pod runs, and with the last of them its Deployment is available."""
        owned = self._by_number[pod]
        owner = owned.owner
        if owned.ending:
            return
        owned.running = self._kernel.now
        owner.running += 1
        self.running_pods[owner.phase] += 1
        self.changed(owner.phase)
        if owner.running == owner.wanted and owner.kind == "Deployment":
            self._api.call(self._deployments, WRITE, self._is_available, owner)

    def lost(self, pod: int) -> None:
        """The pod is gone with its node: its controller makes another."""
        owned = self._by_number[pod]
        owner = owned.owner
        self._forget(owned)
        if owner.kind != "Pod" and not owner.gone:
            self._is_unavailable(owner)
            self._api.call(self._sets, WRITE, self._pod_made, owner)

    def _is_available(self, owner: PodOwner) -> None:
        if not owner.gone and not owner.available and owner.running == owner.wanted:
            owner.available = True
            self.available[owner.phase] += 1
            self.changed(owner.phase)

    def _is_unavailable(self, owner: PodOwner) -> None:
        if owner.available:
            owner.available = False
            self.available[owner.phase] -= 1
            self.changed(owner.phase)

    # the end of pods

    def _delete_pods(self, owner: PodOwner) -> None:
        for pod in list(owner.pods):
            self._delete_one(pod)

    def _delete_one(self, pod: OwnedPod) -> None:
        if not pod.doomed:
            pod.doomed = True
            self._api.call(self._collector, WRITE, self._ends, pod)

    def _ends(self, pod: OwnedPod) -> None:
        """A pod without a node is gone at once; others when KWOK lets them go."""
        pod.ending = True
        if pod.gone is None and self._sim.pods.state[pod.number] < BOUND:
            self._pod_gone(pod)
        elif pod.gone is None:
            self._sim.kwok.play(pod, 0, self._pod_gone)

    def _pod_gone(self, pod: OwnedPod) -> None:
        if pod.gone is None:
            self._sim.scheduler.delete(pod.number)
            self._forget(pod)

    def _forget(self, pod: OwnedPod) -> None:
        owner = pod.owner
        pod.gone = self._kernel.now
        owner.pods.remove(pod)
        del self._by_number[pod.number]
        self.pods[owner.phase] -= 1
        if pod.running is not None:
            owner.running -= 1
            self.running_pods[owner.phase] -= 1
        self.changed(owner.phase)
