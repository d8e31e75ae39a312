"""A simulated cluster put together: what a pod passes from its creation to its end, and who is told.

Each mechanism is a part with callbacks; this module is only the wiring between them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from seatrial.model import lifecycle
from seatrial.model.barrier import Barrier
from seatrial.model.fleet import Fleet
from seatrial.model.interfaces import Tally
from seatrial.model.load import Load
from seatrial.model.plan import NodeGroup, PodShape, Workload
from seatrial.model.randomness import scalars, stream_seed
from seatrial.model.settings import Settings
from seatrial.model.units import SECOND
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions
from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.checkpoints import Checkpoints
from seatrial.sim.closed_loop_client import ClosedLoopClient
from seatrial.sim.framework import NODE
from seatrial.sim.job_controller import JobController
from seatrial.sim.kernel import Kernel
from seatrial.sim.kubelets import Kubelets
from seatrial.sim.kwok_stages import Kwok
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import Pods
from seatrial.sim.resource_quotas import ADMISSION_WRITE, ResourceQuotas
from seatrial.sim.scheduler import Around, Scheduler
from seatrial.sim.state_view import StateView
from seatrial.sim.submitting_client import FASTEST, SubmittingClient
from seatrial.sim.workload_places import WorkloadPlaces

EVICTED_AFTER = 300 * SECOND  # what DefaultTolerationSeconds lets pods stay on a node that is not ready
S = TypeVar("S", bound=Scheduler)


class PodOwners(Protocol):
    """Told of the pods that are no workload's: see `Sim.add_pod`."""

    def scheduled(self, pod: int) -> bool:
        """The pod is bound; false if it is being deleted, so that nobody starts it."""

    def running(self, pod: int) -> None:
        """The pod runs."""

    def lost(self, pod: int) -> None:
        """The pod is gone with its node."""


