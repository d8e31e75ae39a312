"""Objects that stand for pods, as the controller manager, the scheduler and KWOK see them: each step a request of its own.

Only the requests are played, through each component's own bucket: these pods take no room on nodes, and every one of them fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from seatrial.model.plan import Scalar, Span
from seatrial.sim.api import WRITE, ApiServer, Client
from seatrial.sim.fakes import Kwok
from seatrial.sim.kernel import Kernel

Settings = Mapping[str, Mapping[str, Scalar]]


def _nobody_waits(_: str) -> None:
    """For counts that change before there is a wait."""


class Owner:
    """A Deployment, or whatever else stands for pods."""

    __slots__ = ("available", "gone", "kind", "name", "phase", "pods", "running", "wanted")

    def __init__(self, name: str, phase: str, kind: str, wanted: int) -> None:
        self.name, self.phase, self.kind, self.wanted = name, phase, kind, wanted
        self.pods: list[OwnedPod] = []
        self.running = 0
        self.available = self.gone = False


class OwnedPod:
    """When it was what; None: it was not."""

    __slots__ = ("created", "gone", "name", "owner", "running", "scheduled")

    def __init__(self, owner: Owner, name: str, created: int) -> None:
        self.owner, self.name, self.created = owner, name, created
        self.scheduled: int | None = None
        self.running: int | None = None
        self.gone: int | None = None


class Owners:
    """`delays` says how long a pod takes from being bound to running, None: there is no node for it. `changed(phase)` is told
    whenever a count of that phase changes."""

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        kwok: Kwok,
        settings: Settings,
        delays: Callable[[], Span | None],
    ) -> None:
        self._kernel, self._api, self._kwok, self._delays = kernel, api, kwok, delays
        self.changed: Callable[[str], None] = _nobody_waits
        manager = settings["kube-controller-manager"]
        limits = float(manager["qps"]), float(manager["burst"])
        self._deployments = Client("deployment-controller", *limits)
        self._sets = Client("replicaset-controller", *limits)
        self._collector = Client("garbage-collector", *limits)
        scheduler = settings["kube-scheduler"]
        self._scheduler = Client("kube-scheduler", float(scheduler["qps"]), float(scheduler["burst"]))
        self._cycle, self._free = int(scheduler["cycle"]), 0
        self.available: Counter[str] = Counter()  # by phase, as all of these
        self.pods: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.all: list[OwnedPod] = []

    def add(self, owner: Owner) -> None:
        if owner.kind == "Pod":
            self._pod_made(owner)
        elif owner.kind == "Deployment":
            self._api.call(self._deployments, WRITE, self._make_pods, owner)
        else:
            self._make_pods(owner)

    def remove(self, owner: Owner) -> None:
        """The object is deleted; the garbage collector finds its pods one by one, a Deployment's by way of its ReplicaSet."""
        owner.gone = True
        if owner.available:
            self.available[owner.phase] -= 1
            self.changed(owner.phase)
        if owner.kind == "Pod":
            self._delete_pods(owner)
        else:
            self._api.call(self._collector, WRITE, self._delete_pods, owner)

    def _make_pods(self, owner: Owner) -> None:
        for _ in range(owner.wanted):
            self._api.call(self._sets, WRITE, self._pod_made, owner)

    def _pod_made(self, owner: Owner) -> None:
        pod = OwnedPod(owner, f"{owner.name}-{len(owner.pods)}", self._kernel.now)
        owner.pods.append(pod)
        self.all.append(pod)
        self.pods[owner.phase] += 1
        self.changed(owner.phase)
        if owner.gone:
            self._delete_one(pod)
            return
        self._free = max(self._free, self._kernel.now) + self._cycle
        self._kernel.at(self._free, self._bind, pod)

    def _bind(self, pod: OwnedPod) -> None:
        """Without a node that takes pods it stays where it is."""
        delays = self._delays()
        if delays is not None:
            self._api.call(self._scheduler, WRITE, self._bound, (pod, delays))

    def _bound(self, what: tuple[OwnedPod, Span]) -> None:
        pod, delays = what
        pod.scheduled = self._kernel.now
        if not pod.owner.gone:
            self._kwok.play(pod, self._kwok.drawn(delays), self._runs)

    def _runs(self, pod: OwnedPod) -> None:
        owner = pod.owner
        if owner.gone:
            return
        pod.running = self._kernel.now
        owner.running += 1
        self.running[owner.phase] += 1
        self.changed(owner.phase)
        if owner.running == owner.wanted and owner.kind == "Deployment":
            self._api.call(self._deployments, WRITE, self._is_available, owner)

    def _is_available(self, owner: Owner) -> None:
        if not owner.gone:
            owner.available = True
            self.available[owner.phase] += 1
            self.changed(owner.phase)

    def _delete_pods(self, owner: Owner) -> None:
        for pod in list(owner.pods):
            self._delete_one(pod)

    def _delete_one(self, pod: OwnedPod) -> None:
        self._api.call(self._collector, WRITE, self._ends, pod)

    def _ends(self, pod: OwnedPod) -> None:
        self._kwok.play(pod, 0, self._pod_gone)

    def _pod_gone(self, pod: OwnedPod) -> None:
        phase = pod.owner.phase
        pod.gone = self._kernel.now
        self.pods[phase] -= 1
        if pod.running is not None:
            self.running[phase] -= 1
        self.changed(phase)
