"""The state of the simulated cluster for diagnoses and snapshots: holders and waiters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from seatrial.model.lifecycle import ADMITTED
from seatrial.model.plan import Workload
from seatrial.model.state import NodeState, State, WorkloadState
from seatrial.record.ledger import Ledger
from seatrial.sim import pods as pod_state
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import Pods


class StateView:
    """Reads the tables that the world keeps. `over`: per workload; `said`: why a workload waits; `ends_at`: when what runs of a
    workload should end; `removed`: nodes that are gone, whose numbers stay taken."""

    def __init__(
        self,
        kernel: Kernel,
        ledger: Ledger,
        nodes: Nodes,
        pods: Pods,
        workloads: Sequence[Workload],
        over: bytearray,
        job_pods: Mapping[int, Sequence[int]],
        said: Mapping[int, str],
        ends_at: Mapping[int, int],
        removed: Collection[int],
    ) -> None:
        self._kernel, self._ledger, self._nodes, self._pods = kernel, ledger, nodes, pods
        self._workloads, self._over, self._job_pods = workloads, over, job_pods
        self._said, self._ends_at, self._removed = said, ends_at, removed
        self.stand_ins: dict[int, dict[int, None]] = {}  # workload → pods of the stack's that hold nodes for its own
        self._states: dict[int, tuple[Any, WorkloadState]] = {}  # what was said of them last, and what that depends on

    def forget(self, number: int) -> None:
        """The workload is over."""
        self._states.pop(number, None)

    def state(self) -> State:
        """Holders and waiters at this moment."""
        nodes = tuple(self._node_state(node) for node in range(len(self._nodes)))
        workloads = tuple(self._workload_state(number) for number, over in enumerate(self._over) if not over)
        return State(self._kernel.now, nodes, workloads, queued=ADMITTED.name in self._ledger.number)

    def holders(self) -> tuple[int, Sequence[WorkloadState]]:
        """How many workloads are not over, and those that have pods on nodes. Going through all that wait took a quarter of the
        time where 400 gangs contend."""
        states = np.frombuffer(self._pods.state, dtype=np.uint8)
        on_nodes = ((states >= pod_state.ASSUMED) & (states <= pod_state.RUNNING)).nonzero()[0].tolist()
        jobs = dict.fromkeys((*map(self._pods.job.__getitem__, on_nodes), *self.stand_ins))
        return self._over.count(0), [self._workload_state(job) for job in jobs if job >= 0]

    def _node_state(self, node: int) -> NodeState:
        nodes, group = self._nodes, self._nodes.groups[node]
        capacity = {name: nodes.capacity[column][node] for column, name in enumerate(nodes.resources)}
        free = {name: nodes.free[column][node] for column, name in enumerate(nodes.resources)}
        name = self._ledger.nodes[node]
        if node in self._removed:  # its number stays taken
            capacity = free = dict.fromkeys(capacity, 0)
        is_open = nodes.is_open(node)
        cordoned = not is_open and nodes.is_open(node, ignoring_cordons=True)
        return NodeState(name, group.name, capacity, free, is_open, group.labels, group.taints, cordoned)

    def _workload_state(self, number: int) -> WorkloadState:
        """Most have not changed since the last time: making the state anew took most of a diagnosis, and of looks for a stall."""
        workload, pods, said = self._workloads[number], self._job_pods.get(number, ()), self._said.get(number, "")
        states = bytes(map(self._pods.state.__getitem__, pods))
        stage, ends = self._ledger.stage_of(number), self._ends_at.get(number, 0)
        nodes = tuple(map(self._pods.node.__getitem__, pods))
        seen = (states, nodes, stage, said, ends, number in self._ledger.evicted, number in self.stand_ins)
        known = self._states.get(number)
        if known is not None and known[0] == seen:
            return known[1]
        standing = [
            pod for pod, state in zip(pods, states, strict=True) if pod_state.ASSUMED <= state <= pod_state.RUNNING
        ]
        stand_ins = [pod for pod in self.stand_ins.get(number, ()) if self._pods.node[pod] >= 0]
        running, admitted = states.count(pod_state.RUNNING), self._ledger.number.get(ADMITTED.name)
        made = WorkloadState(
            number, workload.name, workload.phase, workload.pods, workload.gang, workload.shape, workload.declares,
            workload.duration, stage, 0,
            admitted is None or (self._ledger.has_reached(number, admitted) and number not in self._ledger.evicted),
            tuple(self._pods.node[pod] for pod in (*standing, *stand_ins)),
            states.count(pod_state.ASSUMED) + len(stand_ins),
            running,
            states.count(pod_state.PENDING),
            states.count(pod_state.FINISHED),
            said,
            ends if running else 0,
            workload.queue,
        )  # fmt: skip
        if not stand_ins:
            self._states[number] = (seen, made)
        return made
