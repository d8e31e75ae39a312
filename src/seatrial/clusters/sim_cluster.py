"""The embedded simulator as a cluster: the kernel's clock is the event loop's, and everything happens in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seatrial.clusters.roster import Roster
from seatrial.model.interfaces import Stack, Tally
from seatrial.model.lifecycle import SCHEDULED
from seatrial.model.load import Load
from seatrial.model.plan import Trial
from seatrial.model.randomness import stream_seed
from seatrial.model.settings import CONTROL_PLANE
from seatrial.model.state import State, WorkloadState
from seatrial.record.ledger import Ledger
from seatrial.record.request_log import write_starts
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import WaitForObjects
from seatrial.sim.clock import VirtualLoop
from seatrial.sim.framework import NODE
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import resources_of
from seatrial.sim.world import Sim

if TYPE_CHECKING:
    from seatrial.sim.loaded_apiserver import LoadedApiServer

T = TypeVar("T")
_MODELLED = ("fairness", "max-requests-inflight", "max-mutating-requests-inflight", "cores")
_AS_SHIPPED = {s.name: s.default for s in CONTROL_PLANE if s.component == "kube-apiserver" and s.name in _MODELLED}


def needs_loaded_apiserver(trial: Trial) -> bool:
    """Whether a trial needs the loaded API server: it has request phases, or settings that only that one knows. Others keep the
    plain one, which costs next to nothing and whose figures are published."""
    setup = trial.setup
    given = setup.settings["kube-apiserver"]
    own = setup.flow_schemas or setup.priority_levels or setup.delay
    return bool(trial.phases(Requests) or own or any(given[name] != value for name, value in _AS_SHIPPED.items()))


def _loaded_apiserver(trial: Trial, kernel: Kernel, directory: Path) -> LoadedApiServer:
    """Imported when wanted: it took a third of the time that the plain simulator needs to start."""
    from seatrial.sim.loaded_apiserver import LoadedApiServer

    return LoadedApiServer(trial, kernel, directory)


class SimCluster:
    """One simulated cluster for one trial."""

    wall_epoch = 0

    def __init__(
        self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path = Path()
    ) -> None:
        self.ledger = ledger
        self._trial, self._stack = trial, stack
        self._kernel = Kernel()
        settings = trial.setup.settings
        self._directory = directory
        self._loaded = _loaded_apiserver(trial, self._kernel, directory) if needs_loaded_apiserver(trial) else None
        requests = [shape.requests for submit in trial.phases(Submit) for shape in submit.shapes]
        if self._loaded:
            requests += [row.shape.requests for row in self._loaded.objects.rows.values() if row.shape]
        self._sim = Sim(
            self._kernel,
            ledger,
            submissions,
            settings,
            resources_of(trial.node_groups(), requests),
            stream_seed(trial.seed, trial.drawn_from, trial.repeat, "simulator"),
            trial.setup.client.rate,
            self._loaded.api if self._loaded else None,
            any(submit.gang for submit in trial.phases(Submit)),
            trial.setup.fleet,
        )
        if self._loaded:
            self._loaded.join(self._sim)
        self._sim.deliver = stack.model(self._sim, settings)
        self._roster: Roster[int] = Roster(self.now)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """The garbage collector rests meanwhile: models make no cycles, and tracing millions of events took a third of the time."""
        collects = gc.isenabled()
        gc.disable()
        try:
            with asyncio.Runner(loop_factory=lambda: VirtualLoop(self._kernel)) as runner:
                return runner.run(main)
        finally:
            if collects:
                gc.enable()

    def now(self) -> int:
        return self._kernel.now

    @property
    def events(self) -> int:
        """The kernel's count of events so far."""
        return self._kernel.events

    async def up(self) -> None:
        if self._loaded:
            self._loaded.check()
        for group in self._trial.setup.nodes:
            self._add(group.name, self._sim.add_nodes(group))

    def _add(self, name: str, nodes: list[int]) -> None:
        self._roster.add(name, nodes, self._sim.nodes.groups[nodes[0]].capacity if nodes else {})
        if self._loaded:
            for node in nodes:
                self._loaded.add_node(node)

    async def load(self, load: Load) -> Tally:
        done: asyncio.Future[Tally] = asyncio.get_running_loop().create_future()
        self._sim.submit(load, lambda tally: None if done.done() else done.set_result(tally))
        return await done

    async def requests(self, phase: Requests) -> Tally:
        assert self._loaded is not None
        done: asyncio.Future[Tally] = asyncio.get_running_loop().create_future()
        self._loaded.loads.run(phase, lambda tally: None if done.done() else done.set_result(tally))
        return await done

    def sent(self) -> int:
        return sum(list(self._loaded.loads.sent.values())) if self._loaded else 0

    async def until(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        assert self._loaded is not None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loaded.loads.until(until, told, lambda: None if done.done() else done.set_result(None))
        await done

    async def nodes(self, change: NodeChange) -> None:
        if change.add:
            self._add(change.add.name, self._sim.add_nodes(change.add))
            return
        nodes = self._sim.nodes
        for node in self._roster.of(change.group)[: change.count]:
            match change.change:
                case "cordon":
                    nodes.cordon(node)
                case "uncordon":
                    nodes.uncordon(node)
                    self._sim.scheduler.queue.moved(NODE)
                case "unready":
                    self._sim.unready(node)
                case "ready":
                    self._sim.ready(node)
                case "remove":
                    self._sim.remove_node(node)
                    if self._loaded:
                        self._loaded.heartbeats.remove(node)
                    self._roster.remove(change.group, node)

    async def delete(self, what: DeleteWorkloads) -> None:
        phases = {self.ledger.phase(name) for name in what.of}
        done = self.ledger.number
        for number, phase in enumerate(self.ledger.workload_phase):
            if phase in phases and not self.ledger.has_reached(number, done["deleted"]):
                self._sim.delete(number)

    def state(self) -> State:
        fleet = self._trial.setup.fleet
        quota = None if fleet.queues else self._stack.quota(self._trial.setup.settings, self._sim.capacity())
        counts_bound = self._stack.quota_from == SCHEDULED.name
        return dataclasses.replace(self._sim.view.state(), quota=quota, fleet=fleet, counts_bound=counts_bound)

    def holders(self) -> tuple[int, Sequence[WorkloadState]]:
        return self._sim.view.holders()

    def at_rest(self) -> bool:
        return self._kernel.idle

    def target(self) -> dict[str, Any]:
        return {}

    def node_spans(self) -> list[dict[str, Any]]:
        return self._roster.spans()

    async def broken(self) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def validity(self) -> dict[str, Any]:
        if not self._loaded:
            return {"reasons": []}
        return {"reasons": [], "refused": self._loaded.loads.notes(), "heartbeats": self._loaded.heartbeats.gaps()}

    def sources(self) -> list[dict[str, Any]]:
        return [{"name": "model", "error_ns": 0}]

    async def down(self) -> None:
        if self._loaded:
            self._loaded.close()
            write_starts(self._directory, self._loaded.starts())
