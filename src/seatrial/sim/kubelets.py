"""Nodes with a kubelet: containers really have to be started, and starting many at once takes longer.

Setting up a sandbox, its network and a container is work for the node's processors: so many core-seconds per pod, one core at
most for each, shared evenly among all that start at the same time (processor sharing). Beside it stands a part that only
takes time: the kubelet's sync, the runtime's round trips. An exited container is seen at the next relist, once a second, and
the pod's terminal phase follows at the one after, when its sandbox has stopped (the published listing shows both).

The processors are the node's own, or with `machine-cores` those of one machine that all nodes share, as kind's do.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from random import Random

from seatrial.model.plan import Scalar
from seatrial.model.units import SECOND
from seatrial.sim.kernel import Do, Kernel

RELIST = 1 * SECOND  # generic PLEG


class _Machine:
    """Processors while pods start on them: `served` is the work each of those now starting has had so far."""

    __slots__ = ("cores", "round", "seen_at", "served", "starting")

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self.served = 0.0
        self.seen_at = 0
        self.starting: list[tuple[float, int]] = []  # (work served when done, pod)
        self.round = 0


class Kubelets:
    """`start(…, then)`: `then(pod)` when its container runs. `run(…, then)`: when the kubelet says its end."""

    def __init__(self, kernel: Kernel, settings: Mapping[str, Scalar], random: Random) -> None:
        self._kernel, self._random = kernel, random
        self._latency = int(settings["start-latency"])
        self._work = float(settings["start-work"])
        cores = float(settings["machine-cores"])
        self._shared = _Machine(cores) if cores else None
        self._machines: dict[int, _Machine] = {}
        self._relist: dict[int, int] = {}  # nodes do not look at the same moment
        self._then: dict[int, Do] = {}

    def start(self, pod: int, node: int, cores: float, then: Do) -> None:
        self._then[pod] = then
        if node not in self._machines:
            self._machines[node] = self._shared or _Machine(max(cores, 0.1))
            self._relist[node] = int(self._random.random() * RELIST)
        self._kernel.at(self._kernel.now + self._latency, self._begin, (pod, self._machines[node]))

    def run(self, pod: int, node: int, duration: int, then: Do) -> None:
        end = self._kernel.now + duration
        self._kernel.at(end + (self._relist[node] - end) % RELIST + RELIST, then, pod)

    def _begin(self, start: tuple[int, _Machine]) -> None:
        pod, machine = start
        self._serve(machine)
        heappush(machine.starting, (machine.served + self._work, pod))
        self._plan(machine)

    def _serve(self, machine: _Machine) -> None:
        """Brings `served` up to now: each start gets a core, or its even share of the cores there are."""
        if machine.starting:
            share = min(1.0, machine.cores / len(machine.starting))
            machine.served += (self._kernel.now - machine.seen_at) * share
        machine.seen_at = self._kernel.now

    def _plan(self, machine: _Machine) -> None:
        """Looks again when the first of those starting would be done, if nothing changes before."""
        machine.round += 1
        if machine.starting:
            share = min(1.0, machine.cores / len(machine.starting))
            left = max(machine.starting[0][0] - machine.served, 0.0) / share
            self._kernel.at(self._kernel.now + int(left) + 1, self._look, (machine, machine.round))

    def _look(self, look: tuple[_Machine, int]) -> None:
        machine, planned = look
        if planned != machine.round:
            return
        self._serve(machine)
        while machine.starting and machine.starting[0][0] <= machine.served:
            pod = heappop(machine.starting)[1]
            self._then.pop(pod)(pod)
        self._plan(machine)
