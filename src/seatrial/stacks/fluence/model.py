"""The Fluence plugin in the simulated kube-scheduler, and the controller that makes its PodGroups.

Facts (flux-framework/flux-k8s at ed3815c, sig-scheduler-plugins/pkg/fluence):
- Every Job is a group of its parallelism: the webhook says so in labels (podgroup_webhook.go), the controller makes the PodGroup
  when it sees the first pod (podgroup_controller.go, ensurePodGroup) and writes to it again when all pods are there.
- PreFilter (fluence.go, core/core.go): without PodGroup, or with too few pods, the pod is rejected. Else the first pod that
  comes asks Fluxion for the whole group, and all pods of the group keep the node they get, by index. No room: rejected.
- A rejected pod waits until an assigned pod goes or a PodGroup is written (EventsToRegister).
- On the assigned node, kube-scheduler still checks whether the pod fits (NodeResourcesFit stays on).
- Permit: pods hold their nodes until the whole group has nodes, 300 s at most. PostFilter and Unreserve send all of the group
  that wait there back.
- The allocation is freed when a pod of the group has succeeded or is deleted (core/flux.go); here when the last one is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seatrial.model.fit import ignores_cordons
from seatrial.model.plan import PodShape, Scalar, Workload
from seatrial.sim.apiserver import GET, WRITE, ApiClient
from seatrial.sim.framework import GROUP, POD_GONE
from seatrial.sim.pods import FINISHED
from seatrial.sim.scheduler import Around, Scheduler
from seatrial.sim.world import Sim
from seatrial.stacks.fluence import ALL, EARLY_FREE, LEAK, SHARED_NODE, SLOW_SORT
from seatrial.stacks.fluence.fluxion import Fluxion, slot_of
from seatrial.stacks.permit_groups import OPTIMISTIC, PermitGroups

NO_GROUP, NO_ROOM = "PodGroup not found", "Allocation was not possible"
WRONG_COUNT = "Fluxion returned the wrong number of nodes"
READS = 2  # of PodGroups, per comparison of two pods


class FluenceScheduler(Scheduler):
    """Considers one node only: the one that the plugin assigned. Pods of Deployments do not name Fluence as their scheduler and
    may go to any node."""

    def __init__(self, around: Around) -> None:
        super().__init__(around)
        self.named: Callable[[int], int] = lambda _pod: -1
        self.slow_sort = False
        self._reading = ApiClient("fluence-reads", float(around.settings["qps"]), float(around.settings["burst"]))

    def _pick(self, pod: int) -> int:
        if self._pods.job[pod] < 0:
            return super()._pick(pod)
        node, nodes, shape = self.named(pod), self._nodes, self._pods.shape[pod]
        nodes.searched += 1
        return node if node >= 0 and nodes.is_open(node, ignores_cordons(shape)) and nodes.has_room(node, shape) else -1

    def _pass_over(self, shape: PodShape) -> bool:  # noqa: ARG002
        """Pods of one shape are named different nodes."""
        return True

    def _turn(self) -> bool:
        """With `slow-sort`, taking the first of n pods compares 2 log₂ n times, and each comparison asks the API server."""
        if not self.slow_sort or (waiting := self.queue.waiting) <= 1:
            return super()._turn()
        reads = READS * 2 * (waiting.bit_length() - 1)
        self._api.call_in_turn(self._reading, GET, reads, self._sorted)
        return False

    def _sorted(self, _: object) -> None:
        if super()._turn():
            self._next()


class FluencePlugin(PermitGroups):
    """Every workload is a group; its nodes come from Fluxion."""

    helped_by = POD_GONE | GROUP

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, int(settings["permit-wait"]))
        faults = str(settings["faults"])
        self._early_free, self._leaks = faults in (EARLY_FREE, ALL), faults in (LEAK, ALL)
        self._shares_badly = faults in (SHARED_NODE, ALL)
        self._controller = ApiClient("fluence-controller", float(settings["qps"]), float(settings["burst"]))
        self._fluxion: Fluxion | None = None
        self._made: set[int] = set()  # groups whose PodGroup exists
        self._alive: dict[int, int] = {}  # group → pods that have not ended
        self._node: dict[int, int] = {}  # podToNode
        self._since: dict[int, int] = {}  # pod → InitialAttemptTimestamp
        sim.when_completed.append(self._over)
        sim.when_deleted.append(self._deleted)

    def node_of(self, pod: int) -> int:
        """The node that Fluxion assigned to the pod, or -1."""
        return self._node.get(pod, -1)

    # the controller

    def added(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group < 0:
            return
        self._since[pod] = self._sim.kernel.now
        alive = self._alive[group] = self._alive.get(group, 0) + 1
        self._assigned.setdefault(group, set())
        if alive in (1, self._size(group)):
            self._sim.api.call(self._controller, WRITE, self._written, group)

    def _written(self, group: int) -> None:
        """The PodGroup was created, or its status says that all its pods exist."""
        if group in self._alive:
            self._made.add(group)
            self._sim.scheduler.queue.moved(GROUP)

    def _size(self, group: int) -> int:
        return self._sim.workloads[group].pods

    # a scheduling cycle

    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...]:
        return (-self._sim.pods.shape[pod].priority, self._since.get(pod, queued_at), pod)

    def pre_filter(self, pod: int) -> bool:
        group = self._sim.pods.job[pod]
        if pod in self._node or group < 0:
            return True
        alive, size = self._alive[group], self._size(group)
        if group not in self._made:
            self._reason = NO_GROUP
        elif alive < size:
            self._reason = f"cannot find enough sibling pods: {alive} of {size}"
        else:
            self._reason = self._ask(group)
        if self._reason:
            self._sim.said[group] = self._reason
        return not self._reason

    def _ask(self, group: int) -> str:
        """Asks Fluxion for the nodes of the whole group; returns why there are none, if so."""
        fluxion = self._fluxion = self._fluxion or self._graph()
        size = self._size(group)
        nodes = fluxion.match(group, slot_of(self._sim.workloads[group].shape.requests), size)
        self._sim.nodes.searched = fluxion.looked
        if not nodes:
            return NO_ROOM
        if self._shares_badly and len(set(nodes)) < size:
            fluxion.cancel(group)
            return WRONG_COUNT
        waiting = [pod for pod in self._sim.pods_of(group) if pod in self._since]
        self._node.update(zip(waiting, nodes, strict=False))
        return ""

    def _graph(self) -> Fluxion:
        nodes = self._sim.nodes
        numbers = range(len(nodes))
        return Fluxion(
            [self._sim.ledger.nodes[node] for node in numbers], [nodes.groups[node].capacity for node in numbers]
        )

    def post_filter(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group >= 0 and 0 < len(self._assigned[group]) < self._size(group):
            self.reject_siblings(group, OPTIMISTIC)

    # the end of pods and groups

    def gone(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group not in self._alive:
            return
        self._alive[group] -= 1
        self._assigned[group].discard(pod)
        self._node.pop(pod, None)
        self._since.pop(pod, None)
        deleted = not self._sim.pods_of(group)
        if deleted and self._leaks:
            return
        ended = self._sim.pods.state[pod] == FINISHED
        if self._fluxion and (not self._alive[group] or not ended or self._early_free):
            self._fluxion.cancel(group)

    def _over(self, group: int) -> None:
        self._made.discard(group)
        self._alive.pop(group, None)
        self._assigned.pop(group, None)

    def _deleted(self, group: int) -> None:
        if self._fluxion:
            self._fluxion.forget(group)
        self._over(group)


def put_into(sim: Sim, settings: Mapping[str, Mapping[str, Scalar]]) -> Callable[[int, Workload], None]:
    """Replaces kube-scheduler by one with the plugin."""
    own = settings["fluence"]
    plugin = FluencePlugin(sim, own)
    scheduler = sim.schedule_with(FluenceScheduler)
    scheduler.named = plugin.node_of
    scheduler.slow_sort = own["faults"] in (SLOW_SORT, ALL)
    scheduler.use(plugin)
    return sim.jobs.add
