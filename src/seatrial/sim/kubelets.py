"""Nodes with a kubelet: starting containers takes processor time, so many starts at once take longer.

Setting up a sandbox, its network and a container costs `start-work` core-seconds per pod, at most one core each; concurrent
starts share the processors evenly (processor sharing). `start-latency` is a fixed time before: the kubelet's sync, the runtime's
round trips. The kubelet sees an exited container at the next relist, once a second, and reports the pod's terminal phase at the
relist after, when the sandbox has stopped (the published listing shows both).

The processors are the node's own, or with `machine-cores` those of one machine that all nodes share, as with kind.

A node group's `runtime` replaces both times by its own: sandbox, pull of the image, start, so many of them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from random import Random

from seatrial.model.plan import PlayedRuntime, Scalar, Span
from seatrial.model.units import SECOND
from seatrial.sim.kernel import Do, Kernel

RELIST = 1 * SECOND  # generic PLEG


class _Machine:
    """Processors of starting pods: `served` is the work that a pod present from the beginning would have received."""

    __slots__ = ("cores", "round", "seen_at", "served", "starting")

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self.served = 0.0
        self.seen_at = 0
        self.starting: list[tuple[float, int]] = []  # (work served when done, pod)
        self.round = 0


class _Runtime:
    """A node's container runtime where the scenario says what it takes."""

    __slots__ = ("image_at", "said", "starting", "waiting")

    def __init__(self, said: PlayedRuntime) -> None:
        self.said = said
        self.starting = 0
        self.waiting: deque[tuple[int, Span, Do]] = deque()  # pod, how long, what then
        self.image_at = -1  # when the image is there; -1: nobody pulls it


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, kernel: Kernel, settings: Mapping[str, Scalar], random: Random) -> None:
        self._kernel, self._random = kernel, random
        self._latency = int(settings["start-latency"])
        self._work = float(settings["start-work"])
        cores = float(settings["machine-cores"])
        self._shared = _Machine(cores) if cores else None
        self._machines: dict[int, _Machine] = {}
        self._relist: dict[int, int] = {}  # node → offset of its relists
        self._then: dict[int, Do] = {}
        self._runtimes: dict[int, _Runtime] = {}
        self._node: dict[int, int] = {}  # of pods that a runtime starts

    def start(self, pod: int, node: int, cores: float, then: Do, runtime: PlayedRuntime | None = None) -> None:
        """Starts the pod on its node; calls `then(pod)` when the container runs."""
        self._then[pod] = then
        if node not in self._machines:
            self._machines[node] = self._shared or _Machine(max(cores, 0.1))
            self._relist[node] = int(self._random.random() * RELIST)
            if runtime:
                self._runtimes[node] = _Runtime(runtime)
        if runtime:
            self._node[pod] = node
            self._take(self._runtimes[node], pod, runtime.sandbox, self._has_sandbox)
            return
        self._kernel.at(self._kernel.now + self._latency, self._begin_work, (pod, self._machines[node]))

    def run(self, pod: int, node: int, duration: int, then: Do) -> None:
        """Runs the pod's container for `duration`; calls `then(pod)` when the kubelet reports the end."""
        end = self._kernel.now + duration
        self._kernel.at(end + (self._relist[node] - end) % RELIST + RELIST, then, pod)

    def _take(self, runtime: _Runtime, pod: int, span: Span, then: Do) -> None:
        """Lets the runtime work for the pod, at once or when it is its turn."""
        if runtime.said.at_once and runtime.starting >= runtime.said.at_once:
            runtime.waiting.append((pod, span, then))
            return
        runtime.starting += 1
        long = span.least + int(self._random.random() * (span.most - span.least))
        self._kernel.at(self._kernel.now + long, self._done, (runtime, pod, then))

    def _done(self, work: tuple[_Runtime, int, Do]) -> None:
        runtime, pod, then = work
        runtime.starting -= 1
        if runtime.waiting:
            self._take(runtime, *runtime.waiting.popleft())
        then(pod)

    def _has_sandbox(self, pod: int) -> None:
        runtime = self._runtimes[self._node[pod]]
        if runtime.image_at < 0:
            took = runtime.said.image * SECOND // runtime.said.bandwidth if runtime.said.bandwidth else 0
            runtime.image_at = self._kernel.now + took
        self._kernel.at(max(runtime.image_at, self._kernel.now), self._has_image, pod)

    def _has_image(self, pod: int) -> None:
        runtime = self._runtimes[self._node[pod]]
        self._take(runtime, pod, runtime.said.start, self._has_started)

    def _has_started(self, pod: int) -> None:
        del self._node[pod]
        self._then.pop(pod)(pod)

    def _begin_work(self, start: tuple[int, _Machine]) -> None:
        pod, machine = start
        self._serve(machine)
        heappush(machine.starting, (machine.served + self._work, pod))
        self._plan(machine)

    def _serve(self, machine: _Machine) -> None:
        """Advances `served` to now: each start gets one core or its even share of the cores."""
        if machine.starting:
            share = min(1.0, machine.cores / len(machine.starting))
            machine.served += (self._kernel.now - machine.seen_at) * share
        machine.seen_at = self._kernel.now

    def _plan(self, machine: _Machine) -> None:
        """Schedules the end of the first start, if nothing changes before."""
        machine.round += 1
        if machine.starting:
            share = min(1.0, machine.cores / len(machine.starting))
            left = max(machine.starting[0][0] - machine.served, 0.0) / share
            self._kernel.at(self._kernel.now + int(left) + 1, self._finish_starts, (machine, machine.round))

    def _finish_starts(self, look: tuple[_Machine, int]) -> None:
        machine, planned = look
        if planned != machine.round:
            return
        self._serve(machine)
        while machine.starting and machine.starting[0][0] <= machine.served:
            pod = heappop(machine.starting)[1]
            self._then.pop(pod)(pod)
        self._plan(machine)
