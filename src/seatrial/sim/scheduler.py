"""kube-scheduler: one serial loop that picks a node for one pod at a time, and binds that run beside it.

A cycle's length has two parts (settings `cycle` and `cycle-per-node`): what every pod costs and what every node looked at
costs, of which there are 500 among 5,000. They are set so that 5,000 nodes give
the 680–810 pods/s at which the Kubernetes project gates its own SchedulingBasic benchmark, and small clusters about 2,000/s.

A pod that is turned down gets a condition that says why. Writing it is a request that the loop waits for (handleSchedulingFailure;
SchedulerAsyncAPICalls is off by default), unless the condition says so already. For a pod that was turned down while it waited
in permit, its own goroutine waits, and others hear of the room only afterwards (handleBindingCycleError).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.plan import Scalar
from seatrial.sim.api import WRITE, ApiServer, Client
from seatrial.sim.framework import ALLOW, POD_BOUND, POD_GONE, REJECT, ROOM, Plugin
from seatrial.sim.kernel import Do, Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import ASSUMED, BOUND, GONE, PENDING, Pods
from seatrial.sim.queue import Queue

_NO_ROOM, _TIMED_OUT = "no room", "waited too long"
_Held = tuple[int, int, Plugin]  # which wait, events before its cycle, who asked for it


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
        self._hears_bound = False
        self._told: dict[int, str] = {}  # pod → why it is Unschedulable, as its condition says
        self._holding: dict[int, _Held] = {}  # waiting in permit
        self._wanted: set[int] = set()  # of these, those to be tried again at once should they come back
        self._waits = 0
        self._siblings: dict[int, dict[int, int]] = {}  # job → node → pods, for those that want to be apart
        self.pinned: dict[int, int] = {}  # pods that may go to one node only: a selector by host name
        self.queue = Queue(kernel, self._key, self._wake)

    def use(self, *plugins: Plugin) -> None:
        self._plugins = plugins
        self._hears_bound = any(plugin.helped_by & POD_BOUND for plugin in plugins)

    def add(self, pod: int) -> None:
        for plugin in self._plugins:
            plugin.added(pod)
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
            self._kernel.at(self._kernel.now, self._next)  # once whatever woke it is over

    def _next(self, _: object = None) -> None:
        """Begins a cycle: the node is chosen on the state of this moment, as on a snapshot, and assumed."""
        self._current = pod = self.queue.pop()
        if pod < 0:
            self._busy = False
            return
        nodes = self._nodes
        node = -1
        nodes.searched = 0
        refused_by = next((plugin for plugin in self._plugins if not plugin.pre_filter(pod)), None)
        if refused_by is None:
            node = self._pick(pod)
        if node >= 0:
            self._assume(pod, node)
        cost = self._cycle + self._per_node * nodes.searched
        self._kernel.at(self._kernel.now + cost, self._end, (pod, self.queue.events, refused_by))

    def _pick(self, pod: int) -> int:
        """A node for it, or −1."""
        shape = self._pods.shape[pod]
        only = self.pinned.get(pod)
        if only is not None:
            return only if self._nodes.takes(only, shape) else -1
        return self._nodes.choose(shape, self._siblings.get(self._pods.job[pod], ()) if shape.spread else ())

    def _end(self, cycle: tuple[int, int, Plugin | None]) -> None:
        pod, events_before, refused_by = cycle
        state = self._pods.state[pod]
        if state == PENDING:
            self._fail(pod, events_before, refused_by)
            return
        if state == ASSUMED:
            self._permit(pod, events_before)
        self._next()

    def _fail(self, pod: int, events_before: int, refused_by: Plugin | None) -> None:
        """No node for it; the loop goes on when its condition says so."""
        for plugin in self._plugins:
            plugin.post_filter(pod)
        self._current = -1
        self.queue.failed(pod, events_before, refused_by.helped_by if refused_by else ROOM)
        self._tell(pod, refused_by.reason(pod) if refused_by else _NO_ROOM, self._next)

    def _tell(self, pod: int, reason: str, then: Do) -> None:
        if self._told.get(pod) == reason:
            then(pod)
        else:
            self._told[pod] = reason
            self._api.call(self._client, WRITE, then, pod)

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

    def _permit(self, pod: int, events_before: int) -> None:
        wait, asked_by = ALLOW, None
        for plugin in self._plugins:
            answer = plugin.permit(pod)
            if answer == REJECT:
                self._give_up((pod, (0, events_before, plugin), plugin.reason(pod)))
                return
            if answer > wait:
                wait, asked_by = answer, plugin
        if self._pods.state[pod] != ASSUMED:
            return  # a plugin rejected it meanwhile
        if asked_by is None:
            self._bind(pod)
            return
        self._waits += 1
        self._holding[pod] = (self._waits, events_before, asked_by)
        self._kernel.at(self._kernel.now + wait, self._time_out, (pod, self._waits))

    def _time_out(self, wait: tuple[int, int]) -> None:
        held = self._holding.get(wait[0])
        if held and held[0] == wait[1]:
            self.reject(wait[0], _TIMED_OUT)

    def allow(self, pod: int) -> None:
        """A plugin lets a pod go that waits in permit."""
        if self._holding.pop(pod, None) is not None:
            self._wanted.discard(pod)
            self._bind(pod)

    def reject(self, pod: int, reason: str = "turned down") -> None:
        """A plugin sends a pod that waits in permit back to the queue; its own goroutine does the rest."""
        held = self._holding.pop(pod, None)
        if held is not None:
            self._kernel.at(self._kernel.now, self._give_up, (pod, held, reason))

    def activate(self, pod: int) -> None:
        """A plugin wants this pod to be tried, past its back-off; one that waits in permit, should it come back."""
        if not self.queue.activate(pod) and pod in self._holding:
            self._wanted.add(pod)

    def _give_up(self, what: tuple[int, _Held, str]) -> None:
        pod, (_, events_before, asked_by), reason = what
        if self._pods.state[pod] != ASSUMED:
            return
        self._release(pod)
        self._pods.state[pod] = PENDING
        self._pods.node[pod] = -1
        for plugin in self._plugins:
            plugin.unreserve(pod)
        if pod in self._wanted:
            self._wanted.discard(pod)
            events_before = -1
        self.queue.failed(pod, events_before, asked_by.helped_by)
        self._tell(pod, reason, self._is_room)

    def _is_room(self, pod: int) -> None:
        self.queue.moved(POD_GONE, but=pod)

    def _bind(self, pod: int) -> None:
        self._api.call(self._client, WRITE, self._is_bound, pod)

    def _is_bound(self, pod: int) -> None:
        if self._pods.state[pod] == GONE:
            return
        self._pods.state[pod] = BOUND
        self.queue.scheduled(pod)
        self._told.pop(pod, None)
        for plugin in self._plugins:
            plugin.bound(pod)
        if self._hears_bound:
            self.queue.moved(POD_BOUND)
        self._bound(pod)

    def free(self, pod: int) -> None:
        """The pod holds its node no longer: it finished or was deleted."""
        self._release(pod)
        self.queue.moved()

    def _release(self, pod: int) -> None:
        pods = self._pods
        node, shape = pods.node[pod], pods.shape[pod]
        self._nodes.give_back(node, shape)
        if shape.spread:
            held = self._siblings[pods.job[pod]]
            held[node] -= 1
            if not held[node]:
                del held[node]

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
            if self._holding.pop(pod, None) is not None:
                for plugin in self._plugins:
                    plugin.unreserve(pod)
            self._wanted.discard(pod)
            self.free(pod)
        self._told.pop(pod, None)
        for plugin in self._plugins:
            plugin.gone(pod)