class Sim:
    """`deliver` takes each workload once the server has created it: a stack's model sets it."""

    def __init__(
        self,
        kernel: Kernel,
        ledger: Ledger,
        submissions: Submissions,
        settings: Settings,
        resources: list[str],
        seed: int,
        client_rate: float | None = None,
        api: ApiServer | None = None,
        has_gangs: bool = True,
        fleet: Fleet | None = None,
    ) -> None:
        self.fleet = fleet or Fleet()
        self.has_gangs = has_gangs  # whether any workload may be one
        self.kernel, self.ledger, self.settings, self.seed = kernel, ledger, settings, seed
        self._submissions = submissions
        self.api = api or ApiServer(kernel, stream_seed(seed, {}, 0, "api"))
        self.nodes = Nodes(resources, self.stream("nodes"))
        self.pods = Pods()
        self.workloads: list[Workload] = []
        self.places = WorkloadPlaces(kernel, ledger, self.pods, self.workloads, self.pods_of)
        self._over = bytearray()  # per workload
        self.scheduler: Scheduler = self.schedule_with(Scheduler)
        self.jobs = JobController(
            kernel, self.api, settings["kube-controller-manager"], self._create_pod, self._completed, self._active_pods, self._lose
        )  # fmt: skip
        self.deliver: Callable[[int, Workload], None] = self.jobs.add
        self.when_running: list[Callable[[int], None]] = []  # called with the pod
        self.when_completed: list[Callable[[int], None]] = []
        self.when_deleted: list[Callable[[int], None]] = []
        self.when_nodes_change: list[Callable[[], None]] = []  # come or go, that is
        self.when_pod_ends: list[Callable[[int], None]] = []  # finished or gone; called with the workload
        self.gated: Callable[[int], bool] = lambda _: False  # new pods that a stack hands to the scheduler later
        self.owners: PodOwners  # set before the first `add_pod`
        self.said: dict[int, str] = {}  # workload → why it waits, in the words of its queue
        self.kwok = Kwok(kernel, self.api, settings["kwok"], self.stream("kwok"))
        self._kubelets = Kubelets(kernel, settings["kubelet"], self.stream("kubelets"))
        self._bucket = ApiClient("seatrial", client_rate or FASTEST, 1)
        self._barrier = Barrier()
        self._checkpoints = Checkpoints()
        self.pod_shapes: dict[int, PodShape] = {}  # workload → shape of its pods where a queue adds a node selector
        self._terminating: set[int] = set()  # deleted by kube-scheduler, and not gone yet
        self._due: dict[int, int] = {}  # gangs: when the application will have run its time
        self._ends_at: dict[int, int] = {}  # workloads: when the last of what runs should end
        self._job_pods: dict[int, list[int]] = {}
        self._unready: dict[int, int] = {}  # node → since when
        self._removed: set[int] = set()
        self.view = StateView(kernel, ledger, self.nodes, self.pods, self.workloads, self._over, self._job_pods, self.said,
                              self._ends_at, self._removed)  # fmt: skip
        number = ledger.number
        self._submitted, self._created = number[lifecycle.SUBMITTED.name], number[lifecycle.CREATED.name]
        self._pods_created, self._scheduled = number[lifecycle.PODS_CREATED.name], number[lifecycle.SCHEDULED.name]
        self._running, self._finished = number[lifecycle.RUNNING.name], number[lifecycle.FINISHED.name]
        self._complete, self._deleted = number[lifecycle.COMPLETED.name], number[lifecycle.DELETED.name]

    def _stirs(self) -> None:
        self.ledger.stirred = self.kernel.now

    def stream(self, name: str) -> Random:
        """A random stream of a part's own."""
        return scalars(stream_seed(self.seed, {}, 0, name))

    def schedule_with(self, kind: Callable[[Around], S]) -> S:
        """A stack's own kind of scheduler in the place of the plain one, before there is anything to schedule."""
        settings = self.settings["kube-scheduler"]
        random = self.stream("preemption")
        parts = Around(self.kernel, self.api, self.nodes, self.pods, settings, self._bound, random)
        self.scheduler = made = kind(parts)
        made.sends_back = self._stirs
        made.preemption.delete, made.preemption.evicted = self.delete_pod, self.places.preempted
        return made

    def limit_queues(self) -> None:
        """A ResourceQuota per queue of the fleet, for a stack without queues of its own."""
        if self.fleet.queues:
            manager = self.settings["kube-controller-manager"]
            quotas = ResourceQuotas(self.kernel, self.api, manager, self.fleet.queues, self.workloads, self.said)
            self.jobs.admits, self.jobs.pod_webhooks = quotas.admits, ADMISSION_WRITE
            self.when_pod_ends.append(quotas.ended)

    # nodes

    def add_nodes(self, group: NodeGroup) -> list[int]:
        """Adds the nodes of a group; returns their numbers."""
        added = []
        for index in range(group.count):
            node = self.nodes.add(group)
            assert self.ledger.node(f"{group.name}-{index}") == node
            added.append(node)
        self.scheduler.queue.moved(NODE)
        for call in self.when_nodes_change:
            call()
        return added

    def remove_node(self, node: int) -> None:
        """The node is gone, and its pods with it: their Jobs make others."""
        self.nodes.close(node)
        self._removed.add(node)
        self._lose_pods_of(node)

    def _lose_pods_of(self, node: int) -> None:
        alive = (pod_state.BOUND, pod_state.RUNNING, pod_state.ASSUMED)
        lost = [pod for pod, at in enumerate(self.pods.node) if at == node and self.pods.state[pod] in alive]
        self.places.node_gone(lost, node)
        for pod in lost:
            self._lose(pod)
        for call in self.when_nodes_change:
            call()

    def unready(self, node: int) -> None:
        """Makes the node NotReady: it takes no pods, and its pods are evicted unless it is back in time."""
        self.nodes.close(node)
        self._unready[node] = self.kernel.now
        self.kernel.at(self.kernel.now + EVICTED_AFTER, self._evict, (node, self.kernel.now))

    def ready(self, node: int) -> None:
        """The node takes pods again."""
        self._unready.pop(node, None)
        self.nodes.open(node)
        self.scheduler.queue.moved(NODE)

    def _evict(self, what: tuple[int, int]) -> None:
        node, since = what
        if self._unready.get(node) == since:
            self._lose_pods_of(node)

    # submitting

    def submit(self, load: Load, done: Callable[[Tally], None]) -> None:
        """Submits a load; `done(tally)` after the last answer."""
        phase = self.ledger.phase(load.phase)

        def send(workload: Workload) -> int:
            number = self.ledger.workload(phase, workload.pods)
            self.workloads.append(workload)
            self._over.append(0)
            self._submissions.add(number, workload, self.kernel.now)
            self.ledger.move(self.kernel.now, number, self._submitted)
            return number

        if load.after is None:
            SubmittingClient(self.kernel, self.api, self._bucket, load, send, self._create, done).begin()
            return
        loop = ClosedLoopClient(self.kernel, self.api, self._bucket, load, send, self._create, done)
        loop.begin(self.ledger.tell_ends)

    def _create(self, number: int) -> None:
        self.ledger.move(self.kernel.now, number, self._created)
        self.deliver(number, self.workloads[number])

    def delete(self, number: int) -> None:
        """Deletes a workload that is not complete, with its pods; one call by the client."""
        self.api.call(ApiClient("seatrial"), WRITE, self._is_deleted, number)

    def _is_deleted(self, number: int) -> None:
        for pod in self._job_pods.pop(number, ()):
            if self.pods.state[pod] not in (pod_state.FINISHED, pod_state.GONE):
                self.scheduler.delete(pod)
                for call in self.when_pod_ends:
                    call(number)
        self.jobs.remove(number)
        self._is_over(number)
        if not self.ledger.has_reached(number, self._complete):
            self.ledger.move(self.kernel.now, number, self._deleted)
        for call in self.when_deleted:
            call(number)

    def _is_over(self, number: int) -> None:
        self._over[number] = 1
        self.view.forget(number)
        if self.workloads[number].checkpoint:
            self._checkpoints.forget(number)

    def reach(self, number: int, stage: lifecycle.Stage) -> None:
        """Records that the workload reached the stage now, unless it did before."""
        if not self.ledger.has_reached(number, self.ledger.number[stage.name]):
            self.ledger.move(self.kernel.now, number, self.ledger.number[stage.name])
            if stage is lifecycle.FAILED:
                self._is_over(number)

    def capacity(self) -> dict[str, int]:
        """The total of the existing nodes."""
        nodes = self.nodes
        return {name: sum(nodes.capacity[column][node] for node in range(len(nodes)) if nodes.is_open(node))
                for column, name in enumerate(nodes.resources)}  # fmt: skip

    def pods_of(self, job: int) -> list[int]:
        """The pods of a Job that is not complete."""
        return self._job_pods.get(job, [])

    def _active_pods(self, job: int) -> list[int]:
        return [pod for pod in self.pods_of(job) if self.pods.state[pod] < pod_state.FINISHED]

    # the life of a pod

    def _create_pod(self, job: int) -> None:
        workload = self.workloads[job]
        siblings = self._job_pods.setdefault(job, [])
        recorded = self.ledger.pod(job, f"{workload.name}-{len(siblings)}")
        pod = self.pods.add(job, self.pod_shapes.get(job, workload.shape), recorded)
        siblings.append(pod)
        self.ledger.move_pod(self.kernel.now, recorded, self._pods_created)
        if not self.gated(pod):
            self.scheduler.add(pod, alone=True)

    def add_pod(self, owner: int, shape: PodShape) -> int:
        """Adds a pod of a created object: it competes with all others for nodes, and `owners` hears of it instead of the ledger."""
        pod = self.pods.add(-1 - owner, shape)
        self.scheduler.add(pod)
        return pod

    def _bound(self, pod: int) -> None:
        node = self.pods.node[pod]
        group = self.nodes.groups[node]
        if self.pods.job[pod] >= 0:
            self.ledger.move_pod(self.kernel.now, self.pods.recorded[pod], self._scheduled, node)
            self.jobs.pod_changed(self.pods.job[pod])
            if self.ledger.evicted:
                self.places.bound(self.pods.job[pod])
        elif not self.owners.scheduled(pod):
            return
        if group.kubelet:
            self._kubelets.start(pod, node, self.nodes.capacity[0][node] / 1000, self._runs, group.runtime)
        elif group.create.most or group.create.least:
            self.kwok.play(pod, self.kwok.drawn(group.create), self._container_created)
        else:
            self.kwok.play(pod, self.kwok.drawn(group.start), self._runs)

    def _container_created(self, pod: int) -> None:
        if self.pods.state[pod] == pod_state.BOUND:
            self.pods.started[pod] = self.kernel.now
            if self.pods.job[pod] >= 0:
                self.jobs.pod_changed(self.pods.job[pod])
            start = self.nodes.groups[self.pods.node[pod]].start
            self.kwok.play(pod, self.kwok.drawn(start), self._runs)

    def _runs(self, pod: int) -> None:
        if self.pods.state[pod] != pod_state.BOUND or pod in self._terminating:
            return
        self.pods.state[pod] = pod_state.RUNNING
        if not self.pods.started[pod]:
            self.pods.started[pod] = self.kernel.now
        job = self.pods.job[pod]
        if job < 0:
            self.owners.running(pod)
            return
        self.ledger.move_pod(self.kernel.now, self.pods.recorded[pod], self._running, self.pods.node[pod])
        self.jobs.pod_ready(job)
        for call in self.when_running:
            call(pod)
        workload = self.workloads[job]
        duration = workload.duration
        if not workload.gang:
            if workload.checkpoint:
                duration = self._checkpoints.pod_starts(pod, job, workload, self.kernel.now)
            self._run(pod, duration)
        elif self._barrier.runs(job, workload.pods):
            if workload.checkpoint:
                duration = self._checkpoints.gang_starts(job, workload, self.kernel.now)
            self._due[job] = self.kernel.now + duration
            for sibling in self._job_pods[job]:
                if self.pods.state[sibling] == pod_state.RUNNING:
                    self._run(sibling, duration)

    def _run(self, pod: int, duration: int) -> None:
        node = self.pods.node[pod]
        job = self.pods.job[pod]
        self._ends_at[job] = max(
            self._ends_at.get(job, 0), self.kernel.now + duration
        )  # a checkpoint ends others sooner
        if self.nodes.groups[node].kubelet:
            self._kubelets.run(pod, node, duration, self._ends)
        else:
            self.kwok.play(pod, duration, self._ends)

    def _ends(self, pod: int) -> None:
        job = self.pods.job[pod]
        if self.pods.state[pod] != pod_state.RUNNING or self.kernel.now < self._due.get(job, 0):
            return  # it is gone, or its gang had to begin again
        if pod in self._terminating:
            return
        self.pods.state[pod] = pod_state.FINISHED
        self.ledger.move_pod(self.kernel.now, self.pods.recorded[pod], self._finished, self.pods.node[pod])
        self.scheduler.ended(pod)
        for call in self.when_pod_ends:
            call(job)
        self.jobs.pod_finished(job)

    def delete_pod(self, pod: int) -> None:
        """Somebody has deleted the pod. On a fake node it is gone once KWOK has removed its finalizers."""
        if self.pods.state[pod] == pod_state.PENDING:
            self._lose(pod)
            return
        self._terminating.add(pod)
        if self.nodes.groups[self.pods.node[pod]].kubelet:
            self._is_gone(pod)
        else:
            self.kwok.play(pod, 0, self._is_gone)

    def _is_gone(self, pod: int) -> None:
        if pod in self._terminating and pod_state.ASSUMED <= self.pods.state[pod] <= pod_state.RUNNING:
            self._lose(pod)

    def _lose(self, pod: int) -> None:
        job, was_running = self.pods.job[pod], self.pods.state[pod] == pod_state.RUNNING
        self._terminating.discard(pod)
        if job < 0:
            self.scheduler.delete(pod)
            self.owners.lost(pod)
            return
        workload = self.workloads[job]
        if workload.gang:
            if was_running and self._barrier.gone(job, workload.pods):
                self._due[job] = 1 << 62
                if workload.checkpoint:
                    self._checkpoints.gang_stops(job, workload, self.kernel.now)
        elif was_running and workload.checkpoint:
            self._checkpoints.pod_lost(pod, job, workload, self.kernel.now)
        state = self.pods.state[pod]
        reached = (self._pods_created, self._scheduled, self._running)[: max(state - pod_state.ASSUMED, 0) + 1]
        self.scheduler.delete(pod)
        self.ledger.lose_pod(self.kernel.now, self.pods.recorded[pod], reached)
        for call in self.when_pod_ends:
            call(job)
        self.jobs.pod_lost(job, was_running)

    def _completed(self, job: int) -> None:
        self.ledger.move(self.kernel.now, job, self._complete)
        self._is_over(job)
        self._job_pods.pop(job, None)
        self._due.pop(job, None)
        self._ends_at.pop(job, None)
        for call in self.when_completed:
            call(job)
