"""kube-scheduler: one serial loop that picks a node for one pod at a time, and binds that run beside it.

A cycle's length has two parts (settings `cycle` and `cycle-per-node`): what every pod costs and what every node looked at
costs, of which there are 500 among 5,000. They are set so that 5,000 nodes give
the 680–810 pods/s at which the Kubernetes project gates its own SchedulingBasic benchmark, and small clusters about 2,000/s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.plan import PodShape, Scalar
from seatrial.sim.api import WRITE, ApiServer, Client
from seatrial.sim.framework import ALLOW, REJECT, Plugin
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import ASSUMED, BOUND, GONE, PENDING, Pods
from seatrial.sim.queue import Queue


class Scheduler:
    """Pods come in by `add`; `bound(pod)` is called when the server has taken the binding."""

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        nodes: Nodes,
        pods: Pods,
        settings: Mapping[str, Scalar],
        bound: Callable[[int], None],
    ) -> None:
        self._kernel, self._api, self._nodes, self._pods = kernel, api, nodes, pods
        self._client = Client("kube-scheduler", float(settings["qps"]), float(settings["burst"]))
        self._cycle, self._per_node = int(settings["cycle"]), int(settings["cycle-per-node"])
        self._bound = bound
        self._plugins: Sequence[Plugin] = ()
        self._busy = False
        self._current = -1  # the pod whose cycle it is
        self._told: set[int] = set()  # pods whose condition already says Unschedulable
        self._holding: dict[int, int] = {}  # waiting in permit: pod → which wait
        self._waits = 0
        self._siblings: dict[int, dict[int, int]] = {}  # job → node → pods, for those that want to be apart
        self.pinned: dict[int, int] = {}  # pods that may go to one node only: a selector by host name
        self.queue = Queue(kernel, self._key, self._wake)

    def use(self, *plugins: Plugin) -> None:
        self._plugins = plugins

    def add(self, pod: int) -> None:
        self.queue.add(pod)

    def _key(self, pod: int, queued_at: int) -> tuple[Any, ...]:
        for plugin in self._plugins:
            key = plugin.sort_key(pod, queued_at)
            if key is not None:
                return key
        return (-self._pods.shape[pod].priority, queued_at)

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self._next()

    def _next(self, _: object = None) -> None:
        """Begins a cycle: the node is chosen on the state of this moment, as on a snapshot, and assumed."""
        self._current = pod = self.queue.pop()
        if pod < 0:
            self._busy = False
            return
        pods, nodes = self._pods, self._nodes
        shape = pods.shape[pod]
        node = -1
        nodes.searched = 0
        if all(plugin.pre_filter(pod) for plugin in self._plugins):
            node = self._choose(pod, shape)
        if node >= 0:
            self._assume(pod, node)
        cost = self._cycle + self._per_node * nodes.searched
        self._kernel.at(self._kernel.now + cost, self._end, (pod, self.queue.events))

    def _choose(self, pod: int, shape: PodShape) -> int:
        only = self.pinned.get(pod)
        if only is not None:
            return only if self._nodes.takes(only, shape) else -1
        return self._nodes.choose(shape, self._siblings.get(self._pods.job[pod], ()) if shape.spread else ())

    def _end(self, cycle: tuple[int, int]) -> None:
        pod, events_before = cycle
        state = self._pods.state[pod]
        if state == ASSUMED:
            self._permit(pod)
        elif state == PENDING:
            self._fail(pod, events_before)
        self._next()

    def _fail(self, pod: int, events_before: int) -> None:
        for plugin in self._plugins:
            plugin.post_filter(pod)
        if pod not in self._told:
            self._told.add(pod)
            self._api.spend(self._client)  # the pod's PodScheduled condition
        self.queue.failed(pod, events_before)

    def _assume(self, pod: int, node: int) -> None:
        pods = self._pods
        pods.state[pod] = ASSUMED
        pods.node[pod] = node
        shape = pods.shape[pod]
        self._nodes.take(node, shape)
        if shape.spread:
            held = self._siblings.setdefault(pods.job[pod], {})
            held[node] = held.get(node, 0) + 1
        for plugin in self._plugins:
            plugin.reserve(pod, node)

    def _permit(self, pod: int) -> None:
        wait = ALLOW
        for plugin in self._plugins:
            answer = plugin.permit(pod)
            if answer == REJECT:
                self._give_up(pod)
                return
            wait = max(wait, answer)
        if self._pods.state[pod] != ASSUMED:
            return  # a plugin rejected it meanwhile
        if wait == ALLOW:
            self._bind(pod)
            return
        self._waits += 1
        self._holding[pod] = self._waits
        self._kernel.at(self._kernel.now + wait, self._time_out, (pod, self._waits))

    def _time_out(self, wait: tuple[int, int]) -> None:
        if self._holding.get(wait[0]) == wait[1]:
            self.reject(wait[0])

    def allow(self, pod: int) -> None:
        """A plugin lets a pod go that waits in permit."""
        if self._holding.pop(pod, None) is not None:
            self._bind(pod)

    def reject(self, pod: int) -> None:
        """A plugin sends a pod that waits in permit back to the queue."""
        if self._holding.pop(pod, None) is not None:
            self._give_up(pod)

    def _give_up(self, pod: int) -> None:
        self._unassume(pod)
        for plugin in self._plugins:
            plugin.unreserve(pod)
        self.queue.failed(pod, self.queue.events)  # its own room is no event for itself

    def _unassume(self, pod: int) -> None:
        self.free(pod)
        self._pods.state[pod] = PENDING
        self._pods.node[pod] = -1

    def _bind(self, pod: int) -> None:
        self._api.call(self._client, WRITE, self._is_bound, pod)

    def _is_bound(self, pod: int) -> None:
        if self._pods.state[pod] == GONE:
            return
        self._pods.state[pod] = BOUND
        self.queue.scheduled(pod)
        self._told.discard(pod)
        for plugin in self._plugins:
            plugin.bound(pod)
        self._bound(pod)

    def free(self, pod: int) -> None:
        """The pod holds its node no longer: it finished, was deleted, or was sent back."""
        pods = self._pods
        node, shape = pods.node[pod], pods.shape[pod]
        self._nodes.give_back(node, shape)
        if shape.spread:
            held = self._siblings[pods.job[pod]]
            held[node] -= 1
            if not held[node]:
                del held[node]
        self.queue.moved()

    def ended(self, pod: int) -> None:
        """A bound pod finished."""
        self.free(pod)
        for plugin in self._plugins:
            plugin.gone(pod)

    def delete(self, pod: int) -> None:
        """The pod is deleted, wherever it stands; its state is GONE afterwards."""
        state = self._pods.state[pod]
        self._pods.state[pod] = GONE
        if state == PENDING:
            if pod != self._current:
                self.queue.remove(pod)
        else:
            self._holding.pop(pod, None)
            self.free(pod)
        self._told.discard(pod)
        for plugin in self._plugins:
            plugin.gone(pod)
