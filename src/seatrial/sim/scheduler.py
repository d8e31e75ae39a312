"""kube-scheduler: one serial loop that picks a node for one pod at a time, and binds that run beside it.

A cycle's length has two parts (settings `cycle` and `cycle-per-node`): what every pod costs and what every node looked at
costs, of which there are 500 among 5,000. They are set so that 5,000 nodes give
the 680–810 pods/s at which the Kubernetes project gates its own SchedulingBasic benchmark, and small clusters about 2,000/s.
A pod that is not bound costs less, because binding is work too. Of the 450 µs that are the default, `LOOK` was measured; the rest,
`BINDING`, is what the binding takes from the loop. A longer `cycle` is a slower filter or score: bindings stay as they are, and
every pod pays the rest before permit, whether it is bound, held there or turned down. So a gang of 20 with cycles of 100 ms holds
its last node after 2 s with every stack.

A pod that is turned down gets a condition that says why. Writing it is a request that the loop waits for (handleSchedulingFailure;
SchedulerAsyncAPICalls is off by default), unless the condition said so when the pod was popped. For a pod that was turned down
while it waited in permit, its own goroutine waits, and others hear of the room only afterwards (handleBindingCycleError). So
pods that are turned down over and over fill the client's bucket, and the loop stands behind them: for seconds at 50 a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any, NamedTuple

from seatrial.model.plan import PodShape, Scalar
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.framework import ALLOW, POD_BOUND, POD_GONE, REJECT, ROOM, Profile, SchedulerPlugin
from seatrial.sim.kernel import Do, Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.permit_waits import PermitWaits
from seatrial.sim.pods import ASSUMED, BOUND, GONE, PENDING, Pods
from seatrial.sim.preemption import DRY_RUN, PreemptionExecutor, PreemptionPlan, VictimSearch
from seatrial.sim.queue import SchedulingQueue

_NO_ROOM, _TIMED_OUT, _PREEMPTED = "no room", "waited too long", "preempted"
# Medians in the log of a real one with 8 nodes on two busy cores: 0.19 to 0.30 ms from one try to the next, and 0.15 to 0.21 ms
# from a rejection in permit until the pod's own goroutine has given its node back. Half and twice as much are common.
LOOK = 180 * MICROSECOND  # of a cycle, what a pod costs that is not bound
BINDING = 270 * MICROSECOND  # of a cycle, what a binding takes from the loop at most: 450 less LOOK
PERMIT_WAKES = 130 * MICROSECOND
LONG_WAIT = 1 * SECOND  # client-go's longThrottleLatency: from here on it logs that it is throttled


# A pod that waits in permit: the pod, events before its cycle, what its condition said, who asked it to wait. Plain tuples: with
# named ones, a rejection took a tenth longer.
_Held = tuple[int, int, str, SchedulerPlugin]
# A cycle as an event: pod, …, told, plugin, plan.
_Ending = tuple[int, int, str, SchedulerPlugin | None, PreemptionPlan | None]


class Around(NamedTuple):
    """The environment of a scheduler."""

    kernel: Kernel
    api: ApiServer
    nodes: Nodes
    pods: Pods
    settings: Mapping[str, Scalar]
    bound: Callable[[int], None]
    random: Random  # of preemption


class Scheduler:
    """Pods come in by `add`; `bound(pod)` is called when the server has taken the binding."""

    def __init__(self, around: Around) -> None:
        kernel, self._api, self._nodes, self._pods, settings, self._bound, random = around
        self._kernel = kernel
        self._client = ApiClient("kube-scheduler", float(settings["qps"]), float(settings["burst"]))
        self._cycle, self._per_node = int(settings["cycle"]), int(settings["cycle-per-node"])
        self._look = min(self._cycle, LOOK)
        self._binding = min(self._cycle - self._look, BINDING)
        self._filtering = self._cycle - self._look - self._binding  # what a longer `cycle` adds, before permit
        self._owed = 0  # time that bindings take from the loop
        self._profile = Profile()
        self._busy = False
        self._plain = type(self)._turn is Scheduler._turn
        self._inside = False  # another event, during which the clock must not move
        self._current = -1  # the pod whose cycle it is
        self._in_hand = -1  # popped, and its cycle is the next
        self._told: dict[int, str] = {}  # pod → why it is Unschedulable, as its condition says
        self._waits: PermitWaits[_Held] = PermitWaits(kernel, lambda pod: self.reject(pod, _TIMED_OUT))
        self._holding = self._waits.holding
        self._wanted: set[int] = set()  # of these, those to be tried again at once should they come back
        self._siblings: dict[int, dict[int, int]] = {}  # job → node → pods, for those that want to be apart
        self.pinned: dict[int, int] = {}  # pods that may go to one node only: a selector by host name
        self.sends_back: Callable[[], None] = lambda: None  # told whenever a pod comes back from permit
        self._search = VictimSearch(kernel, self._nodes, self._pods, random)
        self.preemption = PreemptionExecutor(self._search, self._api, self._client, self._nodes, self._pods)
        self.preemption.reject = self._reject_victim
        self._queue_with(SchedulingQueue(kernel, self._key, self._wake))

    def _queue_with(self, queue: SchedulingQueue) -> None:
        self.queue = self.preemption.queue = queue

    def use(self, *plugins: SchedulerPlugin) -> None:
        """Sets the plugins of the profile, before there are pods."""
        self._profile = Profile(*plugins)
        if self._profile.keys_change:
            self.queue.keys_change()
        if self._profile.sort_key is not None:
            self.queue.key = self._profile.sort_key

    def add(self, pod: int, alone: bool = False) -> None:
        """A new pod. One that comes `alone`, the only one of its event, is tried at once if nothing else waits: that saves one
        of the fifteen events of a one-pod Job."""
        profile = self._profile
        for added in profile.added:
            added(pod)
        if alone and not self._busy and not profile.plugins and self._plain and self.queue.empty:
            self._busy = True
            self._in_hand = pod
            self._inside = True
            self._turn()
            self._inside = False
        else:
            self.queue.add(pod)

    def _key(self, pod: int, queued_at: int) -> tuple[Any, ...]:
        return (-self._pods.shape[pod].priority, queued_at)

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self._kernel.at(self._kernel.now, self._next)  # once whatever woke it is over

    def _next(self, _: object = None) -> None:
        """Takes turns until something has to be waited for: an answer of the server, somebody else's event, a pod."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """One cycle: the node is chosen on the state of this moment, as on a snapshot, and assumed. Returns whether the loop
        goes on at once; else the cycle ends in an event of its own, or no pod waits."""
        queue, nodes, kernel = self.queue, self._nodes, self._kernel
        pod = self._in_hand if self._in_hand >= 0 else queue.pop()
        self._in_hand, self._current = -1, pod
        if pod < 0:
            self._busy = False
            return False
        nodes.searched = 0
        refused_by, node, plan = None, -1, None
        for plugin in self._profile.pre_filtering:
            if not plugin.pre_filter(pod):
                refused_by = plugin
                break
        else:
            node = self._pick(pod)
            if node >= 0:
                self.assume(pod, node)
            elif self._pods.lowest < self._pods.shape[pod].priority:
                plan = self._search.plan(pod, self.pinned.get(pod, -1))
        look = self._api.about(self._look) if self._profile.plugins else self._look
        ends = kernel.now + look + self._filtering + self._owed + self._per_node * nodes.searched
        if plan is not None:
            ends += DRY_RUN * plan.looked
        self._owed = 0
        events, told = queue.events, self._told.get(pod, "")
        if self._inside or not kernel.advance(ends):
            kernel.at(ends, self._end, (pod, events, told, refused_by, plan))
            return False
        if node >= 0:
            self._permit(pod, events, told)
            return True
        goes_on = self._fail(pod, events, told, refused_by, plan)
        if goes_on and refused_by is None and plan is None and pod not in self.pinned:
            return self._pass_over(self._pods.shape[pod])
        return goes_on

    def _pass_over(self, shape: PodShape) -> bool:
        """The same cycle for the pods of this shape that come next, as long as nobody else does anything: one has just found no
        node, so none finds one, and their conditions say so already. With 32,000 Jobs for 80 cores, nine of ten events are that.
        Returns whether the loop goes on at once."""
        queue, kernel, shapes, told, pinned = self.queue, self._kernel, self._pods.shape, self._told, self.pinned
        pre_filtering, post_filter = self._profile.pre_filtering, self._profile.post_filter
        look, about = self._look, self._api.about if self._profile.plugins else None
        more = self._filtering + self._per_node * self._nodes.searched
        while True:
            pod = queue.pop()
            if pod < 0 or shapes[pod] is not shape or told.get(pod) != _NO_ROOM or pod in pinned:
                break
            for plugin in pre_filtering:
                if not plugin.pre_filter(pod):
                    break
            else:
                ends = kernel.now + (about(look) if about else look) + more
                if not kernel.advance(ends):
                    self._current = pod
                    kernel.at(ends, self._end, (pod, queue.events, _NO_ROOM, None, None))
                    return False
                for call in post_filter:
                    call(pod)
                queue.failed(pod, queue.events)
                continue
            break
        self._in_hand = pod
        return True

    def _pick(self, pod: int) -> int:
        """A node for it, or −1."""
        shape = self._pods.shape[pod]
        if pod in self._nodes.nominations and self._nodes.takes_nominated(pod, shape):
            return self._nodes.nominations[pod]
        only = self.pinned.get(pod)
        if only is not None:
            return only if self._nodes.takes(only, shape) else -1
        return self._nodes.choose(shape, self._siblings.get(self._pods.job[pod], ()) if shape.spread else ())

    def _end(self, cycle: _Ending) -> None:
        pod, events_before, told, refused_by, plan = cycle
        state = self._pods.state[pod]
        if state == PENDING and not self._fail(pod, events_before, told, refused_by, plan):
            return
        if state == ASSUMED:
            self._permit(pod, events_before, told)
        self._next()

    def _fail(
        self, pod: int, events_before: int, told: str, refused_by: SchedulerPlugin | None, plan: PreemptionPlan | None
    ) -> bool:
        """No node for it. Whether the loop goes on at once; else it does when the pod's condition says so."""
        if plan is not None and plan.node >= 0:
            self.preemption.carry_out(pod, plan)  # a success: no further post-filter runs (RunPostFilterPlugins)
        else:
            for post_filter in self._profile.post_filter:
                post_filter(pod)
        self._current = -1
        self.queue.failed(pod, events_before, refused_by.helped_by if refused_by else ROOM)
        reason = refused_by.reason(pod) if refused_by else plan.said if plan else _NO_ROOM
        if self._renominated(pod, plan):
            told = ""  # written with the condition
        elif told == reason:
            return True
        if (delay := self._client.behind(self._kernel.now)) > LONG_WAIT:
            for held_up in self._profile.held_up:
                held_up(delay)
        self._tell(pod, told, reason, self._next)
        return False

    def _renominated(self, pod: int, plan: PreemptionPlan | None) -> bool:
        """A failed cycle sets the pod's nomination, or clears it; returns whether that changes it."""
        if plan is None:
            return pod in self._nodes.nominations and self.preemption.nominate(pod, -1)
        return not plan.keeps and self.preemption.nominate(pod, plan.node)

    def _tell(self, pod: int, told: str, reason: str, then: Do) -> None:
        if told == reason:
            then(pod)
        else:
            self._api.call(self._client, WRITE, self._is_told, (pod, reason, then))

    def _is_told(self, what: tuple[int, str, Do]) -> None:
        pod, reason, then = what
        if self._pods.state[pod] != GONE:
            self._told[pod] = reason
        then(pod)

    def assume(self, pod: int, node: int) -> None:
        """The node is the pod's from now on."""
        pods = self._pods
        pods.state[pod], pods.node[pod] = ASSUMED, node
        shape = pods.shape[pod]
        self._nodes.take(node, shape)
        if self._search.counts:
            self._search.placed(pod, node)
            self.preemption.nominate(pod, -1)
        if shape.spread:
            held = self._siblings.setdefault(pods.job[pod], {})
            held[node] = held.get(node, 0) + 1
        for reserve in self._profile.reserve:
            reserve(pod, node)

    def _permit(self, pod: int, events_before: int, told: str) -> None:
        wait, asked_by = ALLOW, None
        for plugin in self._profile.permitting:
            answer = plugin.permit(pod)
            if answer == REJECT:
                self._give_up(((pod, events_before, told, plugin), plugin.reason(pod)))
                return
            if answer > wait:
                wait, asked_by = answer, plugin
        if self._pods.state[pod] != ASSUMED:
            return  # a plugin rejected it meanwhile
        if asked_by is None:
            self._owed += self._binding
            self._bind(pod)
            return
        self._waits.hold(pod, (pod, events_before, told, asked_by), wait)

    def allow(self, pod: int) -> None:
        """A plugin lets a pod go that waits in permit."""
        if self._holding.pop(pod, None) is not None:
            self._wanted.discard(pod)
            self._owed += self._binding
            self._bind(pod)

    def reject(self, pod: int, reason: str = "turned down") -> None:
        """A plugin sends a pod that waits in permit back to the queue; its own goroutine does the rest."""
        held = self._holding.pop(pod, None)
        if held is not None:
            self._kernel.at(self._kernel.now + self._api.about(PERMIT_WAKES), self._give_up, (held, reason))

    def _reject_victim(self, pod: int) -> bool:
        if pod not in self._holding:
            return False
        self.reject(pod, _PREEMPTED)
        return True

    def activate(self, pods: Collection[int]) -> None:
        """A plugin wants these pods to be tried, past their back-off; one that waits in permit, should it come back."""
        self.queue.activate(pods)
        self._wanted |= self._holding.keys() & pods

    def _give_up(self, what: tuple[_Held, str]) -> None:
        (pod, events_before, told, plugin), reason = what
        if self._pods.state[pod] != ASSUMED:
            return
        self._release(pod)
        self._pods.state[pod] = PENDING
        self._pods.node[pod] = -1
        self.sends_back()
        for unreserve in self._profile.unreserve:
            unreserve(pod)
        if pod in self._wanted:
            self._wanted.discard(pod)
            events_before = -1
        # After a preemption in permit no event helps (1.34: DefaultPreemption is the rejecting plugin, and its hint is to skip).
        self.queue.failed(pod, events_before, 0 if reason == _PREEMPTED else plugin.helped_by)
        self._tell(pod, told, reason, self._is_room)

    def _is_room(self, pod: int) -> None:
        self.queue.moved(POD_GONE, but=pod)

    def _bind(self, pod: int) -> None:
        self._api.call(self._client, WRITE, self.is_bound, pod)

    def is_bound(self, pod: int) -> None:
        """The server has taken the binding."""
        if self._pods.state[pod] == GONE:
            return
        self._pods.state[pod] = BOUND
        self.queue.scheduled(pod)
        self._told.pop(pod, None)
        for bound in self._profile.bound:
            bound(pod)
        if self._profile.hears_bound:
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
        if self._search.counts:
            self._search.left(pod, node)
        if shape.spread:
            held = self._siblings[pods.job[pod]]
            held[node] -= 1
            if not held[node]:
                del held[node]

    def ended(self, pod: int) -> None:
        """A bound pod finished."""
        self.free(pod)
        for gone in self._profile.gone:
            gone(pod)

    def delete(self, pod: int) -> None:
        """The pod is deleted, wherever it stands; its state is GONE afterwards."""
        state = self._pods.state[pod]
        self._pods.state[pod] = GONE
        if state == PENDING:
            if pod != self._current:
                self.queue.remove(pod)
        else:
            if self._holding.pop(pod, None) is not None:
                for unreserve in self._profile.unreserve:
                    unreserve(pod)
            self._wanted.discard(pod)
            self.free(pod)
        self._told.pop(pod, None)
        if pod in self._nodes.nominations:
            self.preemption.nominate(pod, -1)
        for gone in self._profile.gone:
            gone(pod)
